"""Ids that sort by time, for rows that the database does not number."""

from __future__ import annotations

import secrets
import threading
import time

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # no i, l, o, u: ids are read aloud and typed
_counting = threading.Lock()
_newest = 0  #: the last number that became an id


def new_id() -> str:
    """An id that sorts by time: 10 characters of milliseconds, 16 random ones; increasing within a process."""
    global _newest
    with _counting:
        number = (time.time_ns() // 1_000_000 << 80) | secrets.randbits(80)
        if number >> 80 <= _newest >> 80:
            number = _newest + 1 + secrets.randbits(40)
        _newest = number
    return "".join(_ALPHABET[number >> shift & 31] for shift in range(125, -1, -5))


def is_id(text: str) -> bool:
    """Whether a text can be such an id."""
    return len(text) == 26 and all(sign in _ALPHABET for sign in text)
