"""The daily Parquet files: their paths, their rows, and how they are written."""

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

from tabellion.messages import Message
from tabellion.pipelines.documents.columns import arrow
from tabellion.storage.files import ENDING
from tabellion.storage.lake import LakeError

FOLDER = "daily"
GROUP = 5000  #: minimum rows of a row group
CHUNK = 250  #: rows that are held as one-row tables before they are combined
NEEDED = {"id", "type", "version", "created_at"}  #: columns that each of our files has


@dataclass(frozen=True, slots=True)
class Template:
    """Where a document type writes its Parquet files."""

    text: str

    @property
    def root(self) -> str:
        """The folder that contains all of them."""
        return self.text.partition("{")[0].rpartition("/")[0]

    @property
    def has_day(self) -> bool:
        """Whether a path contains its day."""
        return all(f"{{{part}}}" in self.text for part in ("yyyy", "mm", "dd"))

    def prefix(self, day: date) -> str:
        """The folder that contains those of a day."""
        filled = self.text.replace("{yyyy}", f"{day:%Y}").replace("{mm}", f"{day:%m}").replace("{dd}", f"{day:%d}")
        return filled.partition("{")[0].rpartition("/")[0]

    def match(self, path: str) -> dict[str, str] | None:
        """The parts of a path (id, day), or None if it does not match the template."""
        found = re.fullmatch(_pattern(self.text), path)
        return None if found is None or is_daily(path, self.root) else found.groupdict()


def _pattern(template: str) -> str:
    kinds = {"yyyy": r"\d{4}", "mm": r"\d\d", "dd": r"\d\d"}
    pattern, used = "", set()
    for literal, name, _, _ in Formatter().parse(template):
        pattern += re.escape(literal)
        if name is not None:
            pattern += f"(?P={name})" if name in used else f"(?P<{name}>{kinds.get(name, '[^/]+')})"
            used.add(name)
    return pattern


def day_of(parts: dict[str, str]) -> date | None:
    """The day in a path's parts."""
    try:
        return date(int(parts["yyyy"]), int(parts["mm"]), int(parts["dd"]))
    except (KeyError, ValueError):
        return None


def daily_folder(root: str, day: date) -> str:
    """The folder of the daily files of a day."""
    return f"{root}/{FOLDER}/{day:%Y/%m/%d}".lstrip("/")


def daily_path(root: str, kind: str, shape: str, day: date, number: int) -> str:
    """The path of the daily file of a type and a schema; it is never rewritten, a later one has a higher number."""
    return f"{daily_folder(root, day)}/{number:06}-{kind}-{shape}.parquet"


def manifest_path(root: str, day: date) -> str:
    """The path of the manifest: what the daily files were made from."""
    return f"{daily_folder(root, day)}/manifest.json"


def is_daily(path: str, root: str) -> bool:
    """Whether this is the path of a daily file."""
    start = re.escape(f"{root}/{FOLDER}".lstrip("/"))
    return bool(re.fullmatch(rf"{start}/\d{{4}}/\d\d/\d\d/\d{{6,}}-[a-z0-9_]+-[0-9a-f]{{8}}\.parquet", path))


def root_of(path: str) -> str | None:
    """The root of a daily file; None for any other path."""
    root = path[: path.rfind(f"{FOLDER}/")].rstrip("/") if f"{FOLDER}/" in path else None
    return root if root is not None and is_daily(path, root) else None


def number_of(path: str) -> int:
    """The number of a daily file; 0 for any other."""
    start = path.rpartition("/")[2].partition("-")[0]
    return int(start) if start.isdigit() else 0


@dataclass(frozen=True, slots=True)
class OutputRow:
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
        """The sort key: by id, then newest first (the highest version, then the daily file written last)."""
        return self.id, -self.version, -number_of(self.file)

    @property
    def digest(self) -> bytes:
        """A hash of the values."""
        return hashlib.sha256(repr(self.table.to_pylist()).encode("utf-8", "replace")).digest()


def shape_of(schema: Any) -> str:
    """A short hash of a schema."""
    return hashlib.sha256("\n".join(f"{field.name} {field.type}" for field in schema).encode()).hexdigest()[:8]


def rows_of(data: bytes, path: str) -> Iterator[OutputRow]:
    """The rows of one of our Parquet files, a batch at a time in memory; raises LakeError for any other file."""
    pa = arrow()
    import pyarrow.parquet as pq  # type: ignore[import-untyped]

    try:
        file = pq.ParquetFile(io.BytesIO(data))
        if not set(file.schema_arrow.names) >= NEEDED:
            raise LakeError(Message("output.columns", path=str(path)))
        shape = shape_of(file.schema_arrow)
        for batch in file.iter_batches(GROUP, use_threads=False):  # threads only cost time on small files
            table = pa.Table.from_batches([batch])
            records = zip(
                *(table.column(name).to_pylist() for name in ("id", "version", "type", "created_at")), strict=True
            )
            for place, (id_, version, kind, created_at) in enumerate(records):
                if id_ is None or created_at is None or not re.fullmatch("[a-z0-9_]+", kind or ""):
                    raise LakeError(Message("output.row_incomplete", path=str(path)))
                yield OutputRow(id_, version or 0, kind, shape, table.slice(place, 1), created_at.date(), path)
    except (pa.ArrowException, OSError) as error:
        raise LakeError(Message("output.not_parquet", path=str(path), text=str(error).splitlines()[0][:200])) from error


def newest(streams: Iterable[Iterator[OutputRow]]) -> Iterator[OutputRow]:
    """The rows of streams that are sorted by id, each id once, the version written last."""
    last: OutputRow | None = None
    for row in heapq.merge(*streams, key=lambda row: row.rank):
        if last is None or row.id != last.id:
            last = row
            yield row


def places(rows: Iterable[OutputRow]) -> dict[str, str]:
    """The file that contains each document's row."""
    return {row.id: row.file for row in rows}


def digests(rows: Iterable[OutputRow], settled: set[str]) -> dict[str, tuple[bytes, str]]:
    """The digest of each document's row and its file, if that is one of `settled`."""
    return {row.id: (row.digest, row.file) for row in rows if row.file in settled}


def ids_of(data: bytes, path: str) -> list[str]:
    """The documents whose rows are in a file."""
    return [row.id for row in rows_of(data, path)]


def files_with(found: Iterable[tuple[str, bytes]], ids: set[str]) -> list[str]:
    """The files that contain rows of these ids."""
    return [path for path, data in found if not ids.isdisjoint(ids_of(data, path))]


class DayFile:
    """A daily file being written, outside the lake until it is complete."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / f".{secrets.token_hex(8)}{ENDING}"
        self.rows = 0
        self._ids = hashlib.sha256()
        self._held: list[Any] = []
        self._combined: list[Any] = []
        self._combined_rows = 0
        self._writer: Any = None

    def add(self, row: OutputRow) -> None:
        """Appends a row."""
        self._held.append(row.table)
        self._ids.update(f"{row.id}\n".encode())
        self.rows += 1
        if len(self._held) >= CHUNK:
            self._combine()
        if self._combined_rows >= GROUP:
            self._flush()

    def close(self) -> None:
        """Closes the file, and reads it back to check that it has every row, in order."""
        import pyarrow.parquet as pq

        self._flush()
        self._writer.close()
        ids, rows = hashlib.sha256(), 0
        with pq.ParquetFile(self.path) as file:
            for batch in file.iter_batches(columns=["id"]):
                rows += batch.num_rows
                ids.update("".join(f"{id_}\n" for id_ in batch.column(0).to_pylist()).encode())
        if (rows, ids.digest()) != (self.rows, self._ids.digest()):
            raise LakeError(Message("output.read_back", path=str(self.path), n=rows, total=self.rows))

    def discard(self) -> None:
        """Removes the file, unless it was moved into the lake."""
        if self._writer is not None and self._writer.is_open:
            self._writer.close()
        self.path.unlink(missing_ok=True)

    def _combine(self) -> None:
        """Combines one-row tables into one: a table of one row takes ten times the memory of its values."""
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
    """The manifest that the next run compares: a hash of the small files, and the daily files with all their rows."""
    return json.dumps({"sources": sources, "files": sorted(current), "rows": rows}).encode() + b"\n"
