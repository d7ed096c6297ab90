"""A fleet against every kind of quota, on a virtual clock: how much of it is used, and how much is refused.

The promise: after a minute or five windows of learning, whichever is longer, at least 92 % of the quota is used and at
most 2 % of the calls are refused; again after the quota was raised, and after it was lowered.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import pytest

from tabellion.engine.gates.adaptive import Adaptive
from tabellion.models.fake.quota import QuotaKind, TokenBucket
from tests.engine.fleet import Fleet

KINDS: list[QuotaKind] = ["bucket", "fixed", "sliding"]
LEAST_USED, MOST_REFUSED = 0.92, 0.02


@dataclass
class Outage:
    """A server that refuses everything until a certain time."""

    rate: float
    until: float

    def take(self, now: float) -> float:
        """Return the seconds until then."""
        return self.until - now


def learning(seconds: float) -> float:
    """Return how long a quota with a window of this length takes to be learned."""
    return max(60.0, 5 * seconds)


def learned(fleet: Fleet) -> Adaptive:
    """Return what the fleet knows of its quota."""
    assert isinstance(fleet.state.limiter, Adaptive)
    return fleet.state.limiter


@pytest.mark.parametrize("hints", [False, True], ids=["bare", "hints"])
@pytest.mark.parametrize("seconds", [1, 10, 20, 60])
@pytest.mark.parametrize("kind", KINDS)
def test_a_quota_is_used_and_kept(kind: QuotaKind, seconds: float, hints: bool) -> None:
    """Ten calls a second on average, then thirty, then five: used and kept, however the server counts them."""
    fleet = Fleet(kind, seconds, 10, hints=hints)
    begin, measured = 0.0, max(60.0, 3 * seconds)
    for rate in (10, 30, 5):
        fleet.quota.rate = rate
        fleet.run(learning(seconds) + measured)
        begin += learning(seconds)
        passed, refused = fleet.judge(begin, begin + measured)
        begin += measured
        assert passed / rate >= LEAST_USED
        assert refused <= MOST_REFUSED


@pytest.mark.parametrize("kind", KINDS)
def test_slow_refusals_are_learned_too(kind: QuotaKind) -> None:
    """A server that takes 0.15 s to refuse is learned as well: calls in flight are waited for."""
    fleet = Fleet(kind, 20, 10, refusal=0.15)
    fleet.run(300)
    passed, refused = fleet.judge(100, 300)
    assert passed / 10 >= LEAST_USED
    assert refused <= MOST_REFUSED


def test_an_exhausted_window_gets_few_calls() -> None:
    """In the first windows, still unknown, all is used, and an exhausted one is probed a few times, not constantly."""
    fleet = Fleet("fixed", 60, 10, phase=0.5)
    fleet.run(30 + 60)
    assert sum(passed for _, passed in fleet.calls) == 1200
    refused = [at for at, passed in fleet.calls if not passed]
    assert len(refused) < 60
    assert max(later - sooner for sooner, later in itertools.pairwise(refused)) > 5


@pytest.mark.parametrize("hints", [False, True], ids=["bare", "hints"])
@pytest.mark.parametrize("seconds", [10, 20, 60])
def test_the_length_of_a_fixed_window_is_learned(seconds: float, hints: bool) -> None:
    """It is measured from the end of one exhausted window to the end of the next."""
    fleet = Fleet("fixed", seconds, 10, hints=hints)
    fleet.run(learning(seconds))
    assert learned(fleet).window == pytest.approx(seconds, rel=0.2)
    assert learned(fleet).limit == pytest.approx(10, rel=0.1)


def test_the_row_holds_the_whole_state() -> None:
    """A fleet whose state is written and read as JSON at every turn behaves exactly the same."""
    fleets = Fleet("fixed", 10, 10), Fleet("fixed", 10, 10, through_json=True)
    for fleet in fleets:
        fleet.run(60)
    assert fleets[0].calls == fleets[1].calls
    assert len(fleets[0].state.dump()) < 6000


@pytest.mark.parametrize("hints", [False, True], ids=["bare", "hints"])
def test_refusals_for_minutes_are_not_taken_for_a_window(hints: bool) -> None:
    """A server that refuses everything for ten minutes is probed every 30 seconds, and then used as before."""
    fleet = Fleet("bucket", 1, 10, hints=hints)
    fleet.run(120)
    before = learned(fleet).limit
    fleet.quota = Outage(0.0, until=fleet.now + 610)
    fleet.run(600)
    assert sum(not passed for at, passed in fleet.calls if at - fleet.began > 420) < 15
    assert learned(fleet).limit == before
    fleet.quota = TokenBucket(10, fleet.now)
    fleet.run(120)
    assert fleet.judge(780, 840)[0] >= 9.2


def test_demand_below_the_quota_is_not_slowed_down() -> None:
    """A few callers who never reach the quota are not refused, and the fleet learns nothing from them."""
    fleet = Fleet("fixed", 20, 10, processes=1, callers=2)
    fleet.run(120)
    passed, refused = fleet.judge(20, 120)
    assert refused == 0
    assert passed == pytest.approx(2 / 0.4, rel=0.1)
