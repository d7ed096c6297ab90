"""Submits searches: adds rows to the tables that workers claim from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tabellion.engine import sql
from tabellion.engine.values import for_insert
from tabellion.errors import TabellionError
from tabellion.extractions import tables as extractions
from tabellion.extractions.states import ExtractionStatus
from tabellion.messages import Message
from tabellion.pipelines.registries import tables
from tabellion.pipelines.registries.columns import EXTRACTION
from tabellion.pipelines.registries.row_values import mark, new_key, new_stamps, require_table
from tabellion.pipelines.registries.states import SessionStatus

if TYPE_CHECKING:
    from tabellion.engine.store import Store
    from tabellion.engine.table import Table
    from tabellion.pipelines.registries.settings import RegistrySettings


class IncompleteSearch(TabellionError):  # noqa: N818 - what the caller sent
    """A search lacks an input that its registry requires."""

    def __init__(self, field: str, message: str) -> None:
        self.field = field
        super().__init__(message)


async def add_extraction(store: Store, settings: RegistrySettings, inputs: Mapping[str, Any]) -> str:
    """Adds a document to fetch and returns its id; raises IncompleteSearch, which names the field."""
    kind = str(inputs["document_type"])
    task = settings.profiles["extraction"].tasks.get(kind)
    if task is None:
        known = ", ".join(settings.profiles["extraction"].tasks)
        raise IncompleteSearch("document_type", Message("registry.document_type", value=kind, known=known))
    for name in task.inputs:
        if not inputs.get(name):
            raise IncompleteSearch(name, Message("registry.input_missing", task=kind, names=[name]))
    table = await require_table(store, extractions.TABLE)
    values: dict[str, Any] = {"status_id": int(ExtractionStatus.EN_ATTENTE), "document_type": kind}
    for name in EXTRACTION:
        if inputs.get(name):
            values[settings.columns.require(name, table.columns, extractions.TABLE)] = inputs[name]
    return await _insert(store, table, values)


async def add_session(store: Store, settings: RegistrySettings, company: str) -> str:
    """Adds a company to look up by its name or number, and returns the session's id."""
    table = await require_table(store, tables.SESSIONS)
    column = settings.columns.require("company", table.columns, tables.SESSIONS)
    status = SessionStatus.PENDING_COMPANY_SELECTION.value
    return await _insert(store, table, {"status": status, "req_completed": False, column: company})


async def _insert(store: Store, table: Table, values: Mapping[str, Any]) -> str:
    values = {**new_key(table), **values}
    marks = {
        name: mark(number, table.columns[name], store.dialect) if isinstance(value, str) else f"${number}"
        for number, (name, value) in enumerate(values.items(), 1)
    }
    marks |= new_stamps(table, store.dialect)
    rows = await store.database.fetch(
        f"""INSERT INTO {table.name} ({", ".join(map(sql.column, marks))}) VALUES ({", ".join(marks.values())})
RETURNING CAST(id AS text) AS id""",
        *(for_insert(table, name, value) for name, value in values.items()),
    )
    await store.database.wake()
    return str(rows[0]["id"])
