"""Restricts the files of this process permanently: it can only open and read those below the given folders.

Uses Landlock, available since Linux 5.13. Files that are already open stay open.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import struct
import sys
from collections.abc import Iterable

CREATE, ADD, RESTRICT = 444, 445, 446  #: the same numbers on every machine
VERSION, PATH_BENEATH = 1, 1
EXECUTE, READ_FILE, READ_FOLDER = 1 << 0, 1 << 2, 1 << 3
#: File rights by Landlock version: all of them are dropped.
KNOWN = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 4: (1 << 15) - 1, 5: (1 << 16) - 1}
SIGNALS_AND_SOCKETS = 0b11  #: from version 6: abstract unix sockets, and signals to processes outside
#: Libraries and the files they read, beside Python itself.
SYSTEM = (
    "/usr/lib", "/usr/lib64", "/usr/local/lib", "/usr/share", "/lib", "/lib64", "/etc/ld.so.cache", "/etc/localtime",
    "/etc/fonts", "/dev/null", "/dev/urandom", "/proc/self", "/proc/cpuinfo", "/proc/meminfo", "/proc/sys/vm",
    "/sys/devices/system/cpu",
)  # fmt: skip


def version() -> int:
    """The version of Landlock in this kernel; 0 where it is missing or disabled."""
    if sys.platform != "linux":
        return 0
    return max(0, int(_call(CREATE, None, 0, VERSION)))


def python_folders() -> list[str]:
    """The folders of this Python and its packages.

    Not the current folder, nor the whole folder of an environment: both may contain other files.
    """
    prefixes = [
        os.path.join(os.path.realpath(prefix), library)
        for prefix in (sys.prefix, sys.base_prefix, sys.exec_prefix)
        for library in ("lib", "lib64")
    ]
    inside = [path for path in map(os.path.realpath, sys.path) if path.endswith(("site-packages", "dist-packages"))]
    return [*prefixes, *inside, os.path.dirname(os.path.dirname(os.path.realpath(__file__)))]


def leave_only(paths: Iterable[str]) -> bool:
    """Allows only these files and those below these folders, for reading; returns whether that worked."""
    number = version()
    if not number:
        return False
    rights = KNOWN.get(number, KNOWN[max(KNOWN)])
    attributes = struct.pack("QQQ", rights, 0, SIGNALS_AND_SOCKETS if number >= 6 else 0)
    attributes = attributes[: 24 if number >= 6 else 16 if number >= 4 else 8]
    rules = _call(CREATE, ctypes.create_string_buffer(attributes, len(attributes)), len(attributes), 0)
    if rules < 0:
        return False
    try:
        for path in dict.fromkeys(paths):
            with contextlib.suppress(OSError):
                _add(rules, path)
        return bool(_call(RESTRICT, rules, 0) == 0)
    finally:
        os.close(rules)


def _add(rules: int, path: str) -> None:
    handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        rights = READ_FILE | READ_FOLDER if os.path.isdir(path) else READ_FILE
        rule = struct.pack("=Qi", rights, handle)
        _call(ADD, rules, PATH_BENEATH, ctypes.create_string_buffer(rule, len(rule)), 0)
    finally:
        os.close(handle)


def _call(number: int, *values: object) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    return int(libc.syscall(ctypes.c_long(number), *values))
