"""Everything a dashboard shows of one environment, as one document."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tabellion.engine import sql
from tabellion.engine.counts import HOUR, MINUTE
from tabellion.engine.gates.state import GateSettings
from tabellion.engine.queue import STATES, Queue
from tabellion.engine.store import Store
from tabellion.engine.timestamps import iso
from tabellion.monitor.counting import Counts, counts
from tabellion.monitor.gates import gates
from tabellion.monitor.pace import Pace
from tabellion.monitor.snapshot import waiting
from tabellion.monitor.spend import model_of, spend
from tabellion.monitor.throughput import HOURS, MINUTES, Series, Tally, Throughput, line
from tabellion.monitor.view import QueueView
from tabellion.monitor.workers import workers

#: A part of the document that a pipeline adds, asked no more often than its pace allows.
Figure = Callable[[Store, Pace], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Facts:
    """What one round of questions found that is about all queues."""

    controls: Mapping[str, Mapping[str, Any]]
    waiting: Mapping[str, int]
    crew: Sequence[Mapping[str, Any]]
    gates: Sequence[Mapping[str, Any]]
    minutes: Series
    lately: Mapping[str, Tally]


class Overview:
    """One environment: its queues, who works them, what stands in their way, what it costs.

    Times are told as moments, never as ages, so that the document changes only when something has happened.
    """

    def __init__(
        self, environment: str, store: Store, views: Sequence[QueueView], *,
        gate_settings: Mapping[str, GateSettings] | None = None, gates_at: Store | None = None,
        figures: Mapping[str, Figure] | None = None,
    ) -> None:  # fmt: skip
        self.environment, self.store, self.views = environment, store, list(views)
        self._figures = dict(figures or {})
        self._gate_settings, self._gates_at = dict(gate_settings or {}), gates_at or store
        self._throughput = Throughput(store)
        self._pace = Pace()

    @property
    def queues(self) -> list[Queue]:
        """Those of the views."""
        return [view.queue for view in self.views]

    def forget(self, queue: str) -> None:
        """Counts this queue anew at the next look: somebody has just changed it."""
        self._pace.forget(queue)

    async def look(self) -> dict[str, Any]:
        """One round of questions."""
        await self.store.open()
        await self._throughput.look()
        facts = Facts(
            await _controls(self.store), await waiting(self.store), await workers(self.store),
            await gates(self._gates_at, self._gate_settings), self._throughput.minutes(),
            self._throughput.lately(MINUTE),
        )  # fmt: skip
        queues = [_queue(view, await counts(self.store, view, self._pace), facts) for view in self.views]
        return {
            "at": iso(self._throughput.now),
            "environment": self.environment,
            "queues": queues,
            "workers": [_worker(one) for one in facts.crew],
            "gates": [_gate(one, self.queues) for one in facts.gates],
            "spend": self._spend(),
            **{name: await figure(self.store, self._pace) for name, figure in self._figures.items()},
            "series": {
                "minutes": self._series(facts.minutes, MINUTE, MINUTES),
                "hours": self._series(self._throughput.hours(), HOUR, HOURS),
            },
        }

    def _series(self, series: Series, length: int, count: int) -> dict[str, Any]:
        apart = [one.name for one in self.views if one.chore or one.people]
        tallies = line(series, without=apart)
        return {
            "since": iso(self._throughput.first(length, count)),
            "step": length,
            "done": [one.done for one in tallies],
            "failed": [one.failed for one in tallies],
        }

    def _spend(self) -> dict[str, Any]:
        told = spend(self._throughput, self.queues)
        return told | {"since": iso(told["since"])}


async def _controls(store: Store) -> dict[str, dict[str, Any]]:
    """What people have said of queues while they live: paused, limited."""
    paused_at = sql.epoch("paused_at", store.dialect)
    rows = await store.database.fetch(
        f"SELECT queue, {paused_at} AS paused_at, reason, running_limit FROM tabellion_queues"
    )
    return {row["queue"]: row for row in rows}


def _queue(view: QueueView, counted: Counts, facts: Facts) -> dict[str, Any]:
    queue = view.queue
    mine, minute = line(facts.minutes, queue.name), facts.lately.get(queue.name, Tally())
    hour = Tally()
    for one in mine:
        hour += one
    control = facts.controls.get(queue.name, {})
    paused_at, limit = control.get("paused_at"), control.get("running_limit")
    gate = next((one for one in facts.gates if one["gate"] == queue.uses), None)
    alive = [one for one in facts.crew if one["state"] == "alive" and queue.name in one["queues"]]
    return {
        "name": queue.name,
        "table": queue.table,
        "chore": view.chore,
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
        "spark": {"done": [one.done for one in mine], "failed": [one.failed for one in mine]},
        "paused": paused_at is not None,
        "paused_at": iso(paused_at),
        "reason": (control.get("reason") or None) if paused_at is not None else None,
        "limit": limit if limit is not None else queue.limit,
        "gate": None if queue.uses is None else _gate_of(queue.uses, gate),
        "workers": len(alive),
        "problem": counted.problem,
    }


def _gate_of(name: str, gate: Mapping[str, Any] | None) -> dict[str, Any]:
    if gate is None:
        return {"name": name, "state": "open", "reason": None}
    return {"name": name, "state": gate["state"], "reason": gate["reason"] or None}


def _worker(one: Mapping[str, Any]) -> dict[str, Any]:
    return {**one, **{name: iso(one[name]) for name in ("seen_at", "started_at", "stopped_at")}}


def _gate(one: Mapping[str, Any], queues: Sequence[Queue]) -> dict[str, Any]:
    """A gate, with the moment when it reopens in place of the seconds until then."""
    told = {name: value for name, value in one.items() if name not in ("gate", "reopens_in", "now", "edits")}
    reopens = None if one["reopens_in"] is None else one["now"] + one["reopens_in"]
    used_by = [queue.name for queue in queues if queue.uses == one["gate"]]
    return {"name": one["gate"], **told, "reason": one["reason"] or None, "reopens_at": iso(reopens), "queues": used_by}
