"""Settlements: how a claim ended, what is written to the row, and what the register keeps."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from tabellion.engine.job import Job, storable
from tabellion.engine.queue import Queue, StateName
from tabellion.messages import Message

Outcome = Literal[
    "done",  # the handler returned
    "failed",  # no attempt is left, or another would not help
    "retried",  # an error; another attempt is due later
    "limited",  # rate limited; due later, the attempt is not used up
    "released",  # released by its worker, the attempt is not used up
    "crashed",  # the lease expired: the worker died or froze
    "quarantined",  # crashed too often in a row
    "cancelled",  # a person stopped it
    "parked",  # the database refused even the failed state: the row was left unchanged
    "superseded",  # the row's owner changed the row meanwhile; the owner's change is kept
]

#: After these the next claim continues the job's counters; after any other they start anew.
CONTINUING: tuple[Outcome, ...] = ("retried", "limited", "released", "crashed")
#: Those of them after which the row's error mirror is filled in.
SHOWN: tuple[Outcome, ...] = ("retried", "crashed")

STATE_OF: dict[Outcome, StateName] = {
    "done": "done",
    "failed": "failed",
    "retried": "ready",
    "limited": "ready",
    "released": "ready",
    "crashed": "ready",
    "quarantined": "failed",
    "cancelled": "failed",
}


def charging_outcomes(queue: Queue) -> tuple[Outcome, ...]:
    """The outcomes that use up an attempt: a crash does unless the queue declares max_crashes."""
    return ("retried", "crashed") if queue.max_crashes is None else ("retried",)


@dataclass(slots=True)
class Settlement:
    """How one claim ended, ready to be written."""

    job: Job
    outcome: Outcome
    values: Mapping[str, Any] = field(default_factory=dict)  #: columns to write with the new state
    error: str | None = None  #: a Message keeps its code
    after: float | None = None  #: seconds until the next attempt is due
    expired_only: bool = False  #: set by a sweep: settle only if the lease is still expired
    also: Sequence[tuple[str, Mapping[str, Any]]] = ()  #: statements that commit with it, for any outcome
    guard: tuple[str, Mapping[str, Any]] | None = None  #: a query that must return a row, or nothing is written
    seconds: float | None = None  #: how long the handler ran, for the event
    ended_at: float | None = None  #: when the handler ended, by time.monotonic(), for the event
    traceback: str | None = None  #: where the handler raised, for the event
    form: Mapping[str, Any] | None = None  #: the code and parameters of the error, if it has them
    written: bool = False  #: whether the error has its stored form

    def write_error(self, longest: int) -> None:
        """Converts the error to its stored form, once: its text in `error`, its code and parameters in `form`."""
        if self.error is None or self.written:
            return
        self.form = self.error.form if isinstance(self.error, Message) else self.form
        describe = self.job.queue.describe_error
        self.error = storable(self.error if describe is None else describe(self.job, self.error))[:longest]
        self.written = True

    def serialize_error(self) -> tuple[str | None, str | None]:
        """The code of the error and its parameters as JSON."""
        if self.form is None:
            return None, None
        params = self.form.get("params")
        return self.form["code"], storable(json.dumps(params, ensure_ascii=False, default=str)) if params else None

    @property
    def needs_own_transaction(self) -> bool:
        """Whether it needs a transaction of its own."""
        return bool(self.also or self.guard or (self.outcome == "done" and self.job._also))

    @property
    def is_plain(self) -> bool:
        """Whether there is nothing to write but the outcome."""
        job = self.job
        return self.error is None and self.after is None and job._note is None and job.cost is None and not self.values


@dataclass(frozen=True, slots=True)
class SettlementVerdict:
    """The result of writing one settlement."""

    job: Job
    outcome: Outcome | None  #: None: the claim was not ours any more, and nothing was changed
    error: str | None = None  #: why the database refused it

    @property
    def is_accepted(self) -> bool:
        """Whether the claim ended with this settlement."""
        return self.outcome not in (None, "superseded")
