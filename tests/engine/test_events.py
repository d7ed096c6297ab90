"""One frozen value per thing that happened."""

from __future__ import annotations

import dataclasses

import pytest

from tabellion import Event
from tabellion.engine.events import NAMES, Listeners
from tabellion.engine.settlement import STATE_OF


def test_an_event_cannot_be_changed() -> None:
    """An event is a fact."""
    event = Event("done", queue="tasks", key="1")
    with pytest.raises(dataclasses.FrozenInstanceError):
        event.name = "failed"  # type: ignore[misc]


def test_every_outcome_is_an_event() -> None:
    """Whatever can become of a job can be told."""
    assert {*STATE_OF, "superseded", "claimed", "lease_lost"} <= set(NAMES)


def test_everyone_is_told_in_order() -> None:
    """Each listener gets each event, in the order things happened."""
    heard: list[tuple[str, str]] = []
    listeners = Listeners((lambda event: heard.append(("one", event.name)),))
    listeners.add(lambda event: heard.append(("two", event.name)))
    listeners.tell(Event("claimed"))
    listeners.tell(Event("done"))
    assert heard == [("one", "claimed"), ("two", "claimed"), ("one", "done"), ("two", "done")]


def test_a_listener_that_raises_is_survived_and_reported() -> None:
    """A broken listener is the other listeners' news and nobody's end."""
    heard: list[Event] = []

    def broken(_event: Event) -> None:
        raise RuntimeError("no disk")

    Listeners((broken, heard.append, broken)).tell(Event("done", worker="w1"))
    assert [event.name for event in heard] == ["listener_failed", "done", "listener_failed"]
    assert heard[0].worker == "w1"
    assert "no disk" in (heard[0].error or "")


def test_listeners_without_anyone_are_false() -> None:
    """The engine may skip making events nobody hears."""
    assert not Listeners()
    assert Listeners((lambda _event: None,))
