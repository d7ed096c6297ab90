"""The adaptive policy against servers that refuse calls, on a virtual clock."""

from __future__ import annotations

import itertools
import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabellion.engine.gates.adaptive import Adaptive, SavedAdaptive
from tabellion.engine.gates.limiter import HORIZON, Classic, Limiter, Rates
from tabellion.engine.gates.state import DEFAULT_RATES

WIDE = Rates(3.0, 0.1, 1000.0)


@dataclass
class Server:
    """Accepts up to this many calls per second and refuses the others."""

    quota: Callable[[float], float]
    kind: str = "sliding"
    hint: float | None = None
    accepted: deque[float] = field(default_factory=deque)
    tokens: float = 0.0
    at: float = 0.0

    def call(self, now: float) -> bool:
        """Return whether the call was accepted."""
        quota = self.quota(now)
        if self.kind == "bucket":
            self.tokens = min(quota, self.tokens + (now - self.at) * quota)
            self.at = now
            if self.tokens < 1:
                return False
            self.tokens -= 1
            return True
        if self.kind == "fixed":
            while self.accepted and math.floor(self.accepted[0]) < math.floor(now):
                self.accepted.popleft()
        else:
            while self.accepted and self.accepted[0] <= now - 1:
                self.accepted.popleft()
        if len(self.accepted) >= quota:
            return False
        self.accepted.append(now)
        return True


def drive(limiter: Limiter, server: Server, seconds: float, *, latency: float = 0.05) -> list[tuple[float, bool]]:
    """Run callers who always want more, a few slots at a time; return when each call was made and its outcome."""
    now, calls = 1000.0, []
    end = now + seconds
    slots: deque[tuple[float, int]] = deque()
    answers: deque[tuple[float, bool, int]] = deque()
    while now < end:
        now = round(now + 0.005, 6)
        while answers and answers[0][0] <= now:
            _, fine, epoch = answers.popleft()
            if fine:
                limiter.record_success(now, 1)
            else:
                limiter.record_throttle(now, server.hint, epoch)
                slots = deque(slot for slot in slots if slot[1] == limiter.epoch)
        if not slots and now >= limiter.next_slot(now):
            slots.extend((at, limiter.epoch) for at in limiter.grant(now, 4))
        while slots and slots[0][0] <= now:
            _, epoch = slots.popleft()
            fine = server.call(now)
            calls.append((now - 1000.0, fine))
            answers.append((now + latency, fine, epoch))
    return calls


def judge(calls: list[tuple[float, bool]], begin: float, end: float) -> tuple[float, float]:
    """Return accepted calls per second between two times, and the share of refused calls."""
    within = [fine for at, fine in calls if begin <= at < end]
    return sum(within) / (end - begin), 1 - sum(within) / max(1, len(within))


@pytest.mark.parametrize("kind", ["sliding", "fixed", "bucket"])
@pytest.mark.parametrize("quota", [2, 20, 200])
def test_adaptive_finds_a_quota_and_stays_just_below_it(kind: str, quota: int) -> None:
    """After 15 seconds at least 90 % of a steady quota is used, and at most 1 % of the calls are refused."""
    calls = drive(Adaptive(WIDE), Server(lambda _: quota, kind), 15 + 120)
    rate, refused = judge(calls, 15, 135)
    assert rate >= (0.9 if quota >= 20 else 0.85) * quota
    assert refused <= 0.01 if quota >= 20 else refused <= 0.05


@pytest.mark.parametrize("kind", ["sliding", "fixed", "bucket"])
def test_adaptive_follows_a_quota_that_moves(kind: str) -> None:
    """A quota that triples or falls to a twelfth is followed within 30 seconds."""
    quota = lambda now: 20 if now < 1060 else 60 if now < 1120 else 5  # noqa: E731
    calls = drive(Adaptive(WIDE), Server(quota, kind), 180)
    assert judge(calls, 30, 60)[0] >= 0.9 * 20
    assert judge(calls, 90, 120)[0] >= 0.88 * 60
    rate, refused = judge(calls, 150, 180)
    assert rate >= 0.85 * 5
    assert refused <= 0.1


def test_adaptive_uses_more_of_a_quota_than_classic() -> None:
    """On a steady quota of 8 per second, which both can reach, adaptive uses what classic wastes in pauses."""
    classic = judge(drive(Classic(DEFAULT_RATES["classic"]), Server(lambda _: 8), 120), 15, 120)
    adaptive = judge(drive(Adaptive(DEFAULT_RATES["adaptive"]), Server(lambda _: 8), 120), 15, 120)
    assert adaptive[0] > 1.3 * classic[0]


def test_parallel_refusals_lower_the_rate_once() -> None:
    """Five calls made together and refused together lower the rate once."""
    limiter = Adaptive(WIDE, rate=20.0)
    limiter.grant(1000.0, 5)
    for _ in range(5):
        limiter.record_throttle(1000.1, None, 0)
    assert limiter.epoch == 1
    assert limiter.rate == pytest.approx(9.5)


def test_the_servers_retry_hint_is_obeyed() -> None:
    """No call is made before the time the server named, whatever the rate would allow."""
    limiter = Adaptive(WIDE, rate=20.0)
    limiter.record_throttle(1000.0, 36.0, 0)
    assert limiter.grant(1034.0, 5) == []
    assert min(limiter.grant(1035.5, 5)) >= 1036.0


def test_an_idle_gate_does_not_speed_up() -> None:
    """Without demand nothing is learned: the rate stays as it was."""
    limiter = Adaptive(WIDE, rate=5.0)
    limiter.grant(1000.0, 1)
    limiter.grant(2000.0, 1)
    assert limiter.rate == pytest.approx(5.0, rel=0.01)


@given(st.integers(1, 500), st.floats(0.1, 500))
def test_slots_are_spaced_evenly_and_not_far_ahead(want: int, rate: float) -> None:
    """Slots are one interval apart and within the horizon."""
    limiter = Adaptive(Rates(rate, rate, rate))
    slots = limiter.grant(1000.0, want)
    assert len(slots) >= 1
    assert all(at <= 1000.0 + HORIZON for at in slots)
    assert all(later - sooner == pytest.approx(1 / rate) for sooner, later in itertools.pairwise(slots))


def test_the_learned_state_survives_a_restart() -> None:
    """A saved state is loaded and continued; a state saved by another version is ignored."""
    limiter = Adaptive(WIDE, rate=20.0)
    limiter.record_throttle(1000.0, None, 0)
    again = Adaptive.load(WIDE, cast(SavedAdaptive, {**limiter.as_dict(), "something_newer": 1}))
    assert again == limiter
