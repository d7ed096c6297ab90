"""One turn at a gate: rate, breaker and budget together, without a database."""

from __future__ import annotations

import json
from dataclasses import fields

import pytest

from tabellion.engine.gates.adaptive import Adaptive, SavedAdaptive
from tabellion.engine.gates.breaker import Breaker, SavedBreaker
from tabellion.engine.gates.state import (
    DAY,
    KEPT,
    CallOutcome,
    CallOutcomes,
    GateEdits,
    GateSettings,
    GateState,
    SavedGate,
)
from tabellion.errors import ConfigurationError

NOON = 20_000 * DAY + DAY / 2


def state(**settings: object) -> GateState:
    return GateState.load(GateSettings(**settings), None)  # type: ignore[arg-type]


def test_an_open_gate_grants_slots() -> None:
    """As many as requested, as far as the rate allows."""
    turn = state(rate=10).turn(NOON, CallOutcomes(), 5)
    assert len(turn.slots) == 5
    assert not turn.closed


def test_an_outage_closes_it_with_the_reason() -> None:
    """Five failures close the gate, and the reason and the reopening time are reported."""
    gate = state()
    turn = gate.turn(NOON, CallOutcomes(failed=5, why="gemini returned HTTP 503"), 5)
    assert turn.slots == ()
    assert "gemini returned HTTP 503" in turn.closed
    assert turn.reopens == pytest.approx(60)


def test_a_spent_budget_closes_it_until_midnight() -> None:
    """Reaching the day's budget closes the gate until the next day (UTC) begins."""
    gate = state(budget=1.0)
    turn = gate.turn(NOON, CallOutcomes(ok=10, spent=1.0, paid=1.0), 5)
    assert "over budget: $1.00 of $1.00" in turn.closed
    assert turn.reopens == pytest.approx(DAY / 2)
    tomorrow = gate.turn(NOON + DAY / 2 + 1, CallOutcomes(), 5)
    assert not tomorrow.closed
    assert len(tomorrow.slots) == 5


def test_the_next_call_must_fit_the_budget() -> None:
    """A gate closes before a call that would exceed the budget, judged by the usual cost of a call."""
    gate = state(budget=1.0)
    assert not gate.turn(NOON, CallOutcomes(ok=1, spent=0.3, paid=0.3), 1).closed
    assert not gate.turn(NOON, CallOutcomes(ok=1, spent=0.3, paid=0.3), 1).closed
    assert gate.turn(NOON, CallOutcomes(ok=1, spent=0.3, paid=0.3), 1).closed


def test_estimates_of_calls_in_flight_do_not_raise_the_usual_cost() -> None:
    """One answer beside ten estimates does not make a usual call seem ten times as expensive."""
    gate = state(budget=1.0)
    assert not gate.turn(NOON, CallOutcomes(ok=1, spent=0.55, paid=0.05), 1).closed
    assert gate.typical == pytest.approx(0.05)


def test_a_call_above_the_remaining_budget_closes_it_until_midnight_or_more_budget() -> None:
    """A call above what is left closes the gate with its price in the reason; a larger budget reopens it."""
    gate = state(budget=1.0)
    turn = gate.turn(NOON, CallOutcomes(needed=1.5), 1)
    assert "the next call may cost $1.50" in turn.closed
    gate.edit(NOON, {"budget": 5.0})
    assert not gate.turn(NOON, CallOutcomes(), 1).closed
    assert gate.turn(NOON, CallOutcomes(needed=9.0), 1).closed
    assert not gate.turn(NOON + DAY, CallOutcomes(), 1).closed


def test_the_state_is_saved_and_loaded() -> None:
    """The state is JSON and survives a restart, changes made at run time included."""
    gate = state(rate=10)
    gate.turn(NOON, CallOutcomes(ok=3, spent=0.5, paid=0.5), 2)
    gate.edit(NOON, {"budget": 7.0, "max_rate": 20.0})
    again = GateState.load(GateSettings(rate=10), gate.dump())
    assert again.dump() == gate.dump()
    assert again.settings.budget == 7.0
    assert again.settings.rates.most == 20.0


def test_an_operator_changes_the_rate() -> None:
    """A rate set at run time holds from the next slot on; slots granted before are void."""
    gate = state(rate=2)
    before = gate.turn(NOON, CallOutcomes(), 2).epoch
    gate.edit(NOON, {"rate": 50.0})
    turn = gate.turn(NOON, CallOutcomes(), 20)
    assert turn.epoch != before
    assert turn.slots[10] - turn.slots[0] == pytest.approx(10 / 50)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"profile": "brave"}, "adaptive or classic"),
        ({"rate": 0}, "rate"),
        ({"budget": -1}, "budget"),
        ({"min_rate": 5, "max_rate": 2}, "min_rate 5 is above max_rate 2"),
    ],
)
def test_invalid_settings_are_rejected(settings: dict[str, object], words: str) -> None:
    """The error names the setting."""
    with pytest.raises(ConfigurationError, match=words):
        GateSettings(**settings)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("saved", "kind", "unlike"),
    [
        (SavedAdaptive, Adaptive, {"rates"}),
        (SavedBreaker, Breaker, {"translatable"}),
        (GateEdits, GateSettings, set()),
        (CallOutcome, CallOutcomes, {"epoch", "epochs", "ok_ago"}),
    ],
)
def test_saved_states_have_every_field(saved: type, kind: type, unlike: set[str]) -> None:
    """A field that is added to a policy, the breaker or the settings is in the type of its saved form."""
    assert saved.__annotations__.keys() ^ {field.name for field in fields(kind)} == unlike


@pytest.mark.parametrize("profile", ["adaptive", "classic"])
def test_a_saved_gate_has_all_its_keys(profile: str) -> None:
    """It is loaded as it was."""
    state = GateState.load(GateSettings(profile=profile), None)
    state.edit(0.0, {"budget": 5.0})
    saved = json.loads(state.dump())
    assert saved.keys() == SavedGate.__annotations__.keys() == {"edits", "profile", "limiter", "breaker", *KEPT}
    assert GateState.load(GateSettings(profile=profile), state.dump()) == state
