"""Reads searches: sessions with their companies and names, rights with their statements."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any, NotRequired, TypedDict

from tabellion.answers import Answer, Doc
from tabellion.engine import sql
from tabellion.engine.last_attempts import AttemptRow, last_attempts
from tabellion.engine.timestamps import iso
from tabellion.errors import ValueRefused
from tabellion.extractions.row_values import mark
from tabellion.messages import Translatable
from tabellion.monitor.fingerprint import attempt_forms
from tabellion.pipelines.registries import tables

if TYPE_CHECKING:
    from tabellion.engine.store import Store
    from tabellion.engine.tables.table import Table
    from tabellion.pipelines.registries.settings import RegistrySettings

MOST = 200  #: rows of one list


class CompanyName(Answer):
    """A name of a company."""

    name: str
    state: Annotated[str, Doc("Whether the name is in use, in the register's words.")]


class _Report(Answer):
    note: Annotated[str | None, Doc("The progress of the worker; null if no worker is running it.")]
    error: Annotated[str | None, Doc("Why the last attempt failed.")]
    translatable: NotRequired[Translatable]


class RightsSearch(_Report):
    """A search of the register of rights under one name."""

    id: str
    search_session_id: str | None
    name: str | None
    status: Annotated[str, Doc("pending, in_progress, completed or failed.")]
    is_empty: Annotated[bool | None, Doc("Whether nothing is registered under the name; null if not known yet.")]
    registrations: Annotated[list[dict[str, str]], Doc("What is registered, as the register lists it.")]
    file: Annotated[str | None, Doc("The URL of the statement.")]
    created_at: str | None
    completed_at: str | None


class SearchSession(_Report):
    """A company that is looked up, and the names that were found."""

    id: str
    company: Annotated[str | None, Doc("The name or number that was searched for.")]
    status: str
    req_completed: bool
    found: Annotated[dict[str, str] | None, Doc("The company's data as the register shows it.")]
    names: list[CompanyName]
    created_at: str | None
    rights: list[RightsSearch]


class _SessionRow(TypedDict):
    id: str
    company: str | None
    status: str
    req_completed: bool
    created_at: float | str | None
    data: str | None  #: JSON
    names: str | None  #: JSON


class _RightsRow(TypedDict):
    id: str
    search_session_id: str | None
    name: str | None
    status: str
    created_at: float | str | None
    completed_at: float | str | None
    is_empty: bool | None
    registrations: str | None  #: JSON
    storage_path: str | None


async def list_sessions(store: Store, settings: RegistrySettings, limit: int = MOST) -> list[SearchSession]:
    """The newest sessions, without their rights searches."""
    rows = await _sessions(store, settings, None, limit)
    attempts = await last_attempts(store.database, ["companies"], [row["id"] for row in rows])
    return [_session(row, attempts.get(("companies", row["id"])), []) for row in rows]


async def get_session(store: Store, settings: RegistrySettings, id_: str) -> SearchSession | None:
    """A session with its rights searches, or None."""
    rows = await _sessions(store, settings, id_, 1)
    if not rows:
        return None
    key = rows[0]["id"]
    attempts = await last_attempts(store.database, ["companies"], [key])
    rights = await list_rights(store, settings, session=id_)
    return _session(rows[0], attempts.get(("companies", key)), rights)


async def list_rights(
    store: Store, settings: RegistrySettings, *, session: str | None = None, id_: str | None = None, limit: int = MOST
) -> list[RightsSearch]:
    """Searches of the register of rights: the newest ones, those of a session, or one by its id."""
    table = await tables.require_table(store, tables.RIGHTS)
    column = settings.columns.find("name", table.columns)
    key, value = ("search_session_id", session) if session is not None else ("id", id_)
    rows: list[_RightsRow] = await _fetch_by(
        store, table, key, value, limit,
        f"""SELECT CAST(t.id AS text) AS id, CAST(t.search_session_id AS text) AS search_session_id,
  {f"t.{sql.column(column)}" if column else "NULL"} AS name, t.status,
  {sql.epoch("t.created_at", store.dialect)} AS created_at,
  {sql.epoch("t.completed_at", store.dialect)} AS completed_at,
  f.is_empty, f.registrations, f.storage_path
FROM {tables.RIGHTS} AS t LEFT JOIN {tables.STATEMENTS} AS f ON f.rdprm_search_id = CAST(t.id AS text)""",
    )  # fmt: skip
    attempts = await last_attempts(store.database, ["rights"], [row["id"] for row in rows])
    return [_rights(row, attempts.get(("rights", row["id"]))) for row in rows]


async def statement_address(store: Store, id_: str) -> str | None:
    """The address of a search's statement."""
    rows = await store.database.fetch(f"SELECT storage_path FROM {tables.STATEMENTS} WHERE rdprm_search_id = $1", id_)
    return rows[0]["storage_path"] if rows else None


async def _sessions(store: Store, settings: RegistrySettings, id_: str | None, limit: int) -> list[_SessionRow]:
    table = await tables.require_table(store, tables.SESSIONS)
    column = settings.columns.find("company", table.columns)
    return await _fetch_by(
        store, table, "id", id_, limit,
        f"""SELECT CAST(t.id AS text) AS id, {f"t.{sql.column(column)}" if column else "NULL"} AS company, t.status,
  t.req_completed, {sql.epoch("t.created_at", store.dialect)} AS created_at, f.data, f.names
FROM {tables.SESSIONS} AS t LEFT JOIN {tables.COMPANIES} AS f ON f.search_session_id = CAST(t.id AS text)""",
    )  # fmt: skip


async def _fetch_by(store: Store, table: Table, key: str, value: str | None, limit: int, query: str) -> list[Any]:
    """The newest rows, or those with this value of a key; none if the key's type does not allow the value."""
    where = "" if value is None else f"WHERE t.{key} = {mark(1, table.columns[key], store.dialect)}"
    text = f"{query}\n{where} ORDER BY t.created_at DESC, t.id DESC LIMIT {int(limit)}"
    if value is None:
        return await store.database.fetch(text)
    try:
        return await store.database.fetch(text, value)
    except ValueRefused:
        return []


def _report(attempt: AttemptRow | None) -> _Report:
    """The note of a running attempt and the error of the last one, with their forms."""
    if attempt is None:
        return {"note": None, "error": None}
    report: _Report = {
        "note": attempt["note"] if attempt["settled_at"] is None else None, "error": attempt["error"],
    }  # fmt: skip
    if forms := attempt_forms(attempt):
        report["translatable"] = forms
    return report


def _session(row: _SessionRow, attempt: AttemptRow | None, rights: list[RightsSearch]) -> SearchSession:
    return {
        "id": row["id"], "company": row["company"], "status": row["status"],
        "req_completed": bool(row["req_completed"]), "found": json.loads(row["data"]) if row["data"] else None,
        "names": json.loads(row["names"]) if row["names"] else [],
        "created_at": _moment(row["created_at"]), "rights": rights, **_report(attempt),
    }  # fmt: skip


def _moment(value: float | str | None) -> str | None:
    """A time in the format of the API; SQLite tables made by hand may store text."""
    return iso(value) if value is None or isinstance(value, int | float) else str(value)


def _rights(row: _RightsRow, attempt: AttemptRow | None) -> RightsSearch:
    return {
        "id": row["id"], "search_session_id": row["search_session_id"], "name": row["name"], "status": row["status"],
        "is_empty": None if row["is_empty"] is None else bool(row["is_empty"]),
        "registrations": json.loads(row["registrations"]) if row["registrations"] else [],
        "file": f"/api/rdprm-searches/{row['id']}/file" if row["storage_path"] else None,
        "created_at": _moment(row["created_at"]), "completed_at": _moment(row["completed_at"]), **_report(attempt),
    }  # fmt: skip
