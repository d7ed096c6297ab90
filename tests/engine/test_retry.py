"""When a failed job is retried."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabellion.engine import retry


@pytest.mark.parametrize(("attempt", "step"), [(1, 10), (2, 20), (3, 40), (4, 80)])
def test_delay_doubles(attempt: int, step: float) -> None:
    """The delay is base·2ⁿ, plus at most half of that."""
    assert retry.delay(10, attempt, jitter=0) == step
    assert retry.delay(10, attempt, jitter=1) == step * 1.5


@given(base=st.floats(0.01, 10_000), attempt=st.integers(1, 10_000))
def test_delay_is_bounded(base: float, attempt: int) -> None:
    """However many attempts there were, the delay stays between the step and 1.5 times the longest delay."""
    longest = max(retry.LONGEST_DELAY, base)
    step = min(base * 2.0 ** min(attempt - 1, 32), longest)
    assert step <= retry.delay(base, attempt) <= step * 1.5 <= longest * 1.5


def test_a_base_beyond_the_longest_delay_is_kept() -> None:
    """A declared base of two hours is waited before every retry."""
    assert [retry.delay(7200, attempt, jitter=0) for attempt in (1, 2, 9)] == [7200, 7200, 7200]
    assert [retry.delay(3000, attempt, jitter=0) for attempt in (1, 2, 9)] == [3000, 3600, 3600]


def test_delay_is_spread() -> None:
    """Jobs that failed together are not retried together."""
    assert len({retry.delay(10, 1) for _ in range(50)}) > 40


def test_waits_replace_the_doubling() -> None:
    """Each retry has its own wait, and the last one applies to all that follow; the spread stays."""
    assert [retry.delay(10, attempt, jitter=0, waits=(5, 60, 7200)) for attempt in (1, 2, 3, 4, 9)] == [
        5, 60, 7200, 7200, 7200,
    ]  # fmt: skip
    assert retry.delay(10, 1, jitter=1, waits=(5,)) == 7.5
