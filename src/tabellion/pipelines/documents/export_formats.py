"""Documents as people and programs take them away: CSV, JSON Lines, Parquet, written piece by piece."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, BinaryIO, Literal, Protocol

from tabellion.pipelines.documents.columns import Columns, arrow, name_columns, text
from tabellion.pipelines.documents.outputs import json_line
from tabellion.reading.types.doctype import FieldSpec
from tabellion.reading.types.kinds import NUMERIC
from tabellion.storage import files

Format = Literal["csv", "jsonl", "parquet"]
FORMATS = ("csv", "jsonl", "parquet")
#: The columns of a CSV file before those of the fields.
CSV_OWN = (
    "id", "name", "sha256", "type", "type_version", "status", "duplicate_of", "model", "verdict", "review", "reviewed",
    "pages", "cost", "error", "created_at", "completed_at",
)  # fmt: skip
GROUP = 5000  #: rows of one Parquet row group
#: What spreadsheets take for the start of a formula, the full-width forms too.
_FORMULA = re.compile(r"[=+\-@\t\r\n＝＋－＠]")
_NUMBER = re.compile(r"[-+]?\d{1,20}(\.\d{1,10})?")


class ExportTarget(Protocol):
    """Where the bytes go."""

    def write(self, data: bytes) -> None:
        """Takes the next bytes."""

    def finish(self) -> None:
        """It was all."""

    def discard(self) -> None:
        """It was not."""


class ToFile:
    """A file that is there when it is whole, and not before."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path).absolute()
        self._unnamed = files.Unnamed(self.path.parent, self.path.parent, 0o666)  # as the umask has it
        self.bytes, self._hash = 0, hashlib.sha256()

    @property
    def sha256(self) -> str:
        """Of what was written so far."""
        return self._hash.hexdigest()

    def write(self, data: bytes) -> None:
        """Takes the next bytes."""
        self._hash.update(data)
        self.bytes += len(data)
        self._unnamed.write(data)

    def finish(self) -> None:
        """Gives the file its name."""
        self._unnamed.name(self.path)

    def discard(self) -> None:
        """Leaves nothing."""
        self._unnamed.discard()


class ToStream:
    """Standard output, or whatever else is open."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream, self.bytes = stream, 0

    def write(self, data: bytes) -> None:
        """Takes the next bytes."""
        self.bytes += len(data)
        self._stream.write(data)

    def finish(self) -> None:
        """Sends what is held."""
        self._stream.flush()

    def discard(self) -> None:
        """What was sent was sent."""


class FormatWriter(Protocol):
    """One format being written."""

    def write(self, documents: Sequence[Mapping[str, Any]]) -> None:
        """The next documents, as `outputs.serialize_document` tells them and with their status."""

    def close(self) -> None:
        """There are no more."""


def sheet(format: Format, target: ExportTarget, columns: Columns, *, statuses: bool = False) -> FormatWriter:  # noqa: A002
    """A sheet of this format; with statuses, Parquet has them too."""
    if format == "csv":
        return _CSV(target, columns.specs)
    return _Parquet(target, columns, statuses) if format == "parquet" else _JSONLines(target)


def escape_formula(value: str) -> str:
    """A text that no spreadsheet takes for a formula."""
    return f"'{value}" if _FORMULA.match(value) else value


class _CSV:
    def __init__(self, target: ExportTarget, specs: Sequence[FieldSpec]) -> None:
        self._target = target
        self._fields = name_columns(specs, CSV_OWN)
        self._send([[*CSV_OWN, *(column for column, _ in self._fields)]])

    def write(self, documents: Sequence[Mapping[str, Any]]) -> None:
        self._send([self._row(document) for document in documents])

    def close(self) -> None:
        """Nothing is held."""

    def _row(self, document: Mapping[str, Any]) -> list[str]:
        own = [_plain(document.get("page_count" if name == "pages" else name)) for name in CSV_OWN]
        fields = document["fields"]
        return own + [_cell(spec, (fields.get(spec.name) or {}).get("value")) for _, spec in self._fields]

    def _send(self, rows: Sequence[Sequence[str]]) -> None:
        held = io.StringIO(newline="")
        csv.writer(held, lineterminator="\n").writerows(rows)
        self._target.write(held.getvalue().encode("utf-8", "replace"))


def _plain(value: Any) -> str:
    """A cell of a column of ours."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float | Decimal):
        return str(value)
    return escape_formula(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def _cell(spec: FieldSpec, value: Any) -> str:
    """A cell of a field's column: amounts stay numbers, and a minus before one is no formula."""
    if spec.kind in NUMERIC and isinstance(value, str) and _NUMBER.fullmatch(value):
        return value.removeprefix("+")
    return _plain(value)


class _JSONLines:
    def __init__(self, target: ExportTarget) -> None:
        self._target = target

    def write(self, documents: Sequence[Mapping[str, Any]]) -> None:
        self._target.write(b"".join(map(json_line, documents)))

    def close(self) -> None:
        """Nothing is held."""


class _Parquet:
    def __init__(self, target: ExportTarget, columns: Columns, statuses: bool) -> None:
        pa = arrow()
        import pyarrow.parquet as pq  # type: ignore[import-untyped]

        self._columns, self._held, self._extra = columns, [], ("status", "duplicate_of") if statuses else ()  # type: ignore[var-annotated]
        schema = columns.schema
        for name in self._extra:
            schema = schema.append(pa.field(_free(name, schema.names), pa.string()))
        self._schema = schema
        self._writer = pq.ParquetWriter(_Positioned(target), schema, compression="zstd", store_schema=False)

    def write(self, documents: Sequence[Mapping[str, Any]]) -> None:
        self._held += documents
        while len(self._held) >= GROUP:
            self._flush(GROUP)

    def close(self) -> None:
        self._flush(len(self._held))
        self._writer.close()

    def _flush(self, count: int) -> None:
        taken, self._held = self._held[:count], self._held[count:]
        if taken:
            pa = arrow()
            table = self._columns.table(taken)
            for name, field in zip(self._extra, list(self._schema)[len(table.column_names) :], strict=True):
                table = table.append_column(field, pa.array([text(one.get(name)) for one in taken], pa.string()))
            self._writer.write_table(table, row_group_size=GROUP)


def _free(name: str, taken: Sequence[str]) -> str:
    while name in taken:
        name += "_"
    return name


class _Positioned:
    """A target as Arrow wants a file: it asks where it is, never goes back."""

    closed = False

    def __init__(self, target: ExportTarget) -> None:
        self._target, self._place = target, 0

    def write(self, data: Any) -> int:
        held = bytes(data)
        self._target.write(held)
        self._place += len(held)
        return len(held)

    def tell(self) -> int:
        return self._place

    def flush(self) -> None:
        """The target sends what it holds when it is done."""

    def close(self) -> None:
        self.closed = True
