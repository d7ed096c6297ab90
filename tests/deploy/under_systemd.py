"""Runs a command as a unit's hardening would: its system calls, no new privileges, no writable and executable memory.

python -m tests.deploy.under_systemd CALL,CALL,… COMMAND…
"""

from __future__ import annotations

import ctypes
import errno
import functools
import os
import re
import struct
import subprocess
import sys
from pathlib import Path

from tabellion.reading import seccomp

HEADER = Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h")
PR_SET_NO_NEW_PRIVS, PR_CAPBSET_DROP, PR_SET_MDWE = 38, 24, 65


@functools.cache
def numbers() -> dict[str, int]:
    """Return the number of each system call of this machine."""
    found = re.findall(r"#define __NR_(\w+) (\d+)", HEADER.read_text())
    return {name: int(number) for name, number in found}


def expand(words: list[str]) -> set[str]:
    """Return the system calls of a filter; systemd itself knows what is in its groups."""
    calls: set[str] = set()
    for word in words:
        if word.startswith("@"):
            command = ["systemd-analyze", "syscall-filter", word]
            lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[1:]
            calls |= expand([line.strip() for line in lines if line.strip() and not line.strip().startswith("#")])
        else:
            calls.add(word)
    return calls


def confine(calls: set[str]) -> None:
    """Allow this process and its children only these calls, for good; the others fail with EPERM."""
    libc = ctypes.CDLL(None, use_errno=True)
    for number in range(64):
        libc.prctl(PR_CAPBSET_DROP, number, 0, 0, 0)
    assert libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
    if libc.prctl(PR_SET_MDWE, 1, 0, 0, 0):
        print("this kernel is older than 6.3: memory may be writable and executable", file=sys.stderr)
    steps = [(seccomp.LOAD, 0, 0, seccomp.NUMBER)]
    for number in sorted(numbers()[name] for name in calls if name in numbers()):
        steps += [(seccomp.EQUAL, 0, 1, number), (seccomp.RETURN, 0, 0, seccomp.ALLOW)]
    steps.append((seccomp.RETURN, 0, 0, seccomp.FAIL | errno.EPERM))
    code = b"".join(struct.pack("HBBI", operation, yes, no, value) for operation, yes, no, value in steps)
    text = ctypes.create_string_buffer(code, len(code))
    program = struct.pack("HxxxxxxP", len(steps), ctypes.addressof(text))
    pointer = ctypes.create_string_buffer(program, len(program))
    assert libc.prctl(seccomp.PR_SET_SECCOMP, seccomp.SECCOMP_MODE_FILTER, ctypes.byref(pointer), 0, 0) == 0


if __name__ == "__main__":
    confine(set(sys.argv[1].split(",")))
    os.execvp(sys.argv[2], sys.argv[2:])
