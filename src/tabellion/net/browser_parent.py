"""Runs as the parent of a browser, and kills all of its processes when their owner is gone.

    python -I -S browser_parent.py OWNER-PID OWNER-START FOLDER PROGRAM ARGUMENTS…

Playwright's driver closes its browsers when its client ends, but the driver itself may be killed, stopped or busy. This
process waits for the end of the owner, of the driver (its parent) or of the browser. It imports nothing of tabellion.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import shutil
import signal
import sys
import time
from pathlib import Path

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
PF_EXITING = 4  #: the kernel's flag of a process that is ending
STREAMS = 5  #: the standard ones, and Playwright's two pipes to the browser
PROFILE = "--user-data-dir="


def read_start_time(pid: int) -> str:
    """The start time of a process in the kernel's units; empty if the process is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


def _is_ending(pid: int) -> bool:
    """Whether a process is on its way out: its pipes are closed, and the driver ends the browser, before it is gone."""
    try:
        return bool(int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[6]) & PF_EXITING)
    except (OSError, IndexError):
        return True


def main(arguments: list[str]) -> int:
    """Starts the browser, waits until a process ends, cleans up, and returns the browser's exit code."""
    owner, owner_started, folder, *command = arguments
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)  # adopt orphans of the browser
    driver = os.getppid()
    own = os.getpid()
    watched = []
    try:
        watched = [os.pidfd_open(int(owner)), os.pidfd_open(driver)]
    except OSError:
        return 1
    if read_start_time(int(owner)) != owner_started:
        return 1
    browser = os.fork()
    if not browser:
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() == own:
            os.execv(command[0], command)  # noqa: S606 - the program that the owner chose
        os._exit(1)
    watched.append(os.pidfd_open(browser))
    _release_streams()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: os.kill(browser, signal.SIGTERM))
    _wait(watched)

    def end_driver_of_dead_owner() -> bool:
        if _is_ending(int(owner)) or read_start_time(int(owner)) != owner_started:
            with contextlib.suppress(OSError):
                signal.pidfd_send_signal(watched[1], signal.SIGKILL)  # it may be stopped or busy
            _wait(watched[1:2], 5)
            return True
        return False

    # First of all: a driver that closes its browsers kills this process too, and still writes to the folders.
    end_driver_of_dead_owner()
    code = _kill_family(browser)
    profile = next((option.removeprefix(PROFILE) for option in command if option.startswith(PROFILE)), "")
    if profile:
        _remove(profile)
    if end_driver_of_dead_owner():
        _remove(folder)
    return code


def _remove(folder: str) -> None:
    """Removes a folder; again if a process that is about to end has written to it meanwhile."""
    deadline = time.monotonic() + 5
    while os.path.exists(folder) and time.monotonic() < deadline:
        shutil.rmtree(folder, ignore_errors=True)
        time.sleep(0.01)


def _release_streams() -> None:
    """Closes our copies: the driver takes their end for the end of the browser."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in range(STREAMS):
        os.dup2(nothing, number)


def _wait(watched: list[int], seconds: float | None = None) -> None:
    """Returns when one of these processes has ended, or after so many seconds."""
    poll = select.poll()
    for handle in watched:
        poll.register(handle, select.POLLIN)
    poll.poll(None if seconds is None else seconds * 1000)


def _kill_family(browser: int) -> int:
    """Kills the browser and every process it has started, and returns its exit code."""
    code = 1
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        for pid in _descendants(os.getpid()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            break
        if pid == browser:
            code = os.waitstatus_to_exitcode(status)
        if not pid:
            time.sleep(0.01)
    return code if code >= 0 else 128 - code


def _descendants(pid: int) -> list[int]:
    """All descendants of a process, parents before their children."""
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdecimal():
            with contextlib.suppress(OSError, IndexError, ValueError):
                fields = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()
                children.setdefault(int(fields[1]), []).append(int(entry))
    found: list[int] = []
    waiting = [pid]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += below
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
