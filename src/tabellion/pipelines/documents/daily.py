"""The files of a day: which paths they have, the rows in them, and how many small ones become one."""

from __future__ import annotations

import hashlib
import heapq
import io
import json
import re
import secrets
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from string import Formatter
from typing import Any

from tabellion.pipelines.documents.columns import arrow
from tabellion.storage.files import ENDING
from tabellion.storage.lake import LakeError

FOLDER = "daily"
GROUP = 5000  #: rows of one row group, at least
CHUNK = 250  #: rows that are kept as tables of their own
NEEDED = {"id", "type", "version", "created_at"}  #: columns without which a file is none of ours


@dataclass(frozen=True, slots=True)
class Template:
    """Where a document type writes its Parquet files."""

    text: str

    @property
    def root(self) -> str:
        """The folder that all of them are below."""
        return self.text.partition("{")[0].rpartition("/")[0]

    @property
    def dated(self) -> bool:
        """Whether a path says its day."""
        return all(f"{{{one}}}" in self.text for one in ("yyyy", "mm", "dd"))

    def prefix(self, day: date) -> str:
        """The folder that those of a day are below."""
        filled = self.text.replace("{yyyy}", f"{day:%Y}").replace("{mm}", f"{day:%m}").replace("{dd}", f"{day:%d}")
        return filled.partition("{")[0].rpartition("/")[0]

    def match(self, path: str) -> dict[str, str] | None:
        """What a path says, if it is one of these: its id, its day."""
        found = re.fullmatch(_pattern(self.text), path)
        return None if found is None or is_daily(path, self.root) else found.groupdict()


def _pattern(template: str) -> str:
    kinds = {"yyyy": r"\d{4}", "mm": r"\d\d", "dd": r"\d\d"}
    made, seen = "", set()
    for literal, name, _, _ in Formatter().parse(template):
        made += re.escape(literal)
        if name is not None:
            made += f"(?P={name})" if name in seen else f"(?P<{name}>{kinds.get(name, '[^/]+')})"
            seen.add(name)
    return made


def day_of(said: dict[str, str]) -> date | None:
    """The day that a path says."""
    try:
        return date(int(said["yyyy"]), int(said["mm"]), int(said["dd"]))
    except (KeyError, ValueError):
        return None


def daily_folder(root: str, day: date) -> str:
    """The folder of the files of a day."""
    return f"{root}/{FOLDER}/{day:%Y/%m/%d}".lstrip("/")


def daily_path(root: str, kind: str, shape: str, day: date, number: int) -> str:
    """The file of a day, a type and a schema; it is never written again, a later one has a higher number."""
    return f"{daily_folder(root, day)}/{number:06}-{kind}-{shape}.parquet"


def manifest_path(root: str, day: date) -> str:
    """What the files of a day were made of."""
    return f"{daily_folder(root, day)}/manifest.json"


def is_daily(path: str, root: str) -> bool:
    """Whether this is the file of a day."""
    start = re.escape(f"{root}/{FOLDER}".lstrip("/"))
    return bool(re.fullmatch(rf"{start}/\d{{4}}/\d\d/\d\d/\d{{6,}}-[a-z0-9_]+-[0-9a-f]{{8}}\.parquet", path))


def root_of(path: str) -> str | None:
    """The root of the file of a day; None where it is none."""
    root = path[: path.rfind(f"{FOLDER}/")].rstrip("/") if f"{FOLDER}/" in path else None
    return root if root is not None and is_daily(path, root) else None


def number_of(path: str) -> int:
    """The number of a file of a day; 0 for any other."""
    start = path.rpartition("/")[2].partition("-")[0]
    return int(start) if start.isdigit() else 0


@dataclass(frozen=True, slots=True)
class Row:
    """One document's row, as a table of one row."""

    id: str
    version: int
    kind: str
    shape: str
    table: Any
    day: date
    file: str

    @property
    def rank(self) -> tuple[str, int, int]:
        """By id, of one id the newest first: the highest version, then the file of a day that was written last."""
        return self.id, -self.version, -number_of(self.file)

    @property
    def digest(self) -> bytes:
        """The same for the same values."""
        return hashlib.sha256(repr(self.table.to_pylist()).encode("utf-8", "replace")).digest()


def shape_of(schema: Any) -> str:
    """Tells schemas apart."""
    return hashlib.sha256("\n".join(f"{field.name} {field.type}" for field in schema).encode()).hexdigest()[:8]


def rows_of(data: bytes, path: str) -> Iterator[Row]:
    """The rows of a Parquet file of ours, some at a time in memory; LakeError where it is none."""
    pa = arrow()
    import pyarrow.parquet as pq  # type: ignore[import-untyped]

    try:
        file = pq.ParquetFile(io.BytesIO(data))
        if not set(file.schema_arrow.names) >= NEEDED:
            raise LakeError(f"{path}: it lacks required columns")
        shape = shape_of(file.schema_arrow)
        for batch in file.iter_batches(GROUP, use_threads=False):  # one row wants no threads
            table = pa.Table.from_batches([batch])
            about = zip(
                *(table.column(name).to_pylist() for name in ("id", "version", "type", "created_at")), strict=True
            )
            for place, (id_, version, kind, created_at) in enumerate(about):
                if id_ is None or created_at is None or not re.fullmatch("[a-z0-9_]+", kind or ""):
                    raise LakeError(f"{path}: it has a row without id, type or time")
                yield Row(id_, version or 0, kind, shape, table.slice(place, 1), created_at.date(), path)
    except (pa.ArrowException, OSError) as error:
        raise LakeError(f"{path}: it is not a valid Parquet file: {str(error).splitlines()[0][:200]}") from error


def newest(streams: Iterable[Iterator[Row]]) -> Iterator[Row]:
    """The rows of streams that are sorted by id, each id once and as it was written last."""
    held: Row | None = None
    for row in heapq.merge(*streams, key=lambda row: row.rank):
        if held is None or row.id != held.id:
            held = row
            yield row


def places(rows: Iterable[Row]) -> dict[str, str]:
    """The file that has each document's row."""
    return {row.id: row.file for row in rows}


def digests(rows: Iterable[Row], settled: set[str]) -> dict[str, tuple[bytes, str]]:
    """What each document's row says, and the file it is in, where that is one of these."""
    return {row.id: (row.digest, row.file) for row in rows if row.file in settled}


def ids_of(data: bytes, path: str) -> list[str]:
    """The documents whose rows are in a file."""
    return [row.id for row in rows_of(data, path)]


def files_with(found: Iterable[tuple[str, bytes]], ids: set[str]) -> list[str]:
    """Which of the files have rows of these."""
    return [path for path, data in found if not ids.isdisjoint(ids_of(data, path))]


class DayFile:
    """One file of a day being written, beside the lake until it is whole."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / f".{secrets.token_hex(8)}{ENDING}"
        self.rows = 0
        self._ids = hashlib.sha256()
        self._held: list[Any] = []
        self._combined: list[Any] = []
        self._combined_rows = 0
        self._writer: Any = None

    def add(self, row: Row) -> None:
        """The next row."""
        self._held.append(row.table)
        self._ids.update(f"{row.id}\n".encode())
        self.rows += 1
        if len(self._held) >= CHUNK:
            self._combine()
        if self._combined_rows >= GROUP:
            self._flush()

    def close(self) -> None:
        """Ends it, and reads back that it has every row, in order."""
        import pyarrow.parquet as pq

        self._flush()
        self._writer.close()
        ids, rows = hashlib.sha256(), 0
        with pq.ParquetFile(self.path) as file:
            for batch in file.iter_batches(columns=["id"]):
                rows += batch.num_rows
                ids.update("".join(f"{one}\n" for one in batch.column(0).to_pylist()).encode())
        if (rows, ids.digest()) != (self.rows, self._ids.digest()):
            raise LakeError(f"{self.path}: {rows} of {self.rows} rows were read back; nothing was changed")

    def discard(self) -> None:
        """Leaves nothing, unless it was moved into the lake."""
        if self._writer is not None and self._writer.is_open:
            self._writer.close()
        self.path.unlink(missing_ok=True)

    def _combine(self) -> None:
        """Makes one table of many: a table of one row takes ten times the memory of its values."""
        if self._held:
            self._combined.append(arrow().concat_tables(self._held).combine_chunks())
            self._combined_rows += len(self._held)
            self._held.clear()

    def _flush(self) -> None:
        import pyarrow.parquet as pq

        self._combine()
        if self._combined:
            table = arrow().concat_tables(self._combined).combine_chunks()
            self._combined, self._combined_rows = [], 0
            if self._writer is None:
                self._writer = pq.ParquetWriter(self.path, table.schema, compression="zstd", store_schema=False)
            self._writer.write_table(table, row_group_size=len(table))


def manifest_bytes(sources: str, current: Iterable[str], rows: int) -> bytes:
    """What the next look at the day compares: the small files, and the files that have all their rows."""
    return json.dumps({"sources": sources, "files": sorted(current), "rows": rows}).encode() + b"\n"
