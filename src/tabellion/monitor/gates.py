"""The state of gates, for the API and the command line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Literal, NotRequired

from tabellion.answers import Answer, Doc
from tabellion.engine import sql
from tabellion.engine.gates.breaker import BreakerState
from tabellion.engine.gates.state import GateEdits, GateSettings, GateState
from tabellion.engine.queue import Queue
from tabellion.engine.sql import NOW
from tabellion.engine.store import Store
from tabellion.engine.timestamps import iso
from tabellion.messages import Translatable, translatable


class GateFacts(Answer):
    """The public state of a gate."""

    state: Literal["open", "closed"]
    translatable: NotRequired[Translatable]
    rate: Annotated[float, Doc("Calls per second.")]
    limit: float | None
    profile: str
    min_rate: float
    max_rate: float
    breaker: BreakerState
    failures_in_a_row: int
    calls: int
    throttled: int
    failed: int
    spent: Annotated[float, Doc("Spent today (UTC), in dollars.")]
    budget: float | None


class GateReport(GateFacts):
    """A gate as the command line prints it."""

    gate: str
    reason: str
    reopens_in: float | None  #: seconds
    edits: GateEdits


class GatePicture(GateFacts):
    """The gate of a model."""

    name: str
    reason: str | None
    reopens_at: str | None
    queues: Annotated[list[str], Doc("The queues that use it.")]


async def gates(store: Store, settings: Mapping[str, GateSettings], queues: Iterable[Queue] = ()) -> list[GatePicture]:
    """Every gate that is configured or has been used, by name, from one statement."""
    await store.open()
    rows = await store.database.fetch(
        f"""SELECT n.now, g.name, g.state FROM (SELECT {sql.epoch(NOW, store.dialect)} AS now) AS n
LEFT JOIN tabellion_gates AS g ON 1 = 1"""
    )
    now = float(rows[0]["now"])
    saved = {row["name"]: row["state"] for row in rows if row["name"] is not None}
    names = sorted(saved.keys() | settings.keys())
    users = list(queues)
    pictures: list[GatePicture] = []
    for name in names:
        state = GateState.load(settings.get(name, GateSettings()), saved.get(name))
        closed, reopens = state.closure(now)
        pictures.append({
            **_facts(state, now, closed), "name": name, "reason": closed or None,
            "reopens_at": iso(max(now, reopens)) if closed else None,
            "queues": [queue.name for queue in users if queue.uses == name],
        })  # fmt: skip
    return pictures


def picture(name: str, state: GateState, now: float) -> GateReport:
    """One gate as the command line prints it."""
    closed, reopens = state.closure(now)
    reopens_in = max(0.0, reopens - now) if closed else None
    return {
        **_facts(state, now, closed),
        "gate": name,
        "reason": closed,
        "reopens_in": reopens_in,
        "edits": state.edits,
    }


def _facts(state: GateState, now: float, closed: str) -> GateFacts:
    return {
        "state": "closed" if closed else "open",
        **translatable(reason=closed),
        "rate": state.limiter.speed,
        "limit": getattr(state.limiter, "limit", None),
        "profile": state.settings.profile,
        "min_rate": state.settings.rates.least,
        "max_rate": state.settings.rates.most,
        "breaker": state.breaker.state,
        "failures_in_a_row": state.breaker.failures,
        "calls": state.calls,
        "throttled": state.refusals,
        "failed": state.failures,
        "spent": state.spent_today(now),
        "budget": state.settings.budget,
    }
