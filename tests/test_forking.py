"""Programs that tests start by a fork are processes like any other."""

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
    """Whose child a process is."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def is_forked(pid: int) -> bool:
    """Whether a process was forked and not started anew."""
    return b"tests.forking" in Path(f"/proc/{pid}/cmdline").read_bytes()


def test_a_forked_program_is_a_child_that_can_be_killed(tmp_path: Path) -> None:
    """It has its own session and folder, the streams it was given, and dies like others do."""
    with Popen(MODEL, stdout=subprocess.PIPE, cwd=tmp_path, start_new_session=True) as process:
        assert process.stdout is not None
        assert b"http://" in process.stdout.readline()
        assert is_forked(process.pid)
        assert parent(process.pid) == os.getpid()
        assert os.getsid(process.pid) == process.pid
        assert os.readlink(f"/proc/{process.pid}/cwd") == str(tmp_path)
        process.kill()
        assert process.wait(30) == -signal.SIGKILL


def test_what_it_prints_and_its_exit_code_come_back() -> None:
    """Whoever runs it sees what a new interpreter would say."""
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
def test_what_needs_a_new_interpreter_gets_one(options: dict[str, object]) -> None:
    """Variables that are read when Python starts, and what is to be done between fork and start."""
    with Popen(MODEL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options) as process:  # type: ignore[call-overload]
        try:
            assert not is_forked(process.pid)
        finally:
            process.kill()


def test_the_child_of_a_sandbox_is_forked_too() -> None:
    """It has what other children have, and ends with its sandbox."""
    with sandbox.Sandbox(size=1) as pool:
        assert pool.isolated
        (child,) = pool._idle
        pid = child._process.pid
        assert is_forked(pid)
        assert parent(pid) == os.getpid()
        assert os.getsid(pid) == pid
    assert not Path(f"/proc/{pid}").exists()
