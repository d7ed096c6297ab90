"""What is known of searches: sessions with their companies and names, rights with their statements."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

from tabellion.answers import Answer, Doc
from tabellion.engine import sql
from tabellion.engine.timestamps import iso
from tabellion.pipelines.registries import tables
from tabellion.pipelines.registries.submit import columns_of

if TYPE_CHECKING:
    from tabellion.engine.store import Store
    from tabellion.pipelines.registries.settings import RegistrySettings

MOST = 200  #: rows of one list


class CompanyName(Answer):
    """A name of a company."""

    name: str
    state: Annotated[str, Doc("Whether the name is in use, in the register's words.")]


class RightsSearch(Answer):
    """A search of the register of rights under one name."""

    id: str
    search_session_id: str | None
    name: str | None
    status: Annotated[str, Doc("pending, in_progress, completed or failed.")]
    is_empty: Annotated[bool | None, Doc("Whether nothing is registered under the name; null: not known yet.")]
    registrations: Annotated[list[dict[str, str]], Doc("What is registered, as the register lists it.")]
    file: Annotated[str | None, Doc("Where the statement can be downloaded.")]
    note: Annotated[str | None, Doc("How far the worker is.")]
    error: str | None
    created_at: str | None
    completed_at: str | None


class SearchSession(Answer):
    """A company that is looked up, and the names that were found."""

    id: str
    company: Annotated[str | None, Doc("The name or number that was asked for.")]
    status: str
    req_completed: bool
    found: Annotated[dict[str, str] | None, Doc("The company's data as the register shows it.")]
    names: list[CompanyName]
    note: str | None
    error: str | None
    created_at: str | None
    rights: list[RightsSearch]


async def list_sessions(store: Store, settings: RegistrySettings, limit: int = MOST) -> list[SearchSession]:
    """The newest sessions, without their rights."""
    return [_session(row, []) for row in await _sessions(store, settings, "", (), limit)]


async def get_session(store: Store, settings: RegistrySettings, id_: str) -> SearchSession | None:
    """One session with its rights; None: there is none."""
    rows = await _sessions(store, settings, "WHERE CAST(t.id AS text) = $1", (id_,), 1)
    if not rows:
        return None
    rights = await list_rights(store, settings, session=id_)
    return _session(rows[0], rights)


async def list_rights(
    store: Store, settings: RegistrySettings, *, session: str | None = None, id_: str | None = None, limit: int = MOST
) -> list[RightsSearch]:
    """Searches of the register of rights: the newest, those of a session, or one."""
    column = settings.columns.find("name", await columns_of(store, tables.RIGHTS))
    where, values = "", []
    if session is not None:
        where, values = "WHERE CAST(t.search_session_id AS text) = $1", [session]
    elif id_ is not None:
        where, values = "WHERE CAST(t.id AS text) = $1", [id_]
    rows = await store.database.fetch(
        f"""SELECT CAST(t.id AS text) AS id, CAST(t.search_session_id AS text) AS search_session_id,
  {f"t.{sql.column(column)}" if column else "NULL"} AS name, t.status,
  {sql.epoch("t.created_at", store.dialect)} AS created_at,
  {sql.epoch("t.completed_at", store.dialect)} AS completed_at,
  f.is_empty, f.registrations, f.storage_path, {_last("rights", "note")} AS note, {_last("rights", "error")} AS error
FROM {tables.RIGHTS} AS t LEFT JOIN {tables.STATEMENTS} AS f ON f.rdprm_search_id = CAST(t.id AS text)
{where} ORDER BY t.created_at DESC, t.id DESC LIMIT {int(limit)}""",
        *values,
    )
    return [_rights(row) for row in rows]


async def statement_address(store: Store, id_: str) -> str | None:
    """The address of the statement of a search."""
    rows = await store.database.fetch(f"SELECT storage_path FROM {tables.STATEMENTS} WHERE rdprm_search_id = $1", id_)
    return rows[0]["storage_path"] if rows else None


async def _sessions(
    store: Store, settings: RegistrySettings, where: str, values: tuple[Any, ...], limit: int
) -> list[Any]:
    column = settings.columns.find("company", await columns_of(store, tables.SESSIONS))
    return await store.database.fetch(
        f"""SELECT CAST(t.id AS text) AS id, {f"t.{sql.column(column)}" if column else "NULL"} AS company, t.status,
  t.req_completed, {sql.epoch("t.created_at", store.dialect)} AS created_at, f.data, f.names,
  {_last("companies", "note")} AS note, {_last("companies", "error")} AS error
FROM {tables.SESSIONS} AS t LEFT JOIN {tables.COMPANIES} AS f ON f.search_session_id = CAST(t.id AS text)
{where} ORDER BY t.created_at DESC, t.id DESC LIMIT {int(limit)}""",
        *values,
    )


def _last(queue: str, column: str) -> str:
    """What the register says of a row's last attempt."""
    return (
        f"(SELECT a.{column} FROM tabellion_attempts AS a WHERE a.queue = '{queue}' AND a.key = CAST(t.id AS text) "
        "ORDER BY a.n DESC LIMIT 1)"
    )


def _session(row: Any, rights: list[RightsSearch]) -> SearchSession:
    return {
        "id": row["id"], "company": row["company"], "status": row["status"],
        "req_completed": bool(row["req_completed"]), "found": json.loads(row["data"]) if row["data"] else None,
        "names": json.loads(row["names"]) if row["names"] else [],
        "note": row["note"], "error": row["error"], "created_at": _moment(row["created_at"]), "rights": rights,
    }  # fmt: skip


def _moment(value: Any) -> str | None:
    """A time as the API tells it; SQLite's tables made by hand may have it as text."""
    return iso(value) if value is None or isinstance(value, int | float) else str(value)


def _rights(row: Any) -> RightsSearch:
    return {
        "id": row["id"], "search_session_id": row["search_session_id"], "name": row["name"], "status": row["status"],
        "is_empty": None if row["is_empty"] is None else bool(row["is_empty"]),
        "registrations": json.loads(row["registrations"]) if row["registrations"] else [],
        "file": f"/api/rdprm-searches/{row['id']}/file" if row["storage_path"] else None,
        "note": row["note"], "error": row["error"], "created_at": _moment(row["created_at"]),
        "completed_at": _moment(row["completed_at"]),
    }  # fmt: skip
