"""The last attempt at each of several rows, from the register."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

from tabellion.answers import Answer, Doc
from tabellion.engine.columns import columns_of
from tabellion.engine.database import Database
from tabellion.engine.sql import Dialect
from tabellion.engine.values import json_text


class AttemptFacts(Answer):
    """The columns of an attempt that the API shows unchanged."""

    n: int
    attempt: int
    worker: str
    outcome: Annotated[str | None, Doc("Null: still running.")]
    error_code: Annotated[str | None, Doc("The code of the error, if it has one.")]
    error: str | None
    note: str | None
    cost: float | None


class AttemptRow(AttemptFacts):
    """A row of `tabellion_attempts`, times in seconds since 1970."""

    queue: str
    key: str
    error_params: str | None
    note_form: str | None
    claimed_at: float
    settled_at: float | None
    lease_until: float
    retry_at: float | None


#: The lists and, for each pair, one row by the primary key, however many attempts there are and whatever the
#: statistics say: PostgreSQL would read the whole table for the other form, and SQLite has only that one.
_SOURCE: dict[Dialect, str] = {
    "postgresql": """json_array_elements_text($1::json) AS q(value)
CROSS JOIN json_array_elements_text($2::json) AS k(value) CROSS JOIN LATERAL (
  SELECT * FROM tabellion_attempts AS m WHERE m.queue = q.value AND m.key = k.value ORDER BY m.n DESC LIMIT 1) AS a""",
    "sqlite": """json_each($1) AS q CROSS JOIN json_each($2) AS k CROSS JOIN tabellion_attempts AS a
WHERE a.queue = q.value AND a.key = k.value
  AND a.n = (SELECT max(m.n) FROM tabellion_attempts AS m WHERE m.queue = q.value AND m.key = k.value)""",
}


async def last_attempts(
    database: Database, queues: Iterable[str], keys: Iterable[str]
) -> dict[tuple[str, str], AttemptRow]:
    """The last attempt at each row of these queues with one of these keys, by queue and key."""
    queues, keys = list(queues), list(keys)
    if not queues or not keys:
        return {}
    d = database.dialect
    rows: list[AttemptRow] = await database.fetch(
        f"SELECT {columns_of(AttemptRow, 'a', d)} FROM {_SOURCE[d]}", json_text(queues), json_text(keys)
    )
    return {(row["queue"], row["key"]): row for row in rows}
