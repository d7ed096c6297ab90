"""Drops the Linux capabilities of this process, the rights of root, permanently."""

from __future__ import annotations

import ctypes
import struct
import sys

PR_CAPBSET_DROP = 24
VERSION = 0x20080522  #: of the structures below: two words of 32 rights each
READ_ANY_FILE = 2  #: CAP_DAC_READ_SEARCH
LAST = 63


def give_up(*, keep_reading: bool = False) -> bool:
    """Drops all capabilities, optionally except reading any file; returns whether that worked."""
    if sys.platform != "linux":
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    for number in range(LAST + 1):
        libc.prctl(PR_CAPBSET_DROP, number, 0, 0, 0)  # fails for numbers that do not exist, or without the right to
    remaining = 1 << READ_ANY_FILE if keep_reading else 0
    header = ctypes.create_string_buffer(struct.pack("Ii", VERSION, 0))
    rights = ctypes.create_string_buffer(struct.pack("6I", remaining, remaining, 0, 0, 0, 0))
    return bool(libc.capset(header, rights) == 0)
