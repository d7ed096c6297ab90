"""Observers of calls to models: metrics and traces learn here what was called, how it ended and what it cost."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from tabellion.engine.job import Job
from tabellion.errors import GateClosed
from tabellion.models.base import Usage
from tabellion.models.errors import BadOutput, KeyRefused, ModelError, Throttled, Unavailable

ModelCallOutcome = Literal[
    "ok", "throttled", "key_refused", "unavailable", "bad_output", "rejected", "abandoned", "memo"
]
_OUTCOMES: tuple[tuple[type[BaseException], ModelCallOutcome], ...] = (
    (Throttled, "throttled"), (KeyRefused, "key_refused"), (Unavailable, "unavailable"), (BadOutput, "bad_output"),
    (ModelError, "rejected"), (GateClosed, "unavailable"), (BaseException, "abandoned"),
)  # fmt: skip


NO_USAGE = Usage()


@dataclass(frozen=True, slots=True)
class ModelCall:
    """One call of a model that has ended, or the memo that was used instead."""

    model: str  #: the configured name, e.g. "gemini"
    version: str  #: the provider's own name for it
    gate: str
    outcome: ModelCallOutcome
    seconds: float = 0.0
    waited: float = 0.0  #: seconds before the gate admitted it
    usage: Usage = NO_USAGE
    cost: float | None = None
    job: Job | None = None  #: None outside a worker


def outcome_of(result: object) -> ModelCallOutcome:
    """The outcome of a call that returned a reply or raised an error."""
    return next((word for kind, word in _OUTCOMES if isinstance(result, kind)), "ok")


Observer = Callable[[ModelCall], None]
_observers: list[Observer] = []


def add_observer(observer: Observer) -> None:
    """Calls a function after every call of a model in this process, in the caller's thread: it must be quick."""
    _observers.append(observer)


def remove_observer(observer: Observer) -> None:
    """Ends that."""
    with contextlib.suppress(ValueError):
        _observers.remove(observer)


def report_call(call: ModelCall) -> None:
    """Tells every observer; what one raises must not change the outcome of the call."""
    for observer in tuple(_observers):
        with contextlib.suppress(Exception):
            observer(call)
