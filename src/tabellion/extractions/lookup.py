"""What is known of extractions: one, or a list, the newest first; in whatever columns the table has."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tabellion.engine import sql
from tabellion.engine.store import Store
from tabellion.engine.table import Column, Row, Table
from tabellion.engine.timestamps import iso
from tabellion.engine.values import for_insert
from tabellion.errors import NotMigrated, StoreError, ValueRefused
from tabellion.extractions.columns import ColumnChoice, ColumnNames, ColumnsUnknown
from tabellion.extractions.states import ExtractionStatus
from tabellion.extractions.tables import TABLE
from tabellion.monitor.fingerprint import form

#: What a search was for; told where the table has the column.
INPUTS = ("document_number", "lot", "cadastre", "circonscription", "designation_secondaire")
TIMES = ("created_at", "updated_at", "processing_started_at", "ocr_started_at")
TEXTS = ("document_type", *INPUTS, "worker_id", "error_message", "ocr_worker_id", "ocr_error")
COUNTS = ("ocr_attempts", "ocr_max_attempts")
#: Queues whose live attempts say how far a row is.
QUEUES = ("extraction", "ocr")
ERRORS = {"extraction": "error_message", "ocr": "ocr_error"}  #: and the columns of their errors


@dataclass(frozen=True, slots=True)
class ExtractionTable:
    """The table of one environment, as it is there."""

    store: Store
    table: Table
    key: Column
    columns: ColumnNames | None  #: None: it is not known which they are

    @classmethod
    async def open(cls, store: Store, choice: ColumnChoice) -> ExtractionTable:
        """Looks at the table; raises NotMigrated where there is none."""
        await store.open()
        table = await store.table(TABLE)
        if table is None:
            raise NotMigrated(f"there is no table {TABLE} in this database: run `tabellion migrate --with ocr`")
        try:
            columns = choice.find(table.columns)
        except ColumnsUnknown:
            columns = None
        key = table.primary_key[0] if len(table.primary_key) == 1 else "id"
        return cls(store, table, table.columns[key], columns)

    async def get(self, key: str, *, text: bool = False) -> Row | None:
        """One row, its text only if it is wanted; None where there is none."""
        value = self._value(key)
        if value is None:
            return None
        try:
            rows = await self._rows(f"t.{self._key} = {self._mark(1)}", [value], 1, text=text)
        except ValueRefused:
            return None
        return rows[0] if rows else None

    async def listing(self, filters: Mapping[str, Any], cursor: str | None, limit: int) -> tuple[list[Row], str | None]:
        """Rows, the newest first, and the key that the next page begins after; None: this is the last page."""
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
                f"({', '.join(f't.{one}' for one in self._order)}) < "
                f"(SELECT {order} FROM {TABLE} WHERE {self._key} = {self._mark(len(values))})"
            )
        rows = await self._rows(" AND ".join(conditions), values, limit + 1)
        return rows[:limit], rows[limit - 1]["id"] if len(rows) > limit else None

    async def insert(self, values: Mapping[str, Any]) -> str:
        """Puts a row in line; its key. Values of columns that the table lacks are left out."""
        known = {name: value for name, value in values.items() if name in self.table.columns and value is not None}
        if self.key.name not in known and self.key.default is None and self.key.family in ("text", "uuid"):
            known[self.key.name] = str(uuid.uuid4())  # SQLite would take a row without a key
        names = ", ".join(map(sql.column, known))
        marks = ", ".join(f"${number}" for number in range(1, len(known) + 1))
        rows = await self.store.database.fetch(
            f"INSERT INTO {TABLE} ({names}) VALUES ({marks}) RETURNING CAST({self._key} AS text) AS id",
            *(for_insert(self.table, name, value) for name, value in known.items()),
        )
        await self.store.database.wake()
        return str(rows[0]["id"])

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
        """A key as its column takes it; None where it cannot be one."""
        if self.key.family in ("integer", "number"):
            return int(key) if key.removeprefix("-").isdecimal() and len(key) < 19 else None
        return key

    async def _rows(self, where: str, values: Sequence[Any], limit: int, *, text: bool = False) -> list[Row]:
        dialect, there = self.store.dialect, self.table.columns
        told = [f"CAST(t.{self._key} AS text) AS id", "t.status_id"]
        told += [f"t.{name}" for name in (*TEXTS, *COUNTS) if name in there]
        told += [
            f"{sql.mirror_epoch(f't.{name}', there[name].family, there[name].type, dialect)} AS {name}"
            for name in TIMES
            if name in there
        ]
        if self.columns is not None:
            told.append(f"t.{sql.column(self.columns.address)} AS file_address")
            body = f"t.{sql.column(self.columns.text)}"
            told.append(f"{body} AS text" if text else f"CASE WHEN {body} IS NULL THEN 0 ELSE 1 END AS has_text")
            if self.columns.metadata is not None:
                told.append(f"CAST(t.{sql.column(self.columns.metadata)} AS text) AS metadata")
        order = ", ".join(f"t.{one} DESC" for one in self._order)
        found = await self.store.database.fetch(
            f"SELECT {', '.join(told)} FROM {TABLE} AS t WHERE {where} ORDER BY {order} LIMIT {int(limit)}", *values
        )
        rows = [dict(row) for row in found]
        notes = await self._notes([row["id"] for row in rows if row["status_id"] in RUNNING])
        forms = await self._forms([row["id"] for row in rows if row["status_id"] == ExtractionStatus.ERREUR])
        for row in rows:
            row["note"] = notes.get(row["id"])
            row["forms"] = {
                column: failure["form"]
                for queue, column in ERRORS.items()
                if (failure := forms.get((queue, row["id"]))) is not None and failure["error"] == row.get(column)
            }
        return rows

    async def _forms(self, keys: Sequence[str]) -> dict[tuple[str, str], dict[str, Any]]:
        """The last errors of these rows as messages: their columns have them in English."""
        rows = await self._attempts(
            "queue, key, error, error_code, error_params", "outcome = 'failed' AND error_code IS NOT NULL", keys
        )
        return {
            (row["queue"], row["key"]): {"error": row["error"], "form": told}
            for row in rows
            if (told := form(row["error"], row["error_code"], row["error_params"]))
        }

    async def _notes(self, keys: Sequence[str]) -> dict[str, str]:
        """How far the workers of these rows are."""
        rows = await self._attempts("key, note", "settled_at IS NULL AND note IS NOT NULL", keys)
        return {row["key"]: row["note"] for row in rows}

    async def _attempts(self, columns: str, condition: str, keys: Sequence[str]) -> list[Row]:
        """What the register says of these rows, the latest last."""
        if not keys:
            return []
        marks = ", ".join(f"${number}" for number in range(1, len(keys) + 1))
        queues = ", ".join(f"'{one}'" for one in QUEUES)
        try:
            return await self.store.database.fetch(
                f"SELECT {columns} FROM tabellion_attempts WHERE {condition} AND queue IN ({queues}) "
                f"AND key IN ({marks}) ORDER BY n",
                *keys,
            )
        except StoreError:
            return []  # a database that no worker of ours has seen yet


RUNNING = (ExtractionStatus.EN_TRAITEMENT, ExtractionStatus.OCR_PROCESSING)


def tell_times(row: Row) -> dict[str, str | None]:
    """The moments of a row."""
    return {name: iso(row.get(name)) for name in TIMES}


def load_metadata(row: Row) -> dict[str, Any] | None:
    """What is known of how its text was made; None where nothing is, or somebody else wrote it."""
    try:
        said = json.loads(row.get("metadata") or "null")
    except ValueError:
        return None
    return said if isinstance(said, dict) else None
