"""Whether SLA targets are kept: measured now, or as the last check has recorded it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, Literal, TypedDict

from tabellion.answers import Answer, Doc
from tabellion.engine import sql
from tabellion.engine.store import Store
from tabellion.engine.timestamps import iso
from tabellion.errors import TabellionError, Unreachable
from tabellion.messages import Message, Translatable, restore_text, translatable
from tabellion.monitor.sla.target import Target, Unit

SlaState = Literal["ok", "breached"]


class TargetPicture(Answer):
    """A target, its value, and whether it is kept."""

    target: Annotated[str, Doc("Its path in `[sla]`, e.g. `queues.documents.oldest`.")]
    scope: str
    subject: Annotated[str, Doc("The queue, or what else the target is about.")]
    kind: str
    unit: Unit
    limit: float
    least: Annotated[bool, Doc("Whether the value must be at least the limit; else at most.")]
    value: Annotated[float | None, Doc("None if there is nothing to measure.")]
    kept: Annotated[bool | None, Doc("Whether the value keeps the limit; None if it is not known.")]
    state: Annotated[SlaState, Doc("`breached` after it was missed for the time that `sla.for` sets.")]
    since: Annotated[str | None, Doc("When the state began.")]
    checked_at: Annotated[str | None, Doc("When the value was measured.")]
    problem: Annotated[str | None, Doc("Why it cannot be measured.")]
    translatable: Translatable | None


class RecordedTarget(TypedDict):
    """A row of `tabellion_sla`; times are seconds since 1970, and the problem may be a message."""

    target: str
    state: SlaState
    since: float
    value: float | None
    problem: str | None
    checked_at: float


class Measurement(TypedDict):
    """The value of a target, or why it cannot be measured."""

    value: float | None
    problem: str | None


async def measure(store: Store, target: Target) -> Measurement:
    """Measures one target; an unreachable database is raised, anything else is the target's problem."""
    try:
        return {"value": await target.measure(store), "problem": None}
    except Unreachable:
        raise
    except TabellionError as error:
        return {"value": None, "problem": str(error)}


async def measure_all(store: Store, targets: Sequence[Target]) -> list[TargetPicture]:
    """Every target as it is now, with the state that checks have recorded."""
    recorded = await _read(store)
    now = await store.now()
    return [_picture(target, recorded.get(target.name), await measure(store, target), now) for target in targets]


async def read_recorded(store: Store, targets: Sequence[Target]) -> list[TargetPicture]:
    """Every target as it was at its last check."""
    if not targets:
        return []
    recorded = await _read(store)
    return [_picture(target, recorded.get(target.name)) for target in targets]


def _picture(
    target: Target, recorded: RecordedTarget | None, measured: Measurement | None = None, now: float | None = None
) -> TargetPicture:
    values: Measurement | RecordedTarget | None = measured or recorded
    value, problem = (values["value"], values["problem"]) if values is not None else (None, None)
    is_known = values is not None and problem is None
    checked_at = now if now is not None else recorded["checked_at"] if recorded is not None else None
    return {
        "target": target.name, "scope": target.scope, "subject": target.subject, "kind": target.kind_name,
        "unit": target.kind.unit, "limit": target.limit, "least": target.kind.is_least,
        "value": None if value is None else round(value, 4), "kept": target.is_kept(value) if is_known else None,
        "state": recorded["state"] if recorded is not None else "ok",
        "since": iso(recorded["since"]) if recorded is not None else None, "checked_at": iso(checked_at),
        "problem": problem, "translatable": translatable(problem=problem).get("translatable"),
    }  # fmt: skip


async def _read(store: Store) -> dict[str, RecordedTarget]:
    d = store.dialect
    rows: list[RecordedTarget] = await store.database.fetch(
        f"""SELECT target, state, {sql.epoch("since", d)} AS since, value, problem,
  {sql.epoch("checked_at", d)} AS checked_at FROM tabellion_sla"""
    )
    return {row["target"]: {**row, "problem": load_problem(row["problem"])} for row in rows}


def dump_problem(problem: str) -> str:
    """A problem as it is stored: a message as JSON, with its code and parameters."""
    if not isinstance(problem, Message):
        return problem
    return json.dumps({"problem": problem, **translatable(problem=problem)}, ensure_ascii=False)


def load_problem(stored: str | None) -> str | None:
    """A stored problem, as a message if it was one."""
    try:
        data = json.loads(stored or "null")
    except ValueError:
        return stored
    return str(restore_text(data, "problem")) if isinstance(data, dict) and "problem" in data else stored
