"""Failed rows grouped by fingerprint, and retrying all rows of a group."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Annotated

from tabellion.answers import Answer, Doc
from tabellion.engine import controls, sql
from tabellion.engine.last_attempts import AttemptRow, last_attempts
from tabellion.engine.moves import native_key
from tabellion.engine.paths import hide_folders
from tabellion.engine.queue import Queue
from tabellion.engine.store import Store
from tabellion.engine.tables.table import Row
from tabellion.engine.timestamps import iso
from tabellion.messages import Translatable
from tabellion.monitor.fingerprint import fingerprint, form, message, shape
from tabellion.monitor.rows import row_name_sql

PAGE = 2000  #: rows per statement
MOST = 20_000  #: failed rows that are grouped: those with the highest keys
SHOWN = 1000  #: characters of an error


@dataclass(frozen=True, slots=True)
class FailedRow:
    """One failed row and its error."""

    key: str
    error: str
    code: str | None
    params: str | None
    at: float | None
    name: str | None  #: the row's name for people


@dataclass(slots=True)
class _Group:
    first: FailedRow  #: the one that is shown
    count: int = 0
    first_at: float | None = None
    last_at: float | None = None


class ErrorGroup(Answer):
    """Failed rows with the same error."""

    fingerprint: str
    shape: Annotated[str, Doc("The error with what differs from row to row replaced.")]
    count: int
    first_at: str | None
    last_at: str | None
    key: Annotated[str, Doc("One of the rows.")]
    name: Annotated[str | None, Doc("The name of that row.")]
    message: Annotated[str, Doc("The error message of that row.")]
    translatable: Translatable | None


class ErrorGroups(Answer):
    """The failed rows of a queue grouped by error, the largest group first."""

    groups: list[ErrorGroup]
    rows: Annotated[int, Doc("Failed rows that were examined.")]
    whole: Annotated[bool, Doc("Whether all failed rows were examined.")]


async def groups(store: Store, queue: Queue) -> ErrorGroups:
    """The failed rows grouped by fingerprint, the largest group first; `whole`: whether all rows were examined."""
    by_fingerprint: dict[str, _Group] = {}
    count = 0
    async for page in _failures(store, queue, MOST):
        count += len(page)
        for failure, mark in zip(page, await asyncio.to_thread(_fingerprint_page, page), strict=True):
            group = by_fingerprint.setdefault(mark, _Group(failure))
            group.count += 1
            if failure.at is not None:
                group.first_at = failure.at if group.first_at is None else min(failure.at, group.first_at)
                group.last_at = failure.at if group.last_at is None else max(failure.at, group.last_at)
    ordered = sorted(by_fingerprint, key=lambda mark: (-by_fingerprint[mark].count, mark))
    return {"groups": [_group(mark, by_fingerprint[mark]) for mark in ordered], "rows": count, "whole": count < MOST}


def _group(mark: str, group: _Group) -> ErrorGroup:
    first = group.first
    error_form = form(first.error, first.code, first.params)
    return {
        "fingerprint": mark, "shape": shape(first.error), "count": group.count,
        "first_at": iso(group.first_at), "last_at": iso(group.last_at),
        "key": first.key, "name": first.name, "message": hide_folders(message(first.error)[:SHOWN]),
        "translatable": {"message": error_form} if error_form else None,
    }  # fmt: skip


async def retry(store: Store, queue: Queue, mark: str) -> int:
    """Puts every failed row with this fingerprint back to ready; returns how many."""
    until = await store.now()
    count = 0
    async for page in _failures(store, queue, None):
        marks = await asyncio.to_thread(_fingerprint_page, page)
        # Rows that have failed again since were not meant.
        keys = [
            failure.key
            for failure, failure_mark in zip(page, marks, strict=True)
            if failure_mark == mark and (failure.at or 0.0) <= until
        ]
        count += await controls.restart(store, queue, keys) if keys else 0
    return count


def _fingerprint_page(page: Sequence[FailedRow]) -> list[str]:
    return [fingerprint(failure.error) for failure in page]


async def _failures(store: Store, queue: Queue, most: int | None) -> AsyncIterator[list[FailedRow]]:
    """Pages of failed rows, highest key first; the error is the last attempt's, else that of the row's own column."""
    bound = await store.bind(queue)
    key, mirror = sql.column(bound.key.name), queue.mirrors.get("error")
    error_sql = f"CAST(t.{sql.column(mirror)} AS text)" if mirror else "NULL"
    beyond = ""
    values: list[str] = []
    for _ in itertools.count() if most is None else range(0, most, PAGE):
        rows: list[Row] = await store.database.fetch(
            f"""SELECT CAST(t.{key} AS text) AS key, {error_sql} AS error, {row_name_sql(bound)} AS row_name
FROM {sql.name(queue.table)} AS t
WHERE {queue.condition("failed", store.dialect)} {beyond} ORDER BY t.{key} DESC LIMIT {PAGE}""",
            *values,
        )
        last = await last_attempts(store.database, [queue.name], [row["key"] for row in rows])
        yield [_failed_row(row, last.get((queue.name, row["key"]))) for row in rows]
        if len(rows) < PAGE:
            return
        beyond, values = f"AND t.{key} < {native_key(bound, '$1')}", [rows[-1]["key"]]


def _failed_row(row: Row, last: AttemptRow | None) -> FailedRow:
    if last is None or last["settled_at"] is None:
        return FailedRow(row["key"], row["error"] or "", None, None, None, row["row_name"])
    error = last["error"] or row["error"] or ""
    return FailedRow(row["key"], error, last["error_code"], last["error_params"], last["settled_at"], row["row_name"])
