"""The shared gate in the shape of the status answer."""

from __future__ import annotations

import pytest

from tabellion.engine.gates.state import CallOutcomes, GateSettings, GateState, ThrottledCall
from tabellion.pipelines.batches.rate_limiter import describe, read_limiter
from tests.workers import ask

NOW = 1_800_000_000.0


def test_classic_shows_its_bucket() -> None:
    """Tokens, size and rate are those of the description; a refusal shows the end of the pause."""
    state = GateState.load(GateSettings(profile="classic"), None)
    state.turn(NOW, CallOutcomes(), 2)
    assert describe(state, NOW) == {"tokens": 3, "max_tokens": 5, "rps": 3}
    assert describe(state, NOW + 0.5)["tokens"] == pytest.approx(4.5)
    state.record_outcomes(NOW + 1, CallOutcomes(throttled=[ThrottledCall(None, state.limiter.epoch)]))
    found = describe(state, NOW + 1)
    assert (found["tokens"], found["max_tokens"], found["rps"]) == (0, 3, 2)
    assert found["backoff_until"] == "2027-01-15T08:00:03.000Z"


def test_adaptive_shows_calls_of_the_next_second() -> None:
    """It has no tokens: what may start within a second stands for them."""
    state = GateState.load(GateSettings(rate=20), None)
    assert describe(state, NOW) == {"tokens": 20, "max_tokens": 20, "rps": 20}


def test_adaptive_pauses_only_after_a_refusal() -> None:
    """A fleet that uses the whole rate has no slot left, and goes on; after a refusal nothing starts for a while."""
    state = GateState.load(GateSettings(rate=20), None)
    state.turn(NOW, CallOutcomes(), 100)
    busy = describe(state, NOW)
    assert "backoff_until" not in busy
    assert busy["tokens"] > 0
    state.record_outcomes(NOW + 1, CallOutcomes(throttled=[ThrottledCall(5.0, state.limiter.epoch)]))
    refused = describe(state, NOW + 1)
    assert refused["tokens"] == 0
    assert refused["backoff_until"] == "2027-01-15T08:00:06.000Z"
    assert "backoff_until" not in describe(state, NOW + 6.1)


def test_a_closed_gate_shows_when_it_may_open() -> None:
    """Its breaker opened after failures in a row."""
    state = GateState.load(GateSettings(threshold=2, recovery=60), None)
    state.record_outcomes(NOW, CallOutcomes(failed=2, why="503"))
    found = describe(state, NOW)
    assert found["tokens"] == 0
    assert found["backoff_until"] == "2027-01-15T08:01:00.000Z"


def test_without_a_gate_slots_are_the_limit(url: str) -> None:
    """Local OCR has none."""
    assert ask(url, lambda store: read_limiter(store, None, None, 4)) == {"tokens": 4, "max_tokens": 4, "rps": 0}


def test_the_state_is_the_one_in_the_database(url: str) -> None:
    """A gate that was never used has its configured rate."""
    found = ask(url, lambda store: read_limiter(store, "openai", GateSettings(rate=7), 4))
    assert found["rps"] == 7
