"""An exhausted quota: for how long it has been exhausted, and when that probably ended."""

from __future__ import annotations

import pytest

from tabellion.engine.gates.exhaustion import Exhaustion


def test_a_single_refusal_does_not_mean_exhausted() -> None:
    """A single refusal without a hint may be over at once."""
    assert not Exhaustion(10.0, 10.0, probe_at=10.2).is_proven


def test_a_refused_probe_or_a_hint_means_exhausted() -> None:
    """The server refused for a while, or says so; a very small hint is only about the next call."""
    assert Exhaustion(10.0, 10.2, probes=1).is_proven
    assert Exhaustion(10.0, 22.0, hinted=True).is_proven
    assert not Exhaustion(10.0, 10.1, hinted=True).is_proven


def test_the_end_is_estimated_between_last_refusal_and_next_call() -> None:
    """The estimate leans to the refusal: a window guessed too short is corrected by the next refusal."""
    spell = Exhaustion(10.0, 14.0, probe_at=16.0)
    assert spell.seconds == 4.0
    assert spell.ended_at == pytest.approx(14.8)
