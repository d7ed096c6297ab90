"""Programs that tests start by a fork behave like any other process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tabellion.reading import sandbox
from tests.forking import Popen

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="adopting processes is Linux's")
MODEL = [sys.executable, "-m", "tabellion", "fake-model", "--port", "0", "--json"]


def parent(pid: int) -> int:
    """Return the parent of a process."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def is_forked(pid: int) -> bool:
    """Return whether a process was forked and not started."""
    return b"tests.forking" in Path(f"/proc/{pid}/cmdline").read_bytes()


def test_a_forked_program_is_a_child_that_can_be_killed(tmp_path: Path) -> None:
    """It has its own session and folder, the streams it was given, and can be killed."""
    with Popen(MODEL, stdout=subprocess.PIPE, cwd=tmp_path, start_new_session=True) as process:
        try:
            assert process.stdout is not None
            assert b"http://" in process.stdout.readline()
            assert is_forked(process.pid)
            assert parent(process.pid) == os.getpid()
            assert os.getsid(process.pid) == process.pid
            assert os.readlink(f"/proc/{process.pid}/cwd") == str(tmp_path)
        finally:
            process.kill()
        assert process.wait(30) == -signal.SIGKILL


def test_its_output_and_exit_code_are_returned() -> None:
    """As from a new interpreter."""
    done = subprocess.run([*MODEL, "--knobs", "slow"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith("error: ")


@pytest.mark.parametrize(
    "options",
    [
        {"env": os.environ | {"PYTHONPATH": "/elsewhere"}},
        {"env": os.environ | {"LANG": "C"}},
        {"preexec_fn": os.getpid},
    ],
    ids=["other modules", "another language", "something to do before"],
)
def test_some_programs_get_a_new_interpreter(options: dict[str, object]) -> None:
    """For variables that Python reads at its start, and code to run between fork and start."""
    with Popen(MODEL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options) as process:  # type: ignore[call-overload]
        try:
            assert not is_forked(process.pid)
        finally:
            process.kill()


def test_the_child_of_a_sandbox_is_forked_too() -> None:
    """It has what other children have, and ends with its sandbox."""
    with sandbox.Sandbox(size=1) as pool:
        assert pool.is_isolated
        (child,) = pool._idle
        pid = child._process.pid
        assert is_forked(pid)
        assert parent(pid) == os.getpid()
        assert os.getsid(pid) == pid
    assert not Path(f"/proc/{pid}").exists()
