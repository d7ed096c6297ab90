"""The history of calls: exact for recent calls, approximate for old ones, and always short."""

from __future__ import annotations

import pytest

from tabellion.engine.gates.passed_calls import MOST, PassedCalls


def evenly(rate: float, seconds: float, window: float = 60.0) -> PassedCalls:
    calls = PassedCalls([])
    for number in range(int(rate * seconds)):
        calls.add(1000 + number / rate, window)
    return calls


@pytest.mark.parametrize("rate", [0.5, 10, 300])
@pytest.mark.parametrize("window", [1, 20, 60])
def test_the_rate_of_a_window_is_measured(rate: float, window: float) -> None:
    """It is correct however fast calls come and however much of the past was thinned out."""
    calls = evenly(rate, 200, window=2.2 * window)
    end = calls.entries[-1][0]
    assert calls.rate(end, max(window, 10 / rate)) == pytest.approx(rate, rel=0.03)
    assert len(calls.entries) <= MOST + 1


def test_slots_taken_back_are_forgotten() -> None:
    """Slots that were taken back did not become calls."""
    calls = evenly(10, 5)
    calls.cut(1003.0, calls.until(1003.0))
    assert calls.until(1010.0) == pytest.approx(31, abs=1)


def test_a_refused_call_no_longer_counts() -> None:
    """It is left out from its own time on, and not before."""
    calls = evenly(10, 5)
    before = calls.until(1002.0), calls.until(1004.0)
    calls.refuse(1003.0)
    assert (calls.until(1002.0), calls.until(1004.0)) == (before[0], before[1] - 1)


def test_an_empty_or_short_history_has_a_rate_too() -> None:
    """The time before the first call counts as having no calls."""
    assert PassedCalls([]).until(5.0) == 0.0
    assert evenly(10, 1).until(1.0) == 0.0
