"""The recorded state of targets, which changes only after a while, and the alert that each change sends once.

This is hysteresis in time: a target becomes breached, and ok again, only after every check for so long found it so.

Whoever checks a target takes its turn first: a row that was checked less than a minute ago is left alone. A change of
state and its webhook deliveries commit together, guarded by the state before: however many workers check, and whenever
one of them dies, each change is alerted once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tabellion.delivery.outbox import outbox
from tabellion.engine import sql
from tabellion.engine.failpoints import failpoint
from tabellion.engine.sql import NOW
from tabellion.engine.store import Store
from tabellion.messages import Message
from tabellion.monitor.sla.compliance import Measurement, SlaState, dump_problem
from tabellion.monitor.sla.target import Target

APART = 45.0  #: seconds between two checks of a target, by whichever worker
GAP = 600.0  #: seconds without a check after which it is not known whether a target was missed all the time


async def find_due(store: Store, targets: Sequence[Target]) -> list[Target]:
    """The targets that nobody has checked lately: a question, so that most workers write nothing."""
    rows = await store.database.fetch(
        f"SELECT target FROM tabellion_sla WHERE checked_at > {sql.later(repr(-APART), store.dialect)}"
    )
    checked = {row["target"] for row in rows}
    return [target for target in targets if target.name not in checked]


async def take_turns(store: Store, targets: Sequence[Target]) -> dict[str, int]:
    """The targets whose turn this worker has, each with the turn's number; they count as checked from now on."""
    return await take_named_turns(store, [target.name for target in targets])


async def take_named_turns(store: Store, names: Sequence[str]) -> dict[str, int]:
    """The same for any names: rows that no target has are of other work that one worker at a time does."""
    if not names:
        return {}
    d = store.dialect
    rows = ", ".join(f"(${number}, 'ok', {NOW}, {NOW}, 1)" for number in range(1, len(names) + 1))
    taken = await store.database.fetch(
        f"""INSERT INTO tabellion_sla AS s (target, state, since, checked_at, turn) VALUES {rows}
ON CONFLICT (target) DO UPDATE SET checked_at = {NOW}, turn = s.turn + 1,
  changing_since = CASE WHEN s.checked_at > {sql.later(repr(-GAP), d)} THEN s.changing_since END
WHERE s.checked_at <= {sql.later(repr(-APART), d)} RETURNING target, turn""",
        *sorted(names),  # in one order everywhere: workers must not wait in a circle
    )
    return {row["target"]: int(row["turn"]) for row in taken}


async def record(
    store: Store, environment: str, target: Target, turn: int, measured: Measurement, wait: float
) -> SlaState | None:
    """Records what was measured in a turn; returns the new state if it changes.

    A state changes after `wait` seconds in which every check found otherwise. A target that cannot be measured keeps
    its state.
    """
    d = store.dialect
    if measured["problem"] is not None:
        await store.database.fetch(
            """UPDATE tabellion_sla SET value = NULL, problem = $3, changing_since = NULL
WHERE target = $1 AND turn = $2""",
            target.name, turn, dump_problem(measured["problem"]),
        )  # fmt: skip
        return None
    found: SlaState = "ok" if target.is_kept(measured["value"]) else "breached"
    rows = await store.database.fetch(
        f"""UPDATE tabellion_sla SET value = $3, problem = NULL,
  changing_since = CASE WHEN state = $4 THEN NULL ELSE coalesce(changing_since, {NOW}) END
WHERE target = $1 AND turn = $2
RETURNING state, coalesce(changing_since <= {sql.later(repr(-wait), d)}, 1 = 0) AS due,
  {sql.epoch(NOW, d)} - {sql.epoch("since", d)} AS seconds""",
        target.name, turn, measured["value"], found,
    )  # fmt: skip
    failpoint("sla.pre_change")
    if not rows or not rows[0]["due"]:
        return None
    changes = await store.database.transact(
        await _change(store, environment, target, found, measured["value"], float(rows[0]["seconds"])), guarded=True
    )
    return found if changes else None


async def _change(
    store: Store, environment: str, target: Target, found: SlaState, value: float | None, seconds: float
) -> list[tuple[str, Sequence[Any]]]:
    """The change of state, and the deliveries of its alert; there are no endpoints where their table is missing."""
    change = (
        f"""UPDATE tabellion_sla SET state = $2, since = {NOW}, changing_since = NULL
WHERE target = $1 AND state <> $2 AND changing_since IS NOT NULL RETURNING target""",
        (target.name, found),
    )
    failpoint("sla.pre_commit")
    if await store.table("tabellion_webhook_endpoints") is None:
        return [change]
    text, values = outbox(
        "sla.breached" if found == "breached" else "sla.recovered", target.name,
        alert_data(environment, target, found, value, seconds),
    )  # fmt: skip
    return [change, sql.bind(text, values)]


def alert_data(
    environment: str, target: Target, found: SlaState, value: float | None, seconds: float
) -> dict[str, Any]:
    """The data of the event: the target, its value and limit, and the sentence with its code and parameters."""
    message = describe(target, found, value)
    return {
        "target": target.name, "scope": target.scope, "subject": target.subject, "kind": target.kind_name,
        "environment": environment, "state": found, "unit": target.kind.unit, "limit": target.limit,
        "value": value, "former_state_seconds": round(seconds), "message": message, **message.form,
    }  # fmt: skip


def describe(target: Target, found: SlaState, value: float | None) -> Message:
    """What has changed, as a message."""
    return Message(
        f"sla.{found}_{target.kind.unit}", target=target.name, value=format_value(value, target.kind.unit),
        limit=format_value(target.limit, target.kind.unit),
    )  # fmt: skip


def format_value(value: float | None, unit: str) -> str:
    """A value for people: a duration, or a percentage."""
    if value is None:
        return "–"
    if unit == "share":
        return f"{round(value * 100, 1):g}"
    for length, letter in ((86_400, "d"), (3600, "h"), (60, "min")):
        if value >= length * 2:
            return f"{value / length:.3g} {letter}"
    return f"{value:.3g} s"
