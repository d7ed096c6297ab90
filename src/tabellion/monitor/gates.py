"""Gates as people and programs look at them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tabellion.engine import sql
from tabellion.engine.gates.state import GateSettings, GateState
from tabellion.engine.sql import NOW
from tabellion.engine.store import Store
from tabellion.messages import translatable


async def gates(store: Store, settings: Mapping[str, GateSettings]) -> list[dict[str, Any]]:
    """Every gate that is configured or has been used, by name, asked for in one statement."""
    await store.open()
    rows = await store.database.fetch(
        f"""SELECT n.now, g.name, g.state FROM (SELECT {sql.epoch(NOW, store.dialect)} AS now) AS n
LEFT JOIN tabellion_gates AS g ON 1 = 1"""
    )
    now = float(rows[0]["now"])
    saved = {row["name"]: row["state"] for row in rows if row["name"] is not None}
    names = sorted(saved.keys() | settings.keys())
    return [
        picture(name, GateState.load(settings.get(name, GateSettings()), saved.get(name)), now) | {"now": now}
        for name in names
    ]


def picture(name: str, state: GateState, now: float) -> dict[str, Any]:
    """One gate as programs read it."""
    closed, reopens = state.closure(now)
    return {
        "gate": name,
        "state": "closed" if closed else "open",
        "reason": closed,
        **translatable(reason=closed),
        "reopens_in": max(0.0, reopens - now) if closed else None,
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
        "edits": state.edits,
    }
