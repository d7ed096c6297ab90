"""Whether reviews are done in time: what is due, what is overdue, and how the week went."""

from __future__ import annotations

from typing import Annotated

from tabellion.answers import Answer, Doc
from tabellion.engine import sql
from tabellion.engine.sql import NOW
from tabellion.engine.store import Store
from tabellion.engine.timestamps import iso
from tabellion.monitor.answer_cache import AnswerCache

SOON = 7200.0  #: seconds before its deadline from which an item is due soon
DAYS = 7
DAY = 86_400


class SlaDay(Answer):
    """Reviews finished on one day (UTC)."""

    at: str
    finished: int
    kept: int


class OpenReview(Answer):
    """What waits for people now."""

    open: int
    in_review: int
    overdue: int
    soon: Annotated[int, Doc("Due within two hours.")]
    next_at: str | None


class Sla(OpenReview):
    """Whether documents are reviewed on time."""

    days: list[SlaDay]
    kept: int
    due: Annotated[int, Doc("Finished in the last seven days, or overdue now.")]
    compliance: float | None


class ReviewFigures(Answer, total=False):
    """What documents add to the overview."""

    sla: Sla | None


async def read_figure(store: Store, pace: AnswerCache) -> Sla | None:
    """The figures for the dashboard; None if there is no review."""
    if await pace.answer(("sla", "known"), lambda: store.table("tabellion_review_items")) is None:
        return None
    return await sla(store, pace)


async def sla(store: Store, pace: AnswerCache) -> Sla:
    """The open items, and the share of items due this week that were finished in time."""
    open_items = await pace.answer(("sla", "open"), lambda: _open(store))
    days = await pace.answer(("sla", "finished"), lambda: _count_finished(store))
    in_time = sum(day["kept"] for day in days)
    due = sum(day["finished"] for day in days) + open_items["overdue"]
    return {**open_items, "days": days, "kept": in_time, "due": due, "compliance": in_time / due if due else None}


async def _open(store: Store) -> OpenReview:
    d = store.dialect
    left = f"({sql.epoch('due_at', d)} - {sql.epoch(NOW, d)})"
    [row] = await store.database.fetch(
        f"""SELECT count(*) AS open, count(CASE WHEN status = 'in_review' THEN 1 END) AS in_review,
  count(CASE WHEN {left} < 0 THEN 1 END) AS overdue,
  count(CASE WHEN {left} >= 0 AND {left} < {SOON} THEN 1 END) AS soon,
  min(CASE WHEN {left} >= 0 THEN {sql.epoch("due_at", d)} END) AS next_at
FROM tabellion_review_items WHERE status IN ('pending', 'in_review')"""
    )
    return {
        "open": int(row["open"]), "in_review": int(row["in_review"]), "overdue": int(row["overdue"]),
        "soon": int(row["soon"]), "next_at": iso(row["next_at"]),
    }  # fmt: skip


async def _count_finished(store: Store) -> list[SlaDay]:
    """For each of the last days (UTC): how many items were finished, and how many of them in time."""
    d = store.dialect
    now = await store.now()
    first = int(now // DAY) - DAYS + 1
    day = (
        f"floor({sql.epoch('finished_at', d)} / {DAY})"
        if d == "postgresql"
        else f"CAST(finished_at / {DAY} AS INTEGER)"
    )
    rows = await store.database.fetch(
        f"""SELECT {day} AS day, count(*) AS finished, count(CASE WHEN finished_at <= due_at THEN 1 END) AS kept
FROM tabellion_review_items WHERE finished_at >= {sql.moment("$1", d)}
AND status IN ('approved', 'corrected', 'rejected')
GROUP BY {day}""",
        float(first * DAY),
    )
    found = {int(row["day"]): row for row in rows}
    return [
        {"at": iso(day * DAY), "finished": int(row["finished"]) if row else 0, "kept": int(row["kept"]) if row else 0}
        for day in range(first, first + DAYS)
        for row in [found.get(day)]
    ]
