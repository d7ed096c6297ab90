"""Merges the many small Parquet files of a day into one, so that no reader sees a row twice or misses one.

Daily files are never rewritten: a query that has read the row offsets of a file would then read garbage. A newer file
has a higher number, and readers take the newest row of an id from whichever file has it: docs/how-to/outputs.md has the
query. A superseded file is deleted later, when no query can have listed the folder without its successor.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any, TypeVar

from tabellion.engine.failpoints import failpoint
from tabellion.messages import Message
from tabellion.pipelines.documents import daily
from tabellion.pipelines.documents.columns import moment
from tabellion.pipelines.documents.daily import DayFile, OutputRow, Template
from tabellion.pipelines.documents.output_pointers import MovedOutput, Point
from tabellion.reading.types.doctype import Output
from tabellion.storage import files
from tabellion.storage.lake import Lake, LakeEntry, LakeError, LakeFileExists, NoSuchLakeFile

GRACE = 600.0  #: seconds that a file is kept after another one has its rows: no query takes longer to list files
TRIES = 5  #: attempts at a day whose files another process is writing
READS = 64  #: small files that are read at once
Progress = Callable[[int, int], None]  #: small files read, and their total

Result = TypeVar("Result")


@dataclass(slots=True)
class Compacted:
    """The result for one day."""

    day: date
    files: list[str] = field(default_factory=list)  #: written
    rows: int = 0  #: in all files of the day
    small: int = 0  #: small files found
    removed: int = 0
    kept: int = 0  #: small files that could not be removed yet
    strange: list[str] = field(default_factory=list)  #: errors about files that are not ours

    def add(self, other: Compacted) -> None:
        """Adds the result of another part of the day."""
        self.files += other.files
        self.strange += other.strange
        for name in ("rows", "small", "removed", "kept"):
            setattr(self, name, getattr(self, name) + getattr(other, name))


@dataclass(frozen=True, slots=True)
class _Small:
    entry: LakeEntry
    id: str | None  #: from the path


def templates_of(texts: Iterable[str | None]) -> list[Template]:
    """The templates of types, and the default one."""
    return [Template(text) for text in dict.fromkeys((Output().parquet, *texts)) if text]


async def days(lake: Lake, templates: Sequence[Template]) -> list[date]:
    """The days that have small files, oldest first."""
    found: set[date] = set()
    for template in templates:
        for entry in await lake.list(template.root):
            parts = template.match(entry.path)
            if parts is None:
                continue
            day = daily.day_of(parts) if template.has_day else await _day(lake, entry)
            found |= {day} if day else set()
    return sorted(found)


async def compact(
    lake: Lake,
    day: date,
    templates: Sequence[Template] = (),
    *,
    remove: bool = False,
    grace: float = GRACE,
    progress: Progress | None = None,
    point: Point | None = None,
) -> Compacted:
    """Brings the files of a day up to date with its small files; repeating it, also after a crash, changes nothing.

    With `remove`, small files are removed once the daily files have had their rows for `grace` seconds, each after a
    comparison. `point` updates documents' paths before a file is removed; without it, some may keep a dead path.
    """
    done = Compacted(day)
    async with lake.lock():
        for root, root_templates in _roots(templates or templates_of(())).items():
            day_folder = _Day(lake, root, root_templates, day, progress, point)
            done.add(await _retry_conflicts(day_folder.compact))
            if remove:
                done.add(await day_folder.remove(grace))
            await day_folder.clean(grace)
    return done


async def forget(
    lake: Lake, created_at: Any, ids: Iterable[str], templates: Sequence[Template] = (), point: Point | None = None
) -> int:
    """Removes deleted documents from the small files and the daily files; returns how many rows those had."""
    gone, day, rows = set(ids), moment(created_at).date(), 0
    async with lake.lock():
        for root, root_templates in _roots(templates or templates_of(())).items():
            day_folder = _Day(lake, root, root_templates, day, None, point)
            # An interrupted removal may have restored one.
            await lake.delete(*(small.entry.path for small in await day_folder.small() if small.id in gone))
            rows += await _retry_conflicts(lambda day_folder=day_folder: day_folder.forget(gone))  # type: ignore[misc]
    return rows


async def _retry_conflicts(work: Callable[[], Awaitable[Result]]) -> Result:
    """Starts over when another process has written the same files meanwhile."""
    for _ in range(TRIES - 1):
        with contextlib.suppress(NoSuchLakeFile, LakeFileExists):
            return await work()
    return await work()


def _roots(templates: Sequence[Template]) -> dict[str, list[Template]]:
    roots: dict[str, list[Template]] = {}
    for template in templates:
        roots.setdefault(template.root, []).append(template)
    return roots


async def _day(lake: Lake, entry: LakeEntry) -> date | None:
    """The day of a file whose path does not contain it."""
    with contextlib.suppress(LakeError):
        data = await lake.get(entry.path)
        return await files.in_thread(lambda: next((row.day for row in daily.rows_of(data, entry.path)), None))
    return None


class _Day:
    """One day under one root."""

    def __init__(
        self, lake: Lake, root: str, templates: Sequence[Template], day: date, progress: Progress | None,
        point: Point | None,
    ) -> None:  # fmt: skip
        self.lake, self.root, self.templates, self.day, self.progress = lake, root, templates, day, progress
        self._point, self._hashes = point, dict[str, str]()

    async def small(self) -> list[_Small]:
        """The small files of the day, by id."""
        found: dict[str, _Small] = {}
        for template in self.templates:
            for entry in await self.lake.list(template.prefix(self.day)):
                parts = template.match(entry.path)
                if parts is None or entry.path in found or (template.has_day and daily.day_of(parts) != self.day):
                    continue
                if not template.has_day and await _day(self.lake, entry) != self.day:
                    continue
                found[entry.path] = _Small(entry, parts.get("id"))
        return sorted(found.values(), key=lambda file: (file.id or "", file.entry.path))

    async def dailies(self) -> dict[str, LakeEntry]:
        """The daily files of the day."""
        entries = await self.lake.list(daily.daily_folder(self.root, self.day))
        return {entry.path: entry for entry in entries if daily.is_daily(entry.path, self.root)}

    async def compact(self) -> Compacted:
        """Brings the daily files up to date."""
        done = Compacted(self.day)
        # Small files are listed first: if one is removed meanwhile, its row is in a daily file that is listed after it.
        small = await self.small()
        dailies = await self.dailies()
        done.small = len(small)
        manifest = await self._manifest()
        if not small or (manifest.get("sources") == _sources(small) and set(manifest["files"]) <= set(dailies)):
            done.rows = manifest.get("rows", 0)
            return done
        old_ids: set[str] = set()
        writers: dict[tuple[str, str], DayFile] = {}
        try:
            source_paths = await self._write(small, dailies, writers, old_ids, done)
            current = await self._put(writers, dailies, done)
        finally:
            for writer in writers.values():
                await files.in_thread(writer.discard)
        remaining = {file.entry.path for file in await self.small()}
        deleted = {id_ for id_, path in source_paths.items() if path not in remaining and id_ not in old_ids}
        if deleted:  # while we read, so the deletion looked for their rows here too early
            done.rows -= await self.forget(deleted)
            current = list(await self.dailies())
        manifest_data = daily.manifest_bytes(_sources(small), current, done.rows)
        await self.lake.put(daily.manifest_path(self.root, self.day), manifest_data)
        return done

    async def _manifest(self) -> dict[str, Any]:
        """The record of the last run; it avoids reading everything when nothing was written since."""
        try:
            record = json.loads(await self.lake.get(daily.manifest_path(self.root, self.day)))
            return {"sources": str(record["sources"]), "files": list(record["files"]), "rows": int(record["rows"])}
        except (NoSuchLakeFile, ValueError, KeyError, TypeError):
            return {}

    async def _write(
        self, small: Sequence[_Small], dailies: Iterable[str], writers: dict[tuple[str, str], DayFile],
        old_ids: set[str], done: Compacted,
    ) -> dict[str, str]:  # fmt: skip
        """Writes the day's rows to files beside the lake; returns the small file of each id."""
        old_rows = await self._old(dailies)
        source_paths: dict[str, str] = {}
        next_old = await files.in_thread(next, old_rows, None)

        def add_all(rows: Sequence[OutputRow], last: bool, next_old: OutputRow | None) -> OutputRow | None:
            """Adds the rows, merged by id with old rows of other ids; returns the next old row."""
            for row in (*rows, *([None] if last else [])):
                while next_old is not None and (row is None or next_old.id <= row.id):
                    old_ids.add(next_old.id)
                    if row is None or next_old.id < row.id:
                        self._add(next_old, writers)
                    next_old = next(old_rows, None)
                if row is not None:
                    self._add(row, writers)
            return next_old

        async for found in self._newest(small, done):
            source_paths |= {row.id: path for row, path in found}
            next_old = await files.in_thread(add_all, [row for row, _ in found], False, next_old)
        await files.in_thread(add_all, [], True, next_old)
        done.rows = sum(writer.rows for writer in writers.values())
        return source_paths

    async def _old(self, dailies: Iterable[str]) -> Iterator[OutputRow]:
        """The newest rows of the daily files, by id."""
        return daily.newest([daily.rows_of(await self.lake.get(path), path) for path in dailies])

    def _add(self, row: OutputRow, writers: dict[tuple[str, str], DayFile]) -> None:
        if (row.kind, row.shape) not in writers:
            writers[row.kind, row.shape] = DayFile(self.lake.staging_folder())
        writers[row.kind, row.shape].add(row)

    async def _newest(self, small: Sequence[_Small], done: Compacted) -> AsyncIterator[list[tuple[OutputRow, str]]]:
        """The rows of small files by id, each id once with its newest version, in batches."""
        newest: tuple[OutputRow, str] | None = None
        async for found in self._read(await self._by_id(small), done):
            complete = []
            for row, path, _ in found:
                if newest is not None and row.id != newest[0].id:
                    complete.append(newest)
                if newest is None or row.id != newest[0].id or row.version >= newest[0].version:
                    newest = row, path
            yield complete
        if newest is not None:
            yield [newest]

    async def _by_id(self, small: Sequence[_Small]) -> list[_Small]:
        """Small files in the order of their ids; if their paths do not contain the ids, the files are read."""
        if all(file.id is not None for file in small):
            return list(small)
        ids = {path: row.id async for found in self._read(small, Compacted(self.day)) for row, path, _ in found}
        identified = [_Small(file.entry, file.id or ids.get(file.entry.path)) for file in small]
        return sorted(identified, key=lambda file: (file.id or "", file.entry.path))

    async def _read(self, small: Sequence[_Small], done: Compacted) -> AsyncIterator[list[tuple[OutputRow, str, str]]]:
        """The rows of small files with their paths and the hashes of their bytes, in batches."""
        for start in range(0, len(small), READS):
            batch = small[start : start + READS]
            contents = await asyncio.gather(*(self.lake.get(file.entry.path) for file in batch))
            yield await files.in_thread(_rows, batch, contents, done.strange)
            if self.progress is not None:
                self.progress(min(start + READS, len(small)), len(small))

    async def _put(
        self, writers: dict[tuple[str, str], DayFile], dailies: Iterable[str], done: Compacted
    ) -> list[str]:  # fmt: skip
        """Moves new files into the lake unless they are there; returns the files that now have the day's rows."""
        number = max(map(daily.number_of, dailies), default=0) + 1
        current = []
        for (kind, shape), writer in sorted(writers.items()):
            await files.in_thread(writer.close)
            older = [path for path in dailies if path.endswith(f"-{kind}-{shape}.parquet")]
            last = max(older, key=daily.number_of, default=None)
            if last is None or await self.lake.get(last) != await files.in_thread(writer.path.read_bytes):
                last = daily.daily_path(self.root, kind, shape, self.day, number)
                failpoint("compact.pre_put")
                await self.lake.put_file(last, writer.path, create=True)
                failpoint("compact.post_put")
                done.files.append(last)
            current.append(last)
        return current

    async def remove(self, grace: float) -> Compacted:
        """Removes small files whose rows the daily files have had for long enough."""
        done = Compacted(self.day)
        small = await self.small()
        dailies = await self.dailies()
        settled = {path for path, entry in dailies.items() if time.time() - entry.modified_at >= grace}
        if not small or not settled:
            done.kept = len(small)
            return done
        digests = await files.in_thread(daily.digests, await self._old(dailies), settled)
        async for found in self._read(small, Compacted(self.day)):
            identical = set(await files.in_thread(_same, found, digests))
            await self._repoint_documents(
                [(row.id, path, digests[row.id][1]) for row, path, _ in found if path in identical]
            )
            for _, path, sha256 in found:
                if path in identical and await self.lake.delete_exact(path, sha256):
                    done.removed += 1
                else:
                    done.kept += 1
        return done

    async def _repoint_documents(self, moved: Sequence[tuple[str, str, str]]) -> None:
        """Points documents, by id, from a file that is removed to the daily file that has their rows."""
        if self._point is None or not moved:
            return
        for path in {new for _, _, new in moved} - self._hashes.keys():
            self._hashes[path] = hashlib.sha256(await self.lake.get(path)).hexdigest()
        await self._point([MovedOutput(id_, old, new, self._hashes[new]) for id_, old, new in moved])

    async def clean(self, grace: float) -> None:
        """Removes daily files whose rows are all newer in other files, if those have been there for a while."""
        dailies = await self.dailies()
        if set(dailies) <= set((await self._manifest()).get("files", [])):
            return
        newest = await files.in_thread(daily.places, await self._old(dailies))
        needed = set(newest.values())
        if all(time.time() - dailies[path].modified_at >= grace for path in needed):
            for path in sorted(dailies.keys() - needed):
                ids = await files.in_thread(daily.ids_of, await self.lake.get(path), path)
                await self._repoint_documents([(id_, path, newest[id_]) for id_ in ids])
                await self.lake.delete(path)

    async def forget(self, ids: set[str]) -> int:
        """Rewrites daily files without these ids and removes the old ones; returns how many rows were dropped."""
        dailies = await self.dailies()
        writers: dict[tuple[str, str], DayFile] = {}
        try:
            stale = await files.in_thread(
                daily.files_with, [(path, await self.lake.get(path)) for path in dailies], ids
            )
            if not stale:
                return 0
            moved: list[tuple[str, str, tuple[str, str]]] = []
            dropped = await files.in_thread(self._without, await self._old(dailies), set(stale), ids, writers, moved)
            current = dict(zip(sorted(writers), await self._put(writers, dailies, Compacted(self.day)), strict=True))
            await self._repoint_documents([(id_, old, current[kind]) for id_, old, kind in moved])
            await self.lake.delete(*stale)
        finally:
            for writer in writers.values():
                await files.in_thread(writer.discard)
        return dropped

    def _without(
        self, rows: Iterator[OutputRow], stale: set[str], ids: set[str], writers: dict[tuple[str, str], DayFile],
        moved: list[tuple[str, str, tuple[str, str]]],
    ) -> int:  # fmt: skip
        dropped = 0
        for row in rows:
            if row.id in ids:
                dropped += 1
            elif row.file in stale:
                self._add(row, writers)
                moved.append((row.id, row.file, (row.kind, row.shape)))
        return dropped


def _same(found: Sequence[tuple[OutputRow, str, str]], digests: dict[str, tuple[bytes, str]]) -> list[str]:
    """The small files whose rows equal those of the daily file."""
    return [path for row, path, _ in found if digests.get(row.id, (b"", ""))[0] == row.digest]


def _rows(small: Sequence[_Small], contents: Sequence[bytes], strange: list[str]) -> list[tuple[OutputRow, str, str]]:
    """The row of each small file; files that are not ours are reported in `strange` and skipped."""
    found = []
    for file, content in zip(small, contents, strict=True):
        try:
            rows = list(daily.rows_of(content, file.entry.path))
            if len(rows) != 1:
                raise LakeError(Message("output.rows", path=file.entry.path, n=len(rows)))
            if file.id not in (None, rows[0].id):
                raise LakeError(Message("output.other_row", path=file.entry.path, id=rows[0].id))
        except LakeError as error:
            strange.append(str(error))
        else:
            found.append((rows[0], file.entry.path, hashlib.sha256(content).hexdigest()))
    return found


def _sources(small: Sequence[_Small]) -> str:
    lines = sorted(f"{file.entry.path}\t{file.entry.tag}\n" for file in small)
    return hashlib.sha256("".join(lines).encode()).hexdigest()
