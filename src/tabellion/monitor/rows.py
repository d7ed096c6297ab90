"""The rows of a queue in one state, page by page, with their register entries."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from tabellion.answers import Answer, Doc
from tabellion.engine import register_tables, sql
from tabellion.engine.last_attempts import AttemptFacts, AttemptRow, last_attempts
from tabellion.engine.moves import native_key
from tabellion.engine.paths import hide_folders
from tabellion.engine.sql import Dialect
from tabellion.engine.store import Store
from tabellion.engine.tables.declaration import TIMES, Bound
from tabellion.engine.timestamps import iso
from tabellion.errors import TabellionError
from tabellion.messages import Translatable
from tabellion.monitor.fingerprint import attempt_forms, fingerprint, form, message
from tabellion.monitor.view import QueueView

#: The four states of a queue, and `waiting`: ready rows that are not due yet.
RowPlace = Literal["ready", "waiting", "running", "done", "failed"]
PLACES: tuple[RowPlace, ...] = ("ready", "waiting", "running", "done", "failed")
NAMES = ("name", "title", "file_name")  #: columns that may have a row's name; the first that exists is used
LONGEST = 200  #: characters of such a name
_Row = dict[str, Any]  #: of any table: the key, the name and the mirrors


class LastAttempt(AttemptFacts):
    """The last attempt of a row, from the register."""

    translatable: Translatable | None
    claimed_at: str
    settled_at: str | None
    lease_until: str
    retry_at: str | None


class QueueRow(Answer):
    """One row of a queue."""

    key: str
    name: Annotated[str | None, Doc("Its name, if its table has a column name, title or file_name.")]
    url: Annotated[str | None, Doc("The URL of its page, if there is one.")]
    mirrors: Annotated[dict[str, Any], Doc("The columns that the queue maintains: worker, error, …")]
    attempt: LastAttempt | None
    error: str | None
    translatable: Translatable | None
    fingerprint: str | None


class RowGone(TabellionError):  # noqa: N818 - what happened
    """The row that a page begins after is not there any more."""


async def rows(
    store: Store, view: QueueView, place: RowPlace, after: str | None, limit: int
) -> tuple[list[QueueRow], str | None]:
    """One page of rows, and the key after which the next page begins: ready rows in queue order, waiting ones by due
    time, the others by key, done and failed ones with the highest key first."""
    bound = await store.bind(view.queue)
    page = await (
        _waiting(store, bound, place, after, limit + 1)
        if place == "waiting"
        else _in_state(store, bound, view.holds(place, store.dialect), place, after, limit + 1)
    )
    name = view.queue.name
    last = await last_attempts(store.database, [name], [row["key"] for row in page])
    listed = [_serialize_row(row, last.get((name, row["key"])), view) for row in page[:limit]]
    return listed, page[limit - 1]["key"] if len(page) > limit else None


async def _in_state(
    store: Store, bound: Bound, state_condition: str, place: RowPlace, after: str | None, limit: int
) -> list[_Row]:
    queue, key = bound.queue, sql.column(bound.key.name)
    conditions: list[str] = [state_condition]
    values: list[Any] = []
    order, descending = f"t.{key}", place in ("done", "failed")
    if place == "ready":
        conditions += [f"(\n{queue.where}\n)"] if queue.where else []
        order = bound.order_by()
        if after is not None:
            beyond, values = _condition_after(bound, await _line_place(store, bound, after))
            conditions.append(beyond)
    elif after is not None:
        conditions.append(f"t.{key} {'<' if descending else '>'} {native_key(bound, '$1')}")
        values = [after]
    return await store.database.fetch(
        f"""SELECT {_columns(bound)} FROM {sql.name(queue.table)} AS t WHERE {" AND ".join(conditions)}
ORDER BY {order}{" DESC" if descending else ""} LIMIT {int(limit)}""",
        *values,
    )


async def _waiting(store: Store, bound: Bound, _: Any, after: str | None, limit: int) -> list[_Row]:
    queue, d = bound.queue, store.dialect
    beyond = ""
    values: list[Any] = [queue.name, await store.now()]
    if after is not None:
        values.append(after)
        beyond = """AND (a.retry_at, a.key) > (SELECT m.retry_at, m.key FROM tabellion_attempts AS m
  WHERE m.queue = $1 AND m.key = $3 ORDER BY m.n DESC LIMIT 1)"""
    # CROSS JOIN keeps SQLite from starting with the table: few rows wait, many are ready.
    return await store.database.fetch(
        f"""SELECT {_columns(bound)} FROM {register_tables.attempts_due(d)} CROSS JOIN {sql.name(queue.table)} AS t
WHERE a.queue = $1 AND a.retry_at > {sql.moment("$2", d)} {beyond}
  AND t.{sql.column(bound.key.name)} = {native_key(bound, "a.key")} AND {sql.holds(queue.states["ready"], d)}
ORDER BY a.retry_at, a.key LIMIT {int(limit)}""",
        *values,
    )


def _columns(bound: Bound) -> str:
    """The key, the name and the mirrors; times as seconds since 1970 if the column's type allows."""
    columns = [f"CAST(t.{sql.column(bound.key.name)} AS text) AS key", f"{row_name_sql(bound)} AS row_name"]
    for mirror, name in bound.mirrors.items():
        column, expression = bound.column(name), f"t.{sql.column(name)}"
        if mirror in TIMES and _is_clock(column.family, bound.dialect):
            expression = sql.mirror_epoch(expression, column.family, column.type, bound.dialect)
        columns.append(f"{expression} AS {mirror}")
    return ", ".join(columns)


def row_name_sql(bound: Bound) -> str:
    """The SQL for the name of a row of `t`; NULL if its table has no such column."""
    for name in NAMES:
        column = bound.table.columns.get(name)
        if column is not None and column.family != "bytes" and name != bound.key.name:
            return f"substr(CAST(t.{sql.column(name)} AS text), 1, {LONGEST})"
    return "NULL"


def _is_clock(family: str, dialect: Dialect) -> bool:
    return family in ("time", "number", "integer") or (dialect == "sqlite" and family == "text")


async def _line_place(store: Store, bound: Bound, key: str) -> _Row:
    """The values of a row in the columns of the queue's order."""
    names = ", ".join(f"t.{sql.column(column)}" for column, _ in bound.order)
    matching: list[_Row] = await store.database.fetch(
        f"""SELECT {names} FROM {sql.name(bound.queue.table)} AS t
WHERE t.{sql.column(bound.key.name)} = {native_key(bound, "$1")}""",
        key,
    )
    if not matching:
        raise RowGone
    return matching[0]


def _condition_after(bound: Bound, last: _Row) -> tuple[str, list[Any]]:
    """The condition that a row comes after another in queue order, also with NULLs."""
    values: list[Any] = []
    ties: list[str] = []
    ways: list[str] = []
    for column, descending in bound.order:
        expression, value = f"t.{sql.column(column)}", last[column]
        empty_last = (bound.dialect == "postgresql") != descending
        if value is None:
            behind = "1 = 0" if empty_last else f"{expression} IS NOT NULL"
            tie = f"{expression} IS NULL"
        else:
            values.append(value)
            behind = f"{expression} {'<' if descending else '>'} ${len(values)}"
            behind = f"({behind} OR {expression} IS NULL)" if empty_last else behind
            tie = f"{expression} = ${len(values)}"
        ways.append(" AND ".join([*ties, behind]))
        ties.append(tie)
    return f"({' OR '.join(f'({way})' for way in ways)})", values


def _serialize_row(row: _Row, last: AttemptRow | None, view: QueueView) -> QueueRow:
    mirrors = {
        mirror: iso(row[mirror]) if mirror in TIMES and isinstance(row[mirror], int | float) else row[mirror]
        for mirror in view.queue.mirrors
        if mirror in row
    }
    raw_error = (last["error"] if last is not None else None) or mirrors.get("error")
    raw_error = str(raw_error) if raw_error is not None else None
    error = hide_folders(message(raw_error)) or None
    if mirrors.get("error") is not None:
        mirrors["error"] = error
    attempt = None if last is None else _attempt(last)
    return {
        "key": row["key"],
        "name": row["row_name"],
        "url": view.page.format(row["key"]) if view.page else None,
        "mirrors": mirrors,
        "attempt": attempt,
        "error": error,
        "translatable": attempt["translatable"] if attempt is not None and attempt["error"] else _of_mirror(raw_error),
        "fingerprint": fingerprint(raw_error) if raw_error else None,
    }


def _attempt(row: AttemptRow) -> LastAttempt:
    return {
        "n": row["n"], "attempt": row["attempt"], "worker": row["worker"], "outcome": row["outcome"],
        "error_code": row["error_code"], "error": hide_folders(message(row["error"])) or None,
        "translatable": attempt_forms(row) or None, "note": row["note"], "cost": row["cost"],
        "claimed_at": iso(row["claimed_at"]), "settled_at": iso(row["settled_at"]),
        "lease_until": iso(row["lease_until"]), "retry_at": iso(row["retry_at"]),
    }  # fmt: skip


def _of_mirror(error: str | None) -> Translatable | None:
    found = form(error)
    return {"error": found} if found else None
