"""The units: systemd accepts them, their commands exist, and documents are read under their hardening."""

from __future__ import annotations

import json
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.deploy.command_lines import check_text, check_variable
from tests.deploy.under_systemd import HEADER, expand
from tests.models.bills import bill
from tests.workers import ROOT

FOLDER = ROOT / "deploy" / "systemd"
UNITS = sorted(FOLDER.glob("*.service"))
PROGRAM = "/opt/tabellion/bin/tabellion"
READ = """
import json, sys
from tabellion.reading import landlock
from tabellion.reading.default_sandbox import default_sandbox
from tabellion.reading.reader import read_local

reading = read_local(sys.argv[1], None, ocr="always")
print(json.dumps([reading.error, [page.source for page in reading.pages], default_sandbox().is_isolated,
                  landlock.version() > 0]))
"""


def settings(path: Path) -> list[tuple[str, str]]:
    """Return the settings of a unit, in order."""
    return re.findall(r"(?m)^(\w+)=(.*)$", path.read_text())


def filter_words() -> list[str]:
    """Return the system call filter of the hardening."""
    return dict(settings(FOLDER / "hardening.conf"))["SystemCallFilter"].split()


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.stem)
def test_a_unit_runs_a_command_with_variables_that_exist(path: Path) -> None:
    """From the installation that the guide makes."""
    found = settings(path)
    command = dict(found)["ExecStart"]
    assert command.startswith(f"{PROGRAM} ")
    check_text(command.replace("%i", "documents"))
    for name, value in found:
        if name == "Environment":
            for assignment in value.split():
                check_variable(assignment.partition("=")[0])
    assert float(dict(found)["TimeoutStopSec"]) > 45 + 15  # TABELLION_GRACE of the example, and what killing takes


def test_the_example_of_variables() -> None:
    """Each is a variable of tabellion, or one that everybody knows."""
    for name, _ in settings(FOLDER / "tabellion.env.example"):
        check_variable(name)


def test_systemd_accepts_the_units(tmp_path: Path) -> None:
    """With their hardening; a wrong directive would only be ignored in production."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not on this machine")
    for path in UNITS:
        unit = tmp_path / path.name.replace("@", "@documents")
        unit.write_text(path.read_text().replace(PROGRAM, "/bin/true"))
        (tmp_path / f"{unit.name}.d").mkdir()
        shutil.copy(FOLDER / "hardening.conf", tmp_path / f"{unit.name}.d")
    units = [str(path) for path in tmp_path.glob("*.service")]
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *units], capture_output=True, text=True, check=False,
        env={"PATH": "/usr/bin:/bin", "SYSTEMD_UNIT_PATH": f"{tmp_path}:"},
    )  # fmt: skip
    said = [line for line in done.stderr.splitlines() if str(tmp_path) in line or "tabellion" in line]
    assert (done.returncode, said) == (0, [])


@pytest.mark.parametrize(
    ("change", "isolated", "landlock"),
    [("as written", True, True), ("without landlock", True, False), ("without namespaces", False, True)],
)
def test_documents_are_read_under_the_hardening(tmp_path: Path, change: str, isolated: bool, landlock: bool) -> None:
    """With its system calls only, no capabilities, no writable and executable memory: OCR works, and children are
    confined. The table of the guide says what is lost with the usual directives instead."""
    if shutil.which("systemd-analyze") is None or not HEADER.exists() or platform.machine() != "x86_64":
        pytest.skip("systemd-analyze, or the numbers of system calls, are not on this machine")
    paper = tmp_path / "bill.pdf"
    paper.write_bytes(bill("Total: 12.00"))
    calls = expand(["@system-service"] if change == "without landlock" else filter_words())
    calls -= {"unshare"} if change == "without namespaces" else set()
    free, confined = (
        json.loads(subprocess.run([*before, sys.executable, "-c", READ, str(paper)], capture_output=True, text=True,
                                  check=True, cwd=ROOT).stdout)
        for before in ([], [sys.executable, "-m", "tests.deploy.under_systemd", ",".join(sorted(calls))])
    )  # fmt: skip
    assert free[:2] == confined[:2] == [None, ["ocr"]]
    assert confined[2:] == [isolated and free[2], landlock and free[3]]
