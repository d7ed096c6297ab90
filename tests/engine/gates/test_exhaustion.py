"""An exhausted quota: how long it is known to have been, and when it probably ended."""

from __future__ import annotations

import pytest

from tabellion.engine.gates.exhaustion import Exhaustion


def test_one_call_too_many_proves_nothing() -> None:
    """A single refusal without a hint may be over at once."""
    assert not Exhaustion(10.0, 10.0, probe_at=10.2).is_proven


def test_a_refused_probe_or_a_hint_proves_it() -> None:
    """The server did not accept anything for a while, or says so; a tiny hint is only about the next call."""
    assert Exhaustion(10.0, 10.2, probes=1).is_proven
    assert Exhaustion(10.0, 22.0, hinted=True).is_proven
    assert not Exhaustion(10.0, 10.1, hinted=True).is_proven


def test_it_ended_between_the_last_refusal_and_the_next_call() -> None:
    """A little nearer to the refusal: a window taken for too short is mended by the next refusal."""
    spell = Exhaustion(10.0, 14.0, probe_at=16.0)
    assert spell.seconds == 4.0
    assert spell.ended_at == pytest.approx(14.8)
