"""Everything the dashboard shows of one environment, as one document."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, cast

from tabellion.answers import Answer, Doc
from tabellion.engine.control_rows import QueueControl, read_controls
from tabellion.engine.counts import HOUR, MINUTE
from tabellion.engine.gates.state import GateSettings
from tabellion.engine.queue import STATES, Queue, StateName
from tabellion.engine.store import Store
from tabellion.engine.timestamps import iso
from tabellion.errors import StoreError
from tabellion.messages import Message
from tabellion.monitor.answer_cache import AnswerCache
from tabellion.monitor.counting import QueueCounts, counts
from tabellion.monitor.gates import GatePicture, gates
from tabellion.monitor.sla.compliance import TargetPicture, read_recorded
from tabellion.monitor.sla.target import Target
from tabellion.monitor.snapshot import waiting
from tabellion.monitor.spend import Spend, model_of, spend
from tabellion.monitor.throughput import HOURS, MINUTES, Series, Tally, Throughput, line
from tabellion.monitor.view import QueueView
from tabellion.monitor.workers import FleetPicture, WorkerPicture, count_workers, workers

GATES_PATIENCE = 2.0  #: seconds to wait for gates that are in the database of another environment
GATES_AGAIN = 10.0  #: seconds before that database is asked again after it has failed
#: Reads a figure that a pipeline adds to the overview; it uses the cache to limit its queries.
ReadFigure = Callable[[Store, AnswerCache], Awaitable[Any]]


class Settled(Answer):
    """Jobs that were settled in a period."""

    done: int
    failed: int


class QueueThroughput(Answer):
    """Recent throughput of a queue."""

    minute: Settled
    hour: Settled


class Spark(Answer):
    """Jobs settled in each of the last sixty minutes, the current minute last."""

    done: list[int]
    failed: list[int]


class QueueGate(Answer):
    """The gate of the model that a queue's jobs call."""

    name: str
    state: Literal["open", "closed"]
    reason: str | None


class QueuePicture(Answer):
    """The current state of a queue."""

    name: str
    table: str
    chore: Annotated[bool, Doc("Whether it does post-processing of other work: not counted in totals.")]
    people: Annotated[bool, Doc("Whether people work it: it needs no worker and is not counted in totals.")]
    model: str | None
    states: Annotated[dict[StateName, str], Doc("The condition of each state.")]
    ready: int
    waiting: Annotated[int, Doc("Ready rows that are not due yet.")]
    running: int
    done: int
    failed: int
    more: Annotated[list[StateName], Doc("States that have more rows than the count shows.")]
    foreign: Annotated[int, Doc("Rows that are running without a claim in the register; 1000 means that many or more.")]
    oldest_at: Annotated[str | None, Doc("When the oldest row that is ready and due was created.")]
    throughput: QueueThroughput
    error_rate: Annotated[float | None, Doc("Share of attempts in the last hour that ended in an error.")]
    spark: Spark
    paused: bool
    paused_at: str | None
    reason: Annotated[str | None, Doc("Why it is paused.")]
    limit: Annotated[int | None, Doc("How many jobs may run at once across all workers.")]
    gate: QueueGate | None
    workers: Annotated[int, Doc("Live workers of the queue.")]
    problem: Annotated[str | None, Doc("Why it cannot be counted: its table does not match its declaration.")]


class SettledSeries(Answer):
    """Jobs settled in each of several equal periods, the current period last."""

    since: str
    step: int
    done: list[int]
    failed: list[int]


class RecentSeries(Answer):
    """The last hour by minute and the last day by hour, for all queues except post-processing and review."""

    minutes: SettledSeries
    hours: SettledSeries


class OverviewPicture(Answer):
    """Everything the dashboard shows; pipelines add figures."""

    at: str
    environment: str
    queues: list[QueuePicture]
    workers: Annotated[list[WorkerPicture], Doc("At most 200, live ones first.")]
    fleet: Annotated[FleetPicture, Doc("All workers, counted.")]
    gates: list[GatePicture]
    targets: Annotated[list[TargetPicture], Doc("The SLA targets as of their last check.")]
    spend: Spend
    series: RecentSeries


@dataclass(frozen=True, slots=True)
class Facts:
    """The results of one reading that concern all queues."""

    controls: Mapping[str, QueueControl]
    waiting: Mapping[str, int]
    workers: Mapping[str, int]  #: live ones by queue
    gates: Sequence[GatePicture]
    gates_problem: Message | None  #: why they are not known
    minutes: Series
    lately: Mapping[str, Tally]


class Overview:
    """One environment: its queues, workers, gates, costs and throughput.

    Times are absolute, never ages, so that the document changes only when something has happened.
    """

    def __init__(
        self, environment: str, store: Store, views: Sequence[QueueView], *,
        gate_settings: Mapping[str, GateSettings] | None = None, gates_at: Store | None = None,
        figures: Mapping[str, ReadFigure] | None = None, targets: Sequence[Target] = (),
    ) -> None:  # fmt: skip
        self.environment, self.store, self.views = environment, store, list(views)
        self._figures, self._targets = dict(figures or {}), list(targets)
        self._gate_settings, self._gates_at = dict(gate_settings or {}), gates_at or store
        self._asked: asyncio.Task[list[GatePicture]] | None = None  #: for the gates, in another database
        self._gates_again = float("-inf")
        self.gates_problem: Message | None = None  #: why the gates are not known
        self._throughput = Throughput(store)
        self._pace = AnswerCache()

    @property
    def queues(self) -> list[Queue]:
        """The queues of the views."""
        return [view.queue for view in self.views]

    def forget(self, queue: str) -> None:
        """Drops the cached counts of this queue, which has just been changed."""
        self._pace.forget(queue)

    async def look(self) -> OverviewPicture:
        """Reads the database and returns the overview."""
        await self.store.open()
        await self._throughput.look()
        fleet, by_queue = await count_workers(self.store)
        facts = Facts(
            await read_controls(self.store.database), await waiting(self.store), by_queue,
            await self._read_gates(), self.gates_problem, self._throughput.minutes(),
            self._throughput.recent_tallies(MINUTE),
        )  # fmt: skip
        queues = [_queue(view, await counts(self.store, view, self._pace), facts) for view in self.views]
        overview: OverviewPicture = {
            "at": iso(self._throughput.now),
            "environment": self.environment,
            "queues": queues,
            "workers": await workers(self.store),
            "fleet": fleet,
            "gates": list(facts.gates),
            "targets": await read_recorded(self.store, self._targets),
            "spend": spend(self._throughput, self.queues),
            "series": {
                "minutes": self._series(facts.minutes, MINUTE, MINUTES),
                "hours": self._series(self._throughput.hours(), HOUR, HOURS),
            },
        }
        figures = {name: await figure(self.store, self._pace) for name, figure in self._figures.items()}
        return cast("OverviewPicture", {**overview, **figures})

    async def _read_gates(self) -> list[GatePicture]:
        """The gates; none while a database that another environment has does not tell them."""
        if self._gates_at is self.store:
            return await gates(self.store, self._gate_settings, self.queues)
        if time.monotonic() < self._gates_again:
            return []
        if self._asked is None:
            self._asked = asyncio.create_task(gates(self._gates_at, self._gate_settings, self.queues))
        await asyncio.wait({self._asked}, timeout=GATES_PATIENCE)
        if not self._asked.done():  # it goes on: a database that does not answer takes longer to give up
            self.gates_problem = Message("gate.database_unreachable", text="Unreachable")
            return []
        task, self._asked = self._asked, None
        try:
            found = task.result()
        except StoreError as error:
            self._gates_again = time.monotonic() + GATES_AGAIN
            self.gates_problem = Message("gate.database_unreachable", text=type(error).__name__)
            return []
        self.gates_problem = None
        return found

    def _series(self, series: Series, length: int, count: int) -> SettledSeries:
        apart = [view.name for view in self.views if view.chore or view.people]
        tallies = line(series, without=apart)
        return {
            "since": iso(self._throughput.first(length, count)),
            "step": length,
            "done": [tally.done for tally in tallies],
            "failed": [tally.failed for tally in tallies],
        }


def _queue(view: QueueView, counted: QueueCounts, facts: Facts) -> QueuePicture:
    queue = view.queue
    minutes, minute = line(facts.minutes, queue.name), facts.lately.get(queue.name, Tally())
    hour = Tally()
    for tally in minutes:
        hour += tally
    control = facts.controls.get(queue.name)
    paused_at, limit = (control["paused_at"], control["running_limit"]) if control else (None, None)
    gate = next((candidate for candidate in facts.gates if candidate["name"] == queue.uses), None)
    return {
        "name": queue.name,
        "table": queue.table,
        "chore": view.chore,
        "people": view.people,
        "model": model_of(queue),
        "states": {state: view.words(state) for state in STATES},
        "ready": counted.ready,
        "waiting": min(facts.waiting.get(queue.name, 0), counted.ready),
        "running": counted.running,
        "done": counted.done,
        "failed": counted.failed,
        "more": counted.more,
        "foreign": counted.foreign,
        "oldest_at": iso(counted.oldest_at),
        "throughput": {
            "minute": {"done": minute.done, "failed": minute.failed},
            "hour": {"done": hour.done, "failed": hour.failed},
        },
        "error_rate": None if hour.error_rate is None else round(hour.error_rate, 4),
        "spark": {"done": [tally.done for tally in minutes], "failed": [tally.failed for tally in minutes]},
        "paused": paused_at is not None,
        "paused_at": iso(paused_at),
        "reason": (control["reason"] or None) if control and paused_at is not None else None,
        "limit": limit if limit is not None else queue.limit,
        "gate": None if queue.uses is None else _gate_of(queue.uses, gate, facts.gates_problem),
        "workers": facts.workers.get(queue.name, 0),
        "problem": counted.problem,
    }


def _gate_of(name: str, gate: GatePicture | None, problem: Message | None) -> QueueGate:
    if problem is not None:
        return {"name": name, "state": "closed", "reason": problem}
    if gate is None:
        return {"name": name, "state": "open", "reason": None}
    return {"name": name, "state": gate["state"], "reason": gate["reason"]}
