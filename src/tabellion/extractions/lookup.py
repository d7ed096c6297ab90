"""Reads and adds rows of the extraction queue, with whatever columns the table has."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from tabellion.engine import sql
from tabellion.engine.last_attempts import AttemptRow, last_attempts
from tabellion.engine.store import Store
from tabellion.engine.tables.table import Column, Table
from tabellion.engine.timestamps import iso
from tabellion.errors import NotMigrated, StoreError, ValueRefused
from tabellion.extractions.columns import INPUTS, ColumnChoice, ColumnNames, ColumnsUnknown
from tabellion.extractions.queues import QUEUES, ExtractionQueue
from tabellion.extractions.row import FoundExtraction
from tabellion.extractions.row_values import check_length, insert_row
from tabellion.extractions.states import ExtractionStatus
from tabellion.extractions.tables import TABLE
from tabellion.monitor.fingerprint import attempt_forms

Time = Literal["created_at", "updated_at", "processing_started_at", "ocr_started_at"]
TIMES: tuple[Time, ...] = get_args(Time)
TEXTS = ("document_type", "worker_id", "error_message", "ocr_worker_id", "ocr_error")
COUNTS = ("ocr_attempts", "ocr_max_attempts")
RUNNING = (ExtractionStatus.EN_TRAITEMENT, ExtractionStatus.OCR_PROCESSING)


@dataclass(frozen=True, slots=True)
class ExtractionTable:
    """The table of one environment, with the columns that it has now."""

    store: Store
    table: Table
    key: Column
    columns: ColumnNames | None  #: None: unknown, to be configured
    inputs: Mapping[str, str]  #: the columns with the inputs of a search

    @classmethod
    async def open(cls, store: Store, choice: ColumnChoice) -> ExtractionTable:
        """Inspects the table; raises NotMigrated if it does not exist."""
        await store.open()
        table = await store.table(TABLE)
        if table is None:
            names = " or ".join(sorted({f"`tabellion migrate --with {queue.pipeline}`" for queue in QUEUES.values()}))
            raise NotMigrated(f"there is no table {TABLE} in this database: run {names}")
        try:
            columns = choice.find(table.columns)
        except ColumnsUnknown:
            columns = None
        key = table.primary_key[0] if len(table.primary_key) == 1 else "id"
        return cls(store, table, table.columns[key], columns, choice.find_inputs(table.columns))

    async def get(self, key: str, *, text: bool = False) -> FoundExtraction | None:
        """A row by its key, or None; with the document's text only if `text` is set."""
        value = self._value(key)
        if value is None:
            return None
        try:
            rows = await self._rows(f"t.{self._key} = {self._mark(1)}", [value], 1, text=text)
        except ValueRefused:
            return None
        return rows[0] if rows else None

    async def list_rows(
        self, filters: Mapping[str, Any], cursor: str | None, limit: int
    ) -> tuple[list[FoundExtraction], str | None]:
        """Rows, newest first, and the key after which the next page starts (None on the last page)."""
        conditions, values = ["1 = 1"], []
        for name, value in filters.items():
            if name not in self.table.columns:
                return [], None
            values.append(value)
            conditions.append(f"t.{sql.column(name)} = ${len(values)}")
        if cursor is not None and (start := self._value(cursor)) is not None:
            values.append(start)
            order = ", ".join(self._order)
            conditions.append(
                f"({', '.join(f't.{column}' for column in self._order)}) < "
                f"(SELECT {order} FROM {TABLE} WHERE {self._key} = {self._mark(len(values))})"
            )
        rows = await self._rows(" AND ".join(conditions), values, limit + 1)
        return rows[:limit], rows[limit - 1]["id"] if len(rows) > limit else None

    async def insert(self, values: Mapping[str, Any]) -> str:
        """Adds a row and returns its key. Inputs of a search get their column, values without a column are dropped.

        Raises TextTooLong for an input that is longer than its column.
        """
        known: dict[str, Any] = {}
        for name, value in values.items():
            column = self.inputs.get(name, name)
            if value is not None and column in self.table.columns:
                if name in ("document_type", *INPUTS):
                    check_length(self.table.columns[column], value, name)
                known[column] = value
        return await insert_row(self.store, self.table, self.key, known)

    async def queue_again(self, key: str, status: ExtractionStatus) -> None:
        """Gives a row this status, and wakes a worker."""
        where = f"{self._key} = {self._mark(2)}"
        text = f"UPDATE {TABLE} SET status_id = $1 WHERE {where} RETURNING 1 AS n"
        await self.store.database.fetch(text, int(status), self._value(key))
        await self.store.database.wake()

    async def has_file(self, address: str) -> bool:
        """Whether a row has this file."""
        if self.columns is None:
            return False
        where = f"{sql.column(self.columns.address)} = $1"
        return bool(await self.store.database.fetch(f"SELECT 1 AS n FROM {TABLE} WHERE {where} LIMIT 1", address))

    @property
    def _key(self) -> str:
        return sql.column(self.key.name)

    @property
    def _order(self) -> list[str]:
        return [*(['"created_at"'] if "created_at" in self.table.columns else []), self._key]

    def _mark(self, number: int) -> str:
        cast = self.store.dialect == "postgresql" and self.key.family == "uuid"
        return f"CAST(CAST(${number} AS text) AS uuid)" if cast else f"${number}"

    def _value(self, key: str) -> Any:
        """The key in the type of its column; None if it cannot be a key of this table."""
        if self.key.family in ("integer", "number"):
            return int(key) if key.removeprefix("-").isdecimal() and len(key) < 19 else None
        return key

    async def _rows(
        self, where: str, values: Sequence[Any], limit: int, *, text: bool = False
    ) -> list[FoundExtraction]:
        dialect, existing = self.store.dialect, self.table.columns
        selected = [f"CAST(t.{self._key} AS text) AS id", "t.status_id"]
        selected += [f"t.{name}" for name in (*TEXTS, *COUNTS) if name in existing]
        selected += [f"t.{sql.column(column)} AS {name}" for name, column in self.inputs.items()]
        selected += [
            f"{sql.mirror_epoch(f't.{name}', existing[name].family, existing[name].type, dialect)} AS {name}"
            for name in TIMES
            if name in existing
        ]
        if self.columns is not None:
            selected.append(f"t.{sql.column(self.columns.address)} AS file_address")
            body = f"t.{sql.column(self.columns.text)}"
            selected.append(f"{body} AS text" if text else f"CASE WHEN {body} IS NULL THEN 0 ELSE 1 END AS has_text")
            if self.columns.metadata is not None:
                selected.append(f"CAST(t.{sql.column(self.columns.metadata)} AS text) AS metadata")
        order = ", ".join(f"t.{column} DESC" for column in self._order)
        found: list[FoundExtraction] = await self.store.database.fetch(
            f"SELECT {', '.join(selected)} FROM {TABLE} AS t WHERE {where} ORDER BY {order} LIMIT {int(limit)}", *values
        )
        attempts = await self._last_attempts(found)
        for row in found:
            row["note"], row["forms"] = None, {}
            for queue in QUEUES.values():
                if (last := attempts.get((queue.name, row["id"]))) is not None:
                    _add_attempt(row, queue, last)
        return found

    async def _last_attempts(self, rows: Sequence[FoundExtraction]) -> dict[tuple[str, str], AttemptRow]:
        """The last attempts at rows that are running or failed, by queue and key."""
        keys = [row["id"] for row in rows if row["status_id"] in (*RUNNING, ExtractionStatus.ERREUR)]
        try:
            return await last_attempts(self.store.database, QUEUES, keys)
        except StoreError:
            return {}  # no worker has created the register in this database yet


def _add_attempt(row: FoundExtraction, queue: ExtractionQueue, last: AttemptRow) -> None:
    """Adds the note of a running attempt, and the forms of a note or error: the row has only the English text."""
    forms = attempt_forms(last)
    if row["status_id"] in RUNNING:
        if last["settled_at"] is None and last["note"] is not None:
            row["note"] = last["note"]
            row["forms"] |= {"note": forms["note"]} if "note" in forms else {}
    elif "error" in forms and last["error"] == row.get(queue.error):
        row["forms"][queue.error] = forms["error"]


def format_times(row: FoundExtraction) -> dict[str, str | None]:
    """The times of a row in ISO 8601."""
    return {name: iso(row.get(name)) for name in TIMES}


def load_metadata(row: FoundExtraction) -> dict[str, Any] | None:
    """How a row's text was made: pages, model, cost; None if the column has no object of that kind."""
    try:
        metadata = json.loads(row.get("metadata") or "null")
    except ValueError:
        return None
    return metadata if isinstance(metadata, dict) else None
