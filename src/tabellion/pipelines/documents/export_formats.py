"""Export formats: CSV, JSON Lines and Parquet, written piece by piece."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, BinaryIO, Literal, Protocol

from tabellion.pipelines.documents.columns import Columns, arrow, name_columns, text
from tabellion.pipelines.documents.outputs import json_line
from tabellion.reading.types.field_spec import FieldSpec
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
#: Characters that spreadsheets take for the start of a formula, full-width forms included.
_FORMULA = re.compile(r"[=+\-@\t\r\n＝＋－＠]")
_NUMBER = re.compile(r"[-+]?\d{1,20}(\.\d{1,10})?")


class ExportTarget(Protocol):
    """Where the bytes go."""

    def write(self, data: bytes) -> None:
        """Writes the next bytes."""

    def finish(self) -> None:
        """Completes the output."""

    def discard(self) -> None:
        """Drops the output unless it is complete."""


class ToFile:
    """A file that appears under its name only when it is complete."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path).absolute()
        self._staged = files.StagedFile(self.path.parent, self.path.parent, 0o666)  # as the umask says
        self.bytes, self._hash = 0, hashlib.sha256()

    @property
    def sha256(self) -> str:
        """The hash of what was written so far."""
        return self._hash.hexdigest()

    def write(self, data: bytes) -> None:
        """Writes the next bytes."""
        self._hash.update(data)
        self.bytes += len(data)
        self._staged.write(data)

    def finish(self) -> None:
        """Gives the file its name."""
        self._staged.name(self.path)

    def discard(self) -> None:
        """Removes the file unless it has its name."""
        self._staged.discard()


class ToStream:
    """Standard output, or another open stream."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream, self.bytes = stream, 0

    def write(self, data: bytes) -> None:
        """Writes the next bytes."""
        self.bytes += len(data)
        self._stream.write(data)

    def finish(self) -> None:
        """Flushes the stream."""
        self._stream.flush()

    def discard(self) -> None:
        """Nothing to do: what was sent cannot be taken back."""


class FormatWriter(Protocol):
    """A writer of one format."""

    def write(self, documents: Sequence[Mapping[str, Any]]) -> None:
        """Writes the next documents: the result of `outputs.serialize_document` with their status."""

    def close(self) -> None:
        """Writes what is still buffered."""


def escape_formula(value: str) -> str:
    """The text, quoted if a spreadsheet would take it for a formula."""
    return f"'{value}" if _FORMULA.match(value) else value


class _CSV:
    def __init__(self, target: ExportTarget, columns: Columns, _: bool) -> None:
        self._target = target
        self._fields = name_columns(columns.specs, CSV_OWN)
        self._send([[*CSV_OWN, *(column for column, _ in self._fields)]])

    def write(self, documents: Sequence[Mapping[str, Any]]) -> None:
        self._send([self._row(document) for document in documents])

    def close(self) -> None:
        """Nothing is buffered."""

    def _row(self, document: Mapping[str, Any]) -> list[str]:
        own = [_plain(document.get("page_count" if name == "pages" else name)) for name in CSV_OWN]
        fields = document["fields"]
        return own + [_cell(spec, (fields.get(spec.name) or {}).get("value")) for _, spec in self._fields]

    def _send(self, rows: Sequence[Sequence[str]]) -> None:
        buffer = io.StringIO(newline="")
        csv.writer(buffer, lineterminator="\n").writerows(rows)
        self._target.write(buffer.getvalue().encode("utf-8", "replace"))


def _plain(value: Any) -> str:
    """A cell of one of our columns."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float | Decimal):
        return str(value)
    return escape_formula(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def _cell(spec: FieldSpec, value: Any) -> str:
    """A cell of a field's column: amounts stay numbers, and a leading minus is not a formula."""
    if spec.kind in NUMERIC and isinstance(value, str) and _NUMBER.fullmatch(value):
        return value.removeprefix("+")
    return _plain(value)


class _JSONLines:
    def __init__(self, target: ExportTarget, _columns: Columns, _: bool) -> None:
        self._target = target

    def write(self, documents: Sequence[Mapping[str, Any]]) -> None:
        self._target.write(b"".join(map(json_line, documents)))

    def close(self) -> None:
        """Nothing is buffered."""


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
        documents, self._held = self._held[:count], self._held[count:]
        if documents:
            pa = arrow()
            table = self._columns.table(documents)
            for name, field in zip(self._extra, list(self._schema)[len(table.column_names) :], strict=True):
                table = table.append_column(
                    field, pa.array([text(document.get(name)) for document in documents], pa.string())
                )
            self._writer.write_table(table, row_group_size=GROUP)


def _free(name: str, taken: Sequence[str]) -> str:
    while name in taken:
        name += "_"
    return name


class _Positioned:
    """A target as a file for Arrow, which asks for its position but never seeks."""

    closed = False

    def __init__(self, target: ExportTarget) -> None:
        self._target, self._place = target, 0

    def write(self, data: Any) -> int:
        content = bytes(data)
        self._target.write(content)
        self._place += len(content)
        return len(content)

    def tell(self) -> int:
        return self._place

    def flush(self) -> None:
        """Nothing to do: the target is flushed when it is finished."""

    def close(self) -> None:
        self.closed = True


#: The writer of each format, from the target, the columns, and whether documents have other statuses than completed.
WRITERS: dict[Format, Callable[[ExportTarget, Columns, bool], FormatWriter]] = {
    "csv": _CSV, "jsonl": _JSONLines, "parquet": _Parquet,
}  # fmt: skip
