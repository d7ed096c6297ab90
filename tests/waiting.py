"""Waits for a condition instead of sleeping."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

Value = TypeVar("Value")
SELDOM = 0.1  #: seconds between two questions in the end


def eventually(condition: Callable[[], Value], within: float = 30.0, every: float = 0.01) -> Value:
    """Return the condition's value soon after it is true; fail the test when it never was."""
    deadline = time.monotonic() + within
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {within:g} s: {condition!r} still gives {value!r}")
        time.sleep(every)
        every = max(every, min(every * 1.25, SELDOM))  # what takes long is asked for less often: asking takes time too
