"""Submits searches: adds rows to the tables that workers claim from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tabellion.errors import TabellionError
from tabellion.extractions import tables as extractions
from tabellion.extractions.row_values import check_length, insert_row
from tabellion.extractions.states import ExtractionStatus
from tabellion.messages import Message
from tabellion.pipelines.registries import tables
from tabellion.pipelines.registries.columns import EXTRACTION
from tabellion.pipelines.registries.states import SessionStatus

if TYPE_CHECKING:
    from tabellion.engine.store import Store
    from tabellion.pipelines.registries.settings import RegistrySettings


class IncompleteSearch(TabellionError):  # noqa: N818 - what the caller sent
    """A search lacks an input that its registry requires."""

    def __init__(self, field: str, message: str) -> None:
        self.field = field
        super().__init__(message)


async def add_extraction(store: Store, settings: RegistrySettings, inputs: Mapping[str, Any]) -> str:
    """Adds a document to fetch and returns its id; raises IncompleteSearch or TextTooLong, which name the field."""
    kind = str(inputs["document_type"])
    task = settings.profiles["extraction"].tasks.get(kind)
    if task is None:
        known = ", ".join(settings.profiles["extraction"].tasks)
        raise IncompleteSearch("document_type", Message("registry.document_type", value=kind, known=known))
    for name in task.inputs:
        if not inputs.get(name):
            raise IncompleteSearch(name, Message("registry.input_missing", task=kind, names=[name]))
    table = await tables.require_table(store, extractions.TABLE)
    values: dict[str, Any] = {"status_id": int(ExtractionStatus.EN_ATTENTE), "document_type": kind}
    for name in EXTRACTION:
        if inputs.get(name):
            column = settings.columns.require(name, table.columns, extractions.TABLE)
            check_length(table.columns[column], str(inputs[name]), name)
            values[column] = inputs[name]
    return await insert_row(store, table, table.columns["id"], values)


async def add_session(store: Store, settings: RegistrySettings, company: str) -> str:
    """Adds a company to look up by its name or number, and returns the session's id."""
    table = await tables.require_table(store, tables.SESSIONS)
    column = settings.columns.require("company", table.columns, tables.SESSIONS)
    check_length(table.columns[column], company, "company")
    status = SessionStatus.PENDING_COMPANY_SELECTION.value
    values = {"status": status, "req_completed": False, column: company}
    return await insert_row(store, table, table.columns["id"], values)
