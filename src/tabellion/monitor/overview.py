"""Everything a dashboard shows of one environment, as one document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tabellion.engine import sql
from tabellion.engine.counts import HOUR, MINUTE
from tabellion.engine.gates.state import GateSettings
from tabellion.engine.queue import STATES, Queue
from tabellion.engine.store import Store
from tabellion.engine.timestamps import iso
from tabellion.monitor import states
from tabellion.monitor.counting import Counts, counts
from tabellion.monitor.gates import gates
from tabellion.monitor.pace import Pace
from tabellion.monitor.sla import sla
from tabellion.monitor.snapshot import waiting
from tabellion.monitor.spend import model_of, spend
from tabellion.monitor.throughput import HOURS, MINUTES, Series, Tally, Throughput, line
from tabellion.monitor.workers import workers
from tabellion.pipelines.documents.queues import CHORES

OWN = ("tabellion_documents", "tabellion_superseded_outputs")  #: tables of chores
REVIEWED = "tabellion_review_items"  #: the table whose rows have a time until which a person should have looked


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
        self, environment: str, store: Store, queues: Sequence[Queue], *,
        gate_settings: Mapping[str, GateSettings] | None = None, gates_at: Store | None = None,
    ) -> None:  # fmt: skip
        self.environment, self.store, self.queues = environment, store, list(queues)
        self._gate_settings, self._gates_at = dict(gate_settings or {}), gates_at or store
        self._throughput = Throughput(store)
        self._pace = Pace()

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
        queues = [_queue(queue, await counts(self.store, queue, self._pace), facts) for queue in self.queues]
        return {
            "at": iso(self._throughput.now),
            "environment": self.environment,
            "queues": queues,
            "workers": [_worker(one) for one in facts.crew],
            "gates": [_gate(one, self.queues) for one in facts.gates],
            "spend": self._spend(),
            "sla": await self._sla(),
            "series": {
                "minutes": self._series(facts.minutes, MINUTE, MINUTES),
                "hours": self._series(self._throughput.hours(), HOUR, HOURS),
            },
        }

    def _series(self, series: Series, length: int, count: int) -> dict[str, Any]:
        apart = [one.name for one in self.queues if is_chore(one) or one.table == REVIEWED]
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

    async def _sla(self) -> dict[str, Any] | None:
        if await self._pace.answer(("sla", "known"), lambda: self.store.table(REVIEWED)) is None:
            return None
        told = await sla(self.store, self._pace)
        days = [one | {"at": iso(one["at"])} for one in told["days"]]
        return told | {"next_at": iso(told["next_at"]), "days": days}


def is_chore(queue: Queue) -> bool:
    """Whether a queue sees to what comes after a document: its jobs are no documents that were read."""
    return queue.name in CHORES and queue.table in OWN


async def _controls(store: Store) -> dict[str, dict[str, Any]]:
    """What people have said of queues while they live: paused, limited."""
    paused_at = sql.epoch("paused_at", store.dialect)
    rows = await store.database.fetch(
        f"SELECT queue, {paused_at} AS paused_at, reason, running_limit FROM tabellion_queues"
    )
    return {row["queue"]: row for row in rows}


def _queue(queue: Queue, counted: Counts, facts: Facts) -> dict[str, Any]:
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
        "chore": is_chore(queue),
        "model": model_of(queue),
        "states": {state: states.words(queue, state) for state in STATES},
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
