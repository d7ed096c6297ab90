"""Events: one frozen value for each thing that happened; logs, metrics and pages are listeners."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol, cast

#: Every event with one line that describes it; a test compares the list in the docs with it.
NAMES: dict[str, str] = {
    "worker_started": "a worker started and claims jobs",
    "worker_stopping": "a worker was asked to stop and claims no more jobs",
    "worker_stopped": "a worker stopped normally",
    "environment_up": "a database can be reached",
    "environment_down": "a database cannot be reached; the others continue",
    "environment_skipped": "a database is missing, refuses the role or has no tables; it is left out until a restart",
    "queue_skipped": "a queue does not match its table in one environment; it is checked again later",
    "queue_restored": "a queue that was skipped is usable again",
    "claim_refused": "a database rejects claims of a queue; they are retried later",
    "result_refused": "a table that a job's result is written to is missing; it is written once the table exists",
    "set_aside": "a database does not allow one row to become running; it is retried later, and the others continue",
    "claimed": "a job was claimed",
    "done": "a job's result was accepted",
    "failed": "a job failed permanently",
    "retried": "a job failed and will be retried",
    "limited": "a job was rate limited and will be retried, without using up an attempt",
    "released": "a job was released, without using up an attempt",
    "crashed": "a claim's lease expired; the job is ready again",
    "quarantined": "a job crashed too often in a row (default: twice); it failed, with the evidence as its error",
    "parked": "a job failed, but the database rejects that state; the row is left unchanged until someone fixes it",
    "cancelled": "a job was cancelled by a person",
    "superseded": "the row was changed by its owner while it ran; the result was discarded",
    "lease_lost": "a worker no longer held the claim when it returned a result; nothing was changed",
    "timed_out": "a handler exceeded its queue's timeout and was stopped",
    "taken_over": "rows left running by workers outside the register were released",
    "foreign_found": "rows are running without a claim in the register",
    "queue_scanned": "a worker looked for jobs of a queue that declares `health`",
    "queue_health": "what is ready and running in a queue that declares `health`, and what became of its jobs lately",
    "pruned": "a worker removed what is older than a retention rule allows; `note` is the rule",
    "prune_failed": "a retention rule could not be applied; it is tried again after ten minutes",
    "task_failed": "a periodic task of a worker failed; it is tried again later; `note` is the task",
    "sla_breached": "a target of `[sla]` was missed for too long; `note` is the target",
    "sla_recovered": "a target of `[sla]` is met again; `note` is the target",
    "gate_closed": "calls to a model are not allowed for now; queues that use it wait, the others continue",
    "gate_opened": "calls to a model are allowed again",
    "broker_down": "the broker cannot be reached; running jobs continue, and no hint is sent until it can",
    "broker_up": "the broker can be reached again",
    "listener_failed": "a listener raised an exception; the engine continues",
}


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened, with its facts."""

    name: str
    worker: str = ""
    environment: str = ""
    queue: str = ""  #: or the gate's name, when a gate opened or closed
    key: str = ""
    attempt: int = 0
    seconds: float | None = None  #: of the handler's run, of a claim, since a crashed job's claim, of an outage
    settle_seconds: float | None = None  #: between the handler's end and the write of its outcome
    cost: float | None = None  #: what the attempt has cost, in dollars
    due_in: float | None = None  #: seconds until the next attempt
    error: str | None = None
    traceback: str | None = None  #: of the handler's own frames, where it raised
    note: str | None = None  #: more details: a database's address, what a worker has done
    count: int = 1
    at: float = field(default_factory=time.time)


Listener = Callable[[Event], None]


class JobCounter(Protocol):
    """A listener with these methods counts jobs without an event for each: creating those would cost time."""

    def count_claimed(self, environment: str, queue: str, count: int, seconds: float) -> None:
        """Jobs were claimed together, which took so long."""

    def count_ended(
        self, environment: str, queue: str, outcome: str, seconds: float | None, settle_seconds: float | None,
        cost: float | None,
    ) -> None:  # fmt: skip
        """A claim ended; the arguments are the fields of its event."""


class Listeners:
    """The listeners of one worker; they are called in the engine's thread, so they must be quick."""

    def __init__(self, listeners: tuple[Listener, ...] = ()) -> None:
        self._listeners: list[Listener] = []
        self._counters: list[JobCounter] = []
        self._choosy: list[Callable[[str, str], bool]] = []
        self._someone_hears_all = False
        for listener in listeners:
            self.add(listener)

    def add(self, listener: Listener) -> None:
        """Adds a listener; its optional method `wants(name, queue)` decides which events are created for it."""
        self._listeners.append(listener)
        if hasattr(listener, "count_ended"):
            self._counters.append(cast("JobCounter", listener))
        wants = getattr(listener, "wants", None)
        if wants is None:
            self._someone_hears_all = True
        else:
            self._choosy.append(wants)

    def wants(self, name: str, queue: str) -> bool:
        """Whether any listener wants such an event: with many jobs a second, creating unused events would cost time."""
        if self._someone_hears_all:
            return True
        for wants in self._choosy:  # noqa: SIM110 - called for every job, and a generator would double its time
            if wants(name, queue):
                return True
        return False

    def emit(self, event: Event) -> None:
        """Calls every listener with the event; one that raises is reported to the others."""
        for listener in self._listeners:
            try:
                listener(event)
            except Exception as error:
                self._report_failure(listener, error, event.worker)

    def count_claimed(self, environment: str, queue: str, count: int, seconds: float) -> None:
        """Has jobs that were claimed together counted."""
        for counter in self._counters:
            try:
                counter.count_claimed(environment, queue, count, seconds)
            except Exception as error:
                self._report_failure(counter, error)

    def count_ended(
        self, environment: str, queue: str, outcome: str, seconds: float | None, settle_seconds: float | None,
        cost: float | None,
    ) -> None:  # fmt: skip
        """Has the end of a claim counted."""
        for counter in self._counters:
            try:
                counter.count_ended(environment, queue, outcome, seconds, settle_seconds, cost)
            except Exception as error:
                self._report_failure(counter, error)

    def _report_failure(self, listener: object, error: Exception, worker: str = "") -> None:
        trouble = Event("listener_failed", worker=worker, error=f"{listener!r}: {error!r}")
        for other in self._listeners:
            if other is not listener:
                with contextlib.suppress(Exception):
                    other(trouble)
