"""Whether people look at doubtful documents in time: what is due, what is late, and how it went this week."""

from __future__ import annotations

from tabellion.engine import sql
from tabellion.engine.sql import NOW
from tabellion.engine.store import Store
from tabellion.engine.timestamps import iso
from tabellion.monitor.overview import OpenReview, Sla, SlaDay
from tabellion.monitor.pace import AnswerCache

SOON = 7200.0  #: seconds before its time from which an item is due soon
DAYS = 7
DAY = 86_400


async def figure(store: Store, pace: AnswerCache) -> Sla | None:
    """The same as the dashboard shows it; None where nothing is reviewed."""
    if await pace.answer(("sla", "known"), lambda: store.table("tabellion_review_items")) is None:
        return None
    return await sla(store, pace)


async def sla(store: Store, pace: AnswerCache) -> Sla:
    """What is open now, and of what was due this week the share that a person finished in time."""
    still = await pace.answer(("sla", "open"), lambda: _open(store))
    days = await pace.answer(("sla", "finished"), lambda: _count_finished(store))
    kept = sum(one["kept"] for one in days)
    due = sum(one["finished"] for one in days) + still["overdue"]
    return {**still, "days": days, "kept": kept, "due": due, "compliance": kept / due if due else None}


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
    """Each of the last days (UTC): how many items people finished, and how many of them in time."""
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
