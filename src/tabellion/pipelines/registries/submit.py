"""Submits searches: rows in the tables that workers look at."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tabellion.engine import sql
from tabellion.errors import TabellionError
from tabellion.extractions import tables as extractions
from tabellion.extractions.states import ExtractionStatus
from tabellion.messages import Message
from tabellion.pipelines.registries import tables
from tabellion.pipelines.registries.columns import EXTRACTION
from tabellion.pipelines.registries.states import SessionStatus

if TYPE_CHECKING:
    from tabellion.engine.store import Store
    from tabellion.pipelines.registries.settings import RegistrySettings


class IncompleteSearch(TabellionError):  # noqa: N818 - what the caller sent
    """A search lacks what its registry asks for."""

    def __init__(self, field: str, message: str) -> None:
        self.field = field
        super().__init__(message)


async def add_extraction(store: Store, settings: RegistrySettings, given: Mapping[str, Any]) -> str:
    """Adds a document to fetch; its id. Raises IncompleteSearch, which names the field."""
    kind = str(given["document_type"])
    task = settings.profiles["extraction"].tasks.get(kind)
    if task is None:
        known = ", ".join(settings.profiles["extraction"].tasks)
        raise IncompleteSearch("document_type", Message("registry.document_type", value=kind, known=known))
    for name in task.inputs:
        if not given.get(name):
            raise IncompleteSearch(name, Message("registry.input_missing", task=kind, names=[name]))
    there = await columns_of(store, extractions.TABLE)
    values: dict[str, Any] = {"status_id": int(ExtractionStatus.EN_ATTENTE), "document_type": kind}
    for name in EXTRACTION:
        if given.get(name):
            values[settings.columns.require(name, there, extractions.TABLE)] = given[name]
    return await _insert(store, extractions.TABLE, values)


async def add_session(store: Store, settings: RegistrySettings, company: str) -> str:
    """Adds a company to look up, by its name or number; the session's id."""
    column = settings.columns.require("company", await columns_of(store, tables.SESSIONS), tables.SESSIONS)
    status = SessionStatus.PENDING_COMPANY_SELECTION.value
    return await _insert(store, tables.SESSIONS, {"status": status, "req_completed": False, column: company})


async def columns_of(store: Store, table: str) -> set[str]:
    """The columns of a table as it is."""
    found = await store.table(table)
    return set() if found is None else set(found.columns)


async def new_key(store: Store, table: str) -> dict[str, str]:
    """The key of a new row, where the table does not make one itself."""
    found = await store.table(table)
    key = found.columns.get("id") if found is not None else None
    return {"id": str(uuid.uuid4())} if key is not None and not key.numbered and key.default is None else {}


async def _insert(store: Store, table: str, values: Mapping[str, Any]) -> str:
    values = {**await new_key(store, table), **values}
    names = ", ".join(sql.column(name) for name in values)
    marks = ", ".join(f"${number}" for number in range(1, len(values) + 1))
    rows = await store.database.fetch(
        f"INSERT INTO {table} ({names}) VALUES ({marks}) RETURNING CAST(id AS text) AS id", *values.values()
    )
    await store.database.wake()
    return str(rows[0]["id"])
