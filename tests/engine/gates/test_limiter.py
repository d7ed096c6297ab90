"""The classic policy against its specification."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabellion.engine.gates.limiter import Classic
from tabellion.engine.gates.state import DEFAULT_RATES


@dataclass
class Seed:
    """The algorithm of seed 004 as written there, in milliseconds."""

    tokens: float = 5
    max_tokens: float = 5
    refill_rate: float = 3
    last_refill: float = 0
    consecutive_successes: int = 0
    consecutive_429s: int = 0
    backoff_until: float = 0

    def can_make_request(self, now: float) -> bool:
        """canMakeRequest."""
        if self.backoff_until and now < self.backoff_until:
            return False
        elapsed = (now - self.last_refill) / 1000
        self.tokens = min(self.max_tokens, self.tokens + elapsed * self.refill_rate)
        self.last_refill = now
        return self.tokens >= 1

    def on_success(self) -> None:
        """onSuccess."""
        self.consecutive_successes += 1
        self.consecutive_429s = 0
        if self.consecutive_successes >= 10:
            self.max_tokens = min(15, self.max_tokens + 1)
            self.refill_rate = min(10, self.refill_rate + 0.5)
            self.consecutive_successes = 0

    def on_rate_limit(self, now: float) -> None:
        """onRateLimit."""
        self.consecutive_429s += 1
        self.consecutive_successes = 0
        self.max_tokens = max(2, self.max_tokens - 2)
        self.refill_rate = max(1, self.refill_rate - 1)
        self.backoff_until = now + min(60000, 1000 * 2**self.consecutive_429s)


steps = st.lists(
    st.tuples(st.integers(0, 5000), st.sampled_from(["ask", "ask", "ask", "success", "success", "429"])), max_size=200
)


@given(steps)
def test_classic_behaves_as_specified(moves: list[tuple[int, str]]) -> None:
    """Whatever happens and whenever: the same tokens, rate and pauses as the pseudo-code of the seed."""
    began = 1_000_000
    seed, ours, now = Seed(last_refill=began), Classic(DEFAULT_RATES["classic"], last_refill=began / 1000), began
    for passed, move in moves:
        now += passed
        if move == "ask":
            allowed = seed.can_make_request(now)
            if allowed:
                seed.tokens -= 1
            assert bool(ours.grant(now / 1000, 1)) == allowed
        elif move == "success":
            seed.on_success()
            ours.record_success(now / 1000, 1)
        else:
            seed.on_rate_limit(now)
            ours.record_throttle(now / 1000, None, ours.epoch)
        assert ours.max_tokens == seed.max_tokens
        assert ours.refill_rate == seed.refill_rate
        assert ours.tokens == pytest.approx(seed.tokens)
        assert ours.backoff_until == pytest.approx(seed.backoff_until / 1000)
