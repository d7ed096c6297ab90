"""Waits for a condition instead of sleeping."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

Value = TypeVar("Value")


def eventually(condition: Callable[[], Value], within: float = 30.0, every: float = 0.01) -> Value:
    """Return the condition's value as soon as it is true; fail the test when it never was."""
    deadline = time.monotonic() + within
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {within:g} s: {condition!r} still gives {value!r}")
        time.sleep(every)
