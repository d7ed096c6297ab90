"""Reads review items: one, many in a list, and counts."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, TypedDict

from tabellion.answers import Answer
from tabellion.engine import sql
from tabellion.engine.sql import NOW, Dialect
from tabellion.engine.store import Store
from tabellion.pipelines.documents.review.errors import NoSuchItem
from tabellion.pipelines.documents.review.people import Person
from tabellion.pipelines.documents.review.queue import ENDINGS, NAME, OPEN, Status
from tabellion.reading.types.rules import Verdict

MOST = 200  #: items in one list
DONE = "done"  #: as the status of a list: all finished items
_OPEN = "r.status IN ('pending', 'in_review')"
_TIMES = ("created_at", "due_at", "assigned_at", "escalated_at", "claimed_at", "finished_at")


class _Columns(TypedDict):
    """The columns of `tabellion_review_items` that are read; times are seconds since 1970."""

    id: str
    document_id: str
    status: Status
    priority: float
    confidence: float  #: the measures from which the priority is calculated, each between 0 and 1
    proximity: float
    complexity: float
    value: float
    reasons: str  #: JSON
    version: int
    assigned_to: str | None
    reviewer: str | None
    reason: str | None  #: of a rejection, as `store_rejection` makes it
    escalated_by: str | None
    escalation: str | None
    created_at: float
    due_at: float
    assigned_at: float | None
    escalated_at: float | None
    claimed_at: float | None
    finished_at: float | None
    seconds: float | None  #: time spent, and keys pressed
    keystrokes: int | None


class ItemRow(_Columns):
    """An item with its document's facts and its holder: a row of `select_items`."""

    name: str
    pages: int | None
    model: str
    sha256: str
    verdict: Verdict | None
    cost: float | None
    type: str | None
    document_status: str
    uploaded_at: float
    holder: str | None
    lease_until: float | None
    now: float
    postponed_until: float | None


class Counts(Answer):
    """The number of items."""

    pending: int
    in_review: int
    mine: int
    overdue: int
    escalated: int
    done_today: int


class Position(Answer):
    """The item's position in the queue."""

    place: int | None
    of: int


@dataclass(frozen=True, slots=True)
class Filters:
    """The filters of a list."""

    status: str = "open"  #: a status; open: pending or in review; done: finished
    assigned: str | None = None  #: a name; empty: nobody
    type: str | None = None
    reason: str | None = None  #: the code of a reason for review
    name: str | None = None  #: a part of the file's name
    overdue: bool = False
    escalated: bool = False


async def row(store: Store, id: str) -> ItemRow:  # noqa: A002 - the column's name
    """One item with its document's facts and its holder; raises NoSuchItem."""
    rows: list[ItemRow] = await store.database.fetch(f"{select_items(store.dialect)} WHERE r.id = $1", id)
    if not rows:
        raise NoSuchItem
    return rows[0]


async def list_items(
    store: Store, filters: Filters | None = None, cursor: str | None = None, limit: int = 50
) -> tuple[list[ItemRow], str | None]:
    """Items in the order in which they are claimed, or finished ones latest first; and the cursor of the next page.

    Priorities change as deadlines approach: a page begins after the priority that the last item of the previous page
    had.
    """
    chosen = filters or Filters()
    conditions, values = _conditions(chosen, store.dialect)
    closed = chosen.status in (DONE, *ENDINGS)
    place = sql.epoch("r.finished_at", store.dialect) if closed else "r.priority"
    if cursor is not None:
        after, last = json.loads(cursor)
        values += [float(after), str(last)]
        mark = f"CAST(${len(values) - 1} AS double precision)"
        conditions.append(f"({place} < {mark} OR ({place} = {mark} AND r.id > ${len(values)}))")
    rows: list[ItemRow] = await store.database.fetch(
        f"""{select_items(store.dialect)} WHERE {" AND ".join(conditions)}
ORDER BY {place} DESC, r.id LIMIT {int(limit) + 1}""",
        *values,
    )
    following = None
    if len(rows) > limit:
        last_row = rows[limit - 1]
        following = json.dumps([last_row["finished_at" if closed else "priority"], last_row["id"]])
    return rows[:limit], following


def _conditions(filters: Filters, dialect: Dialect) -> tuple[list[str], list[Any]]:
    values: list[Any] = []

    def mark(value: Any) -> str:
        values.append(value)
        return f"${len(values)}"

    # Literals: SQLite uses the partial index on open items only if it sees their statuses.
    statuses = OPEN if filters.status == "open" else ENDINGS if filters.status == DONE else (filters.status,)
    conditions = [f"r.status IN ({', '.join(sql.literal(status, dialect) for status in statuses)})"]
    if filters.assigned == "":
        conditions.append("r.assigned_to IS NULL")
    elif filters.assigned is not None:
        name = mark(filters.assigned)
        conditions.append(f"(r.assigned_to = {name} OR r.reviewer = {name})")
    if filters.type is not None:
        conditions.append(f"coalesce(d.found_type, d.type) = {mark(filters.type)}")
    if filters.name is not None:
        escaped = filters.name.lower().replace("!", "!!").replace("%", "!%").replace("_", "!_")
        conditions.append(f"lower(d.name) LIKE {mark(f'%{escaped}%')} ESCAPE '!'")
    if filters.reason is not None:
        code = mark(filters.reason)
        conditions.append(
            f"EXISTS (SELECT 1 FROM json_array_elements(CAST(r.reasons AS json)) AS e WHERE e->>'code' = {code})"
            if dialect == "postgresql"
            else f"EXISTS (SELECT 1 FROM json_each(r.reasons) AS e WHERE json_extract(e.value, '$.code') = {code})"
        )
    if filters.overdue:
        conditions.append(f"r.due_at < {NOW}")
    if filters.escalated:
        conditions.append("r.escalated_at IS NOT NULL")
    return conditions, values


async def counts(store: Store, person: Person) -> Counts:
    """The number of items of each kind, for this person."""
    kinds = {
        "pending": "r.status = 'pending'",
        "in_review": "r.status = 'in_review'",
        "overdue": f"{_OPEN} AND r.due_at < {NOW}",
        "escalated": f"{_OPEN} AND r.escalated_at IS NOT NULL",
        "done_today": f"r.finished_at >= {_midnight(store.dialect)}",
        "assigned": f"{_OPEN} AND r.assigned_to = $1",
        "held": "r.status = 'in_review' AND r.reviewer = $1 AND (r.assigned_to IS NULL OR r.assigned_to <> $1)",
    }
    # Each by its own index: one count of all kinds would read every waiting item.
    parts = [
        f"(SELECT count(*) FROM tabellion_review_items AS r WHERE {kind}) AS {name}" for name, kind in kinds.items()
    ]
    [row] = await store.database.fetch(f"SELECT {', '.join(parts)}", person.name)
    return {
        "pending": row["pending"], "in_review": row["in_review"], "mine": row["assigned"] + row["held"],
        "overdue": row["overdue"], "escalated": row["escalated"], "done_today": row["done_today"],
    }  # fmt: skip


async def count_finished_today(store: Store, person: Person) -> int:
    """The number of items that this person has finished today (UTC)."""
    [found] = await store.database.fetch(
        f"""SELECT count(*) AS n FROM tabellion_review_items AS r
WHERE r.finished_at >= {_midnight(store.dialect)} AND r.reviewer = $1""",
        person.name,
    )
    return int(found["n"])


def _midnight(dialect: Dialect) -> str:
    if dialect == "postgresql":
        return f"date_trunc('day', {NOW} AT TIME ZONE 'UTC') AT TIME ZONE 'UTC'"
    return f"CAST(strftime('%s', date({NOW}, 'unixepoch')) AS REAL)"


async def position(store: Store, item: ItemRow) -> Position:
    """The item's place in the queue, and the length of the queue; a finished one has no place."""
    mark = "CAST($1 AS double precision)" if store.dialect == "postgresql" else "$1"
    [found] = await store.database.fetch(
        f"""SELECT (SELECT count(*) FROM tabellion_review_items AS r WHERE {_OPEN}) AS whole,
  (SELECT count(*) FROM tabellion_review_items AS r WHERE {_OPEN} AND r.priority > {mark}) AS before,
  (SELECT count(*) FROM tabellion_review_items AS r WHERE {_OPEN} AND r.priority = {mark} AND r.id <= $2) AS beside""",
        float(item["priority"]), item["id"],
    )  # fmt: skip
    place = int(found["before"]) + int(found["beside"])
    return {"place": place if item["status"] in OPEN else None, "of": int(found["whole"])}


def select_items(dialect: Dialect) -> str:
    """The SELECT of items: `r` the item, `d` its document, `a` its live claim, `l` its last one."""
    columns = (
        f"{sql.epoch(f'r.{name}', dialect)} AS {name}" if name in _TIMES else f"r.{name}"
        for name in _Columns.__annotations__
    )
    return f"""SELECT {", ".join(columns)}, d.name, d.pages, d.model, d.sha256, d.verdict, d.cost,
  coalesce(d.found_type, d.type) AS type, d.status AS document_status,
  {sql.epoch("d.created_at", dialect)} AS uploaded_at, a.worker AS holder,
  {sql.epoch("a.lease_until", dialect)} AS lease_until, {sql.epoch(NOW, dialect)} AS now,
  CASE WHEN r.status = 'pending' AND l.outcome = 'limited' AND l.retry_at > {NOW}
    THEN {sql.epoch("l.retry_at", dialect)} END AS postponed_until
FROM tabellion_review_items AS r JOIN tabellion_documents AS d ON d.id = r.document_id
LEFT JOIN tabellion_attempts AS a ON a.queue = '{NAME}' AND a.key = r.id AND a.settled_at IS NULL
LEFT JOIN tabellion_attempts AS l ON l.queue = '{NAME}' AND l.key = r.id AND l.n = (
  SELECT max(m.n) FROM tabellion_attempts AS m WHERE m.queue = '{NAME}' AND m.key = r.id)"""


def of_document(columns: str) -> str:
    """$1 document -> these columns of its item."""
    return f"SELECT {columns} FROM tabellion_review_items WHERE document_id = $1"
