"""Starts a worker in its own process group and leaves nothing of it behind."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tests.servers import die_with_parent

ROOT = Path(__file__).resolve().parent.parent
GRACE = 10.0


@contextlib.contextmanager
def worker(command: Sequence[str], env: Mapping[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """A running worker; at the end it is asked to stop, then its process group is killed.

    Raises RuntimeError with the end of the worker's output when it died by itself.
    """
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            command, cwd=ROOT, env=os.environ | dict(env), stdout=log, stderr=log,
            process_group=0, preexec_fn=die_with_parent,
        )  # fmt: skip
        died = None
        try:
            yield process
        except TimeoutError as error:
            log.seek(0)
            tail = log.read()[-3000:].decode(errors="replace")
            raise TimeoutError(f"{error}\nthe worker said:\n{tail}") from error
        finally:
            died = process.poll()
            stop(process)
        if died not in (None, 0):
            log.seek(0)
            tail = log.read()[-3000:].decode(errors="replace")
            raise RuntimeError(f"the worker ended with {died}:\n{tail}")


def stop(process: subprocess.Popen[bytes]) -> None:
    """Ask one process to end, wait, and kill its group."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(GRACE)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(GRACE)


def end_session(session: int) -> None:
    """Kills, one by one, the processes of a session that this program opened.

    A killed peer cannot stop its own workers; they are in other groups but in the same session.
    """
    for _ in range(3):
        members = session_members(session)
        if not members:
            return
        for pid in members:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.1)


def session_members(session: int) -> list[int]:
    """Return the ids of the live processes of a session."""
    members = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                state, _, _, owner = (entry / "stat").read_text().rpartition(")")[2].split()[:4]
                if int(owner) == session and state != "Z":
                    members.append(int(entry.name))
    return members
