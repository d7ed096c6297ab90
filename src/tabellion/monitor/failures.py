"""Failed rows by what went wrong: one group for each fingerprint, and all of a group's rows."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any

from tabellion.engine import controls, sql
from tabellion.engine.moves import native_key
from tabellion.engine.paths import hide_folders
from tabellion.engine.queue import Queue
from tabellion.engine.store import Store
from tabellion.engine.values import json_text
from tabellion.monitor.fingerprint import fingerprint, form, message, shape
from tabellion.monitor.rows import called

PAGE = 2000  #: attempts asked for in one statement
MOST = 20_000  #: failed rows that are grouped; those with the last keys
SHOWN = 1000  #: characters of an error


@dataclass(frozen=True, slots=True)
class Failure:
    """One failed row and what was said of it."""

    key: str
    error: str
    code: str | None
    params: str | None
    at: float | None
    name: str | None  #: what people call the row


async def groups(store: Store, queue: Queue) -> dict[str, Any]:
    """The failed rows grouped by fingerprint, the largest group first; `whole`: whether every failed row is in it."""
    made: dict[str, dict[str, Any]] = {}
    count = 0
    async for page in _failures(store, queue, MOST):
        count += len(page)
        for one, mark in zip(page, await asyncio.to_thread(_marked, page), strict=True):
            group = made.get(mark)
            if group is None:
                made[mark] = group = {
                    "fingerprint": mark, "shape": shape(one.error), "count": 0, "first_at": one.at, "last_at": one.at,
                    "key": one.key, "name": one.name, "message": hide_folders(message(one.error)[:SHOWN]),
                    "translatable": {"message": said} if (said := form(one.error, one.code, one.params)) else None,
                }  # fmt: skip
            group["count"] += 1
            if one.at is not None:
                group["first_at"] = min(one.at, group["first_at"] if group["first_at"] is not None else one.at)
                group["last_at"] = max(one.at, group["last_at"] if group["last_at"] is not None else one.at)
    ordered = sorted(made.values(), key=lambda group: (-group["count"], group["fingerprint"]))
    return {"groups": ordered, "rows": count, "whole": count < MOST}


async def retry(store: Store, queue: Queue, mark: str) -> int:
    """Puts every failed row with this fingerprint back to ready; returns how many."""
    until = await store.now()
    moved = 0
    async for page in _failures(store, queue, None):
        marks = await asyncio.to_thread(_marked, page)
        # What has failed again since was not meant.
        keys = [one.key for one, its in zip(page, marks, strict=True) if its == mark and (one.at or 0.0) <= until]
        moved += await controls.restart(store, queue, keys) if keys else 0
    return moved


def _marked(page: Sequence[Failure]) -> list[str]:
    return [fingerprint(one.error) for one in page]


async def _failures(store: Store, queue: Queue, most: int | None) -> AsyncIterator[list[Failure]]:
    """Failed rows, the last key first; of what the register does not know, the row's own column tells."""
    bound = await store.bind(queue)
    key, mirror = sql.column(bound.key.name), queue.mirrors.get("error")
    said = f"CAST(t.{sql.column(mirror)} AS text)" if mirror else "NULL"
    beyond = ""
    values: list[str] = []
    for _ in itertools.count() if most is None else range(0, most, PAGE):
        rows = await store.database.fetch(
            f"""SELECT CAST(t.{key} AS text) AS key, {said} AS error, {called(bound)} AS row_name
FROM {sql.name(queue.table)} AS t
WHERE {sql.holds(queue.states["failed"], store.dialect)} {beyond} ORDER BY t.{key} DESC LIMIT {PAGE}""",
            *values,
        )
        known = await _endings(store, queue, [row["key"] for row in rows])
        yield [
            Failure(row["key"], error or row["error"] or "", code, params, at, row["row_name"])
            for row in rows
            for error, code, params, at in [known.get(row["key"], (None, None, None, None))]
        ]
        if len(rows) < PAGE:
            return
        beyond, values = f"AND t.{key} < {native_key(bound, '$1')}", [rows[-1]["key"]]


async def _endings(
    store: Store, queue: Queue, keys: Sequence[str]
) -> dict[str, tuple[str | None, str | None, str | None, float]]:
    """What the last attempt of each of these rows said, and when."""
    d = store.dialect
    listed = {
        "postgresql": "ANY (ARRAY(SELECT json_array_elements_text($2::json)))",
        "sqlite": "(SELECT value FROM json_each($2))",
    }[d]
    rows = await store.database.fetch(
        f"""SELECT a.key, a.error, a.error_code, a.error_params, {sql.epoch("a.settled_at", d)} AS at
FROM tabellion_attempts AS a
WHERE a.queue = $1 AND a.key {"=" if d == "postgresql" else "IN"} {listed} AND a.settled_at IS NOT NULL
  AND a.n = (SELECT max(m.n) FROM tabellion_attempts AS m WHERE m.queue = $1 AND m.key = a.key)""",
        queue.name,
        json_text(list(keys)),
    )
    return {row["key"]: (row["error"], row["error_code"], row["error_params"], float(row["at"])) for row in rows}
