"""Memos: the results of paid calls, stored by the hash of the request, so that nothing is paid for twice."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tabellion.engine import sql
from tabellion.engine.sql import NOW
from tabellion.engine.store import Store


@dataclass(frozen=True, slots=True)
class Asker:
    """The caller of a paid call: a job, identified by its claim, or code outside any queue."""

    queue: str = ""
    key: str = ""
    token: str = ""


@dataclass(frozen=True, slots=True)
class Memo:
    """What is stored for one request."""

    reply: str | None = field(default=None, repr=False)  #: the answer; None: there is none yet
    mine: bool = False  #: whether this caller has to obtain it
    same: bool = False  #: whether the same job made the request before: then this is a resume, else a duplicate
    hint: Mapping[str, Any] = field(default_factory=dict)  #: what was learned from the last useless answer


class Memos:
    """The memos of one database."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def recall(self, key: str, asker: Asker, model: str, lease: float) -> Memo:
        """The stored answer; or the task to obtain it (`mine`), which no other caller gets for `lease` seconds.

        With neither, another caller is obtaining it.
        """
        database, dialect = self._store.database, self._store.dialect
        await self._store.open()
        until = sql.later("CAST($6 AS double precision)" if dialect == "postgresql" else "$6", dialect)
        # A job that has lost its claim will not obtain the answer: a crash must not block the next attempt.
        acquired = await database.fetch(
            f"""INSERT INTO tabellion_memos AS m (key, model, queue, row_key, token, asked_at, lease_until)
VALUES ($1, $2, $3, $4, $5, {NOW}, {until})
ON CONFLICT (key) DO UPDATE SET queue = excluded.queue, row_key = excluded.row_key, token = excluded.token,
  asked_at = excluded.asked_at, lease_until = excluded.lease_until
WHERE m.reply IS NULL AND (m.lease_until IS NULL OR m.lease_until < {NOW}
  OR (m.queue = excluded.queue AND m.row_key = excluded.row_key AND m.queue <> '' AND m.token <> excluded.token)
  OR (m.queue <> '' AND NOT EXISTS (SELECT 1 FROM tabellion_attempts AS a WHERE a.queue = m.queue
    AND a.key = m.row_key AND CAST(a.token AS text) = m.token AND a.settled_at IS NULL)))
RETURNING hint""",
            key, model, asker.queue, asker.key, asker.token, lease,
        )  # fmt: skip
        if acquired:
            return Memo(mine=True, hint=json.loads(acquired[0]["hint"] or "{}"))
        rows = await database.fetch("SELECT reply, queue, row_key FROM tabellion_memos WHERE key = $1", key)
        if not rows:
            return Memo()
        same = bool(asker.queue) and (rows[0]["queue"], rows[0]["row_key"]) == (asker.queue, asker.key)
        return Memo(rows[0]["reply"], same=same)

    async def remember(self, key: str, asker: Asker, reply: str, cost: float | None) -> None:
        """Stores an answer, if it is still this caller's task."""
        await self._store.database.fetch(
            """UPDATE tabellion_memos SET reply = $3, cost = $4, lease_until = NULL, raw = NULL, hint = NULL
WHERE key = $1 AND token = $2 AND reply IS NULL""",
            key, asker.token, reply, cost,
        )  # fmt: skip

    async def give_up(
        self, key: str, asker: Asker, *, hint: Mapping[str, Any] | None = None, raw: str | None = None
    ) -> None:
        """Gives up the task without an answer: the next caller may try, with the hint."""
        await self._store.database.fetch(
            """UPDATE tabellion_memos SET lease_until = NULL, hint = coalesce($3, hint), raw = coalesce($4, raw)
WHERE key = $1 AND token = $2 AND reply IS NULL""",
            key, asker.token, json.dumps(dict(hint)) if hint else None, raw,
        )  # fmt: skip


def hand_over(row_key: str, heir: str) -> tuple[str, dict[str, str]]:
    """The statement that gives the memos of a row to another row."""
    return "UPDATE tabellion_memos SET row_key = :heir WHERE row_key = :row_key", {"row_key": row_key, "heir": heir}


def forget_rows(row_keys: str, **values: str) -> tuple[str, dict[str, str]]:
    """The statement that deletes the memos of the rows whose keys this SELECT with `:name` placeholders returns."""
    return f"DELETE FROM tabellion_memos WHERE row_key IN ({row_keys})", values


def forget_row(row_key: str) -> tuple[str, dict[str, str]]:
    """The statement that deletes the memos of a row."""
    return "DELETE FROM tabellion_memos WHERE row_key = :row_key", {"row_key": row_key}
