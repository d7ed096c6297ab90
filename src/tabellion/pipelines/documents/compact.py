"""Makes one Parquet file a day of the many small ones, so that no reader sees a row twice or misses one.

Files of days are never written again: a query that has learned where the rows lie in one would read nonsense. A newer
one has a higher number, and readers take the newest row of an id, whichever files it is in: docs/how-to/outputs.md has
the query. What is superseded goes later, when nobody can have listed the folder without the file that supersedes it.
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
from tabellion.pipelines.documents import daily
from tabellion.pipelines.documents.columns import moment
from tabellion.pipelines.documents.daily import DayFile, Row, Template
from tabellion.pipelines.documents.output_pointers import MovedOutput, Point
from tabellion.reading.types.doctype import Output
from tabellion.storage import files
from tabellion.storage.lake import Absent, Lake, LakeEntry, LakeError, Present

GRACE = 600.0  #: seconds that a file stays whose rows another one has: no query lists files for so long
TRIES = 5  #: of a day whose files somebody else writes meanwhile
READS = 64  #: small files that are read at once
Progress = Callable[[int, int], None]  #: small files read, small files there are

Result = TypeVar("Result")


@dataclass(slots=True)
class Compacted:
    """What became of one day."""

    day: date
    files: list[str] = field(default_factory=list)  #: that were written
    rows: int = 0  #: in all files of the day
    small: int = 0  #: small files there were
    removed: int = 0
    kept: int = 0  #: small files that were to be removed, and must stay for now
    strange: list[str] = field(default_factory=list)  #: files that are none of ours, and why

    def add(self, other: Compacted) -> None:
        """What became of another part of the day."""
        self.files += other.files
        self.strange += other.strange
        for name in ("rows", "small", "removed", "kept"):
            setattr(self, name, getattr(self, name) + getattr(other, name))


@dataclass(frozen=True, slots=True)
class _Small:
    entry: LakeEntry
    id: str | None  #: as the path says


def templates_of(texts: Iterable[str | None]) -> list[Template]:
    """The templates of types, and the one that they have unless they say otherwise."""
    return [Template(text) for text in dict.fromkeys((Output().parquet, *texts)) if text]


async def days(lake: Lake, templates: Sequence[Template]) -> list[date]:
    """The days that have small files, the first one first."""
    found: set[date] = set()
    for template in templates:
        for entry in await lake.list(template.root):
            said = template.match(entry.path)
            if said is None:
                continue
            day = daily.day_of(said) if template.dated else await _day(lake, entry)
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
    """Brings the files of a day up to date with its small files; done again, or after a crash, it changes nothing more.

    With `remove`, small files go whose rows the files of the day have had for `grace` seconds, each compared first.
    `point` points documents elsewhere before a file goes; without it some may be left that point at what is gone.
    """
    done = Compacted(day)
    async with lake.lock():
        for root, some in _roots(templates or templates_of(())).items():
            one = _Day(lake, root, some, day, progress, point)
            done.add(await _persistently(one.compact))
            if remove:
                done.add(await one.remove(grace))
            await one.clean(grace)
    return done


async def forget(
    lake: Lake, created_at: Any, ids: Iterable[str], templates: Sequence[Template] = (), point: Point | None = None
) -> int:
    """Takes deleted documents out of the small files and out of those of their day; how many rows these had."""
    gone, day, rows = set(ids), moment(created_at).date(), 0
    async with lake.lock():
        for root, some in _roots(templates or templates_of(())).items():
            one = _Day(lake, root, some, day, None, point)
            # A removal that was cut off may have brought one back.
            await lake.delete(*(small.entry.path for small in await one.small() if small.id in gone))
            rows += await _persistently(lambda one=one: one.forget(gone))  # type: ignore[misc]
    return rows


async def _persistently(work: Callable[[], Awaitable[Result]]) -> Result:
    """Begins anew where somebody else has written the same files meanwhile."""
    for _ in range(TRIES - 1):
        with contextlib.suppress(Absent, Present):
            return await work()
    return await work()


def _roots(templates: Sequence[Template]) -> dict[str, list[Template]]:
    roots: dict[str, list[Template]] = {}
    for template in templates:
        roots.setdefault(template.root, []).append(template)
    return roots


async def _day(lake: Lake, entry: LakeEntry) -> date | None:
    """The day of a file whose path does not say it."""
    with contextlib.suppress(LakeError):
        data = await lake.get(entry.path)
        return await files.in_thread(lambda: next((row.day for row in daily.rows_of(data, entry.path)), None))
    return None


class _Day:
    """One day below one root."""

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
                said = template.match(entry.path)
                if said is None or entry.path in found or (template.dated and daily.day_of(said) != self.day):
                    continue
                if not template.dated and await _day(self.lake, entry) != self.day:
                    continue
                found[entry.path] = _Small(entry, said.get("id"))
        return sorted(found.values(), key=lambda one: (one.id or "", one.entry.path))

    async def dailies(self) -> dict[str, LakeEntry]:
        """The files of the day."""
        below = await self.lake.list(daily.daily_folder(self.root, self.day))
        return {entry.path: entry for entry in below if daily.is_daily(entry.path, self.root)}

    async def compact(self) -> Compacted:
        """Brings the files of the day up to date."""
        done = Compacted(self.day)
        # Small files are listed first: one that is removed meanwhile is in a file of the day that is listed then.
        small = await self.small()
        there = await self.dailies()
        done.small = len(small)
        known = await self._manifest()
        if not small or (known.get("sources") == _sources(small) and set(known["files"]) <= set(there)):
            done.rows = known.get("rows", 0)
            return done
        before: set[str] = set()
        made: dict[tuple[str, str], DayFile] = {}
        try:
            taken = await self._write(small, there, made, before, done)
            current = await self._put(made, there, done)
        finally:
            for one in made.values():
                await files.in_thread(one.discard)
        still = {one.entry.path for one in await self.small()}
        deleted = {id_ for id_, path in taken.items() if path not in still and id_ not in before}
        if deleted:  # while we read; whoever deleted them has looked for them here, and too early
            done.rows -= await self.forget(deleted)
            current = list(await self.dailies())
        manifest = daily.manifest_bytes(_sources(small), current, done.rows)
        await self.lake.put(daily.manifest_path(self.root, self.day), manifest)
        return done

    async def _manifest(self) -> dict[str, Any]:
        """What was done the last time; it spares reading everything where nothing was written since."""
        try:
            known = json.loads(await self.lake.get(daily.manifest_path(self.root, self.day)))
            return {"sources": str(known["sources"]), "files": list(known["files"]), "rows": int(known["rows"])}
        except (Absent, ValueError, KeyError, TypeError):
            return {}

    async def _write(
        self, small: Sequence[_Small], there: Iterable[str], made: dict[tuple[str, str], DayFile], before: set[str],
        done: Compacted,
    ) -> dict[str, str]:  # fmt: skip
        """Writes the day's rows to files beside the lake; which small file each id came from."""
        old = await self._old(there)
        taken: dict[str, str] = {}
        held = await files.in_thread(next, old, None)

        def add_all(rows: Sequence[Row], last: bool, held: Row | None) -> Row | None:
            """Adds them with the old rows between them, but for those of the same ids; the next old row."""
            for row in (*rows, *([None] if last else [])):
                while held is not None and (row is None or held.id <= row.id):
                    before.add(held.id)
                    if row is None or held.id < row.id:
                        self._add(held, made)
                    held = next(old, None)
                if row is not None:
                    self._add(row, made)
            return held

        async for found in self._newest(small, done):
            taken |= {row.id: path for row, path in found}
            held = await files.in_thread(add_all, [row for row, _ in found], False, held)
        await files.in_thread(add_all, [], True, held)
        done.rows = sum(one.rows for one in made.values())
        return taken

    async def _old(self, there: Iterable[str]) -> Iterator[Row]:
        """The newest rows of the files of the day, by id."""
        return daily.newest([daily.rows_of(await self.lake.get(path), path) for path in there])

    def _add(self, row: Row, made: dict[tuple[str, str], DayFile]) -> None:
        if (row.kind, row.shape) not in made:
            made[row.kind, row.shape] = DayFile(self.lake.staging())
        made[row.kind, row.shape].add(row)

    async def _newest(self, small: Sequence[_Small], done: Compacted) -> AsyncIterator[list[tuple[Row, str]]]:
        """The rows of small files by id, each id once and as of its newest version, some at a time."""
        held: tuple[Row, str] | None = None
        async for found in self._read(await self._by_id(small), done):
            ended = []
            for row, path, _ in found:
                if held is not None and row.id != held[0].id:
                    ended.append(held)
                if held is None or row.id != held[0].id or row.version >= held[0].version:
                    held = row, path
            yield ended
        if held is not None:
            yield [held]

    async def _by_id(self, small: Sequence[_Small]) -> list[_Small]:
        """Small files in the order of their ids; those whose paths do not say them are looked into."""
        if all(one.id is not None for one in small):
            return list(small)
        ids = {path: row.id async for found in self._read(small, Compacted(self.day)) for row, path, _ in found}
        known = [_Small(one.entry, one.id or ids.get(one.entry.path)) for one in small]
        return sorted(known, key=lambda one: (one.id or "", one.entry.path))

    async def _read(self, small: Sequence[_Small], done: Compacted) -> AsyncIterator[list[tuple[Row, str, str]]]:
        """Small files' rows with their paths and the hashes of their bytes, some at a time."""
        for start in range(0, len(small), READS):
            some = small[start : start + READS]
            data = await asyncio.gather(*(self.lake.get(one.entry.path) for one in some))
            yield await files.in_thread(_rows, some, data, done.strange)
            if self.progress is not None:
                self.progress(min(start + READS, len(small)), len(small))

    async def _put(
        self, made: dict[tuple[str, str], DayFile], there: Iterable[str], done: Compacted
    ) -> list[str]:  # fmt: skip
        """Moves new files in, but for those that are there already; the files that have the day's rows now."""
        number = max(map(daily.number_of, there), default=0) + 1
        current = []
        for (kind, shape), one in sorted(made.items()):
            await files.in_thread(one.close)
            older = [path for path in there if path.endswith(f"-{kind}-{shape}.parquet")]
            last = max(older, key=daily.number_of, default=None)
            if last is None or await self.lake.get(last) != await files.in_thread(one.path.read_bytes):
                last = daily.daily_path(self.root, kind, shape, self.day, number)
                failpoint("compact.pre_put")
                await self.lake.put_file(last, one.path, create=True)
                failpoint("compact.post_put")
                done.files.append(last)
            current.append(last)
        return current

    async def remove(self, grace: float) -> Compacted:
        """Removes small files whose rows the files of the day have, and have had for long enough."""
        done = Compacted(self.day)
        small = await self.small()
        there = await self.dailies()
        settled = {path for path, entry in there.items() if time.time() - entry.modified_at >= grace}
        if not small or not settled:
            done.kept = len(small)
            return done
        known = await files.in_thread(daily.digests, await self._old(there), settled)
        async for found in self._read(small, Compacted(self.day)):
            fitting = set(await files.in_thread(_same, found, known))
            await self._repoint_documents(
                [(row.id, path, known[row.id][1]) for row, path, _ in found if path in fitting]
            )
            for _, path, sha256 in found:
                if path in fitting and await self.lake.delete_exact(path, sha256):
                    done.removed += 1
                else:
                    done.kept += 1
        return done

    async def _repoint_documents(self, moved: Sequence[tuple[str, str, str]]) -> None:
        """Points documents, by id, from a file that goes to the file of the day that has their rows."""
        if self._point is None or not moved:
            return
        for path in {new for _, _, new in moved} - self._hashes.keys():
            self._hashes[path] = hashlib.sha256(await self.lake.get(path)).hexdigest()
        await self._point([MovedOutput(id_, old, new, self._hashes[new]) for id_, old, new in moved])

    async def clean(self, grace: float) -> None:
        """Removes files of the day of which every row is newer in another one, if these have been there for a while."""
        there = await self.dailies()
        if set(there) <= set((await self._manifest()).get("files", [])):
            return
        newest = await files.in_thread(daily.places, await self._old(there))
        needed = set(newest.values())
        if all(time.time() - there[path].modified_at >= grace for path in needed):
            for path in sorted(there.keys() - needed):
                ids = await files.in_thread(daily.ids_of, await self.lake.get(path), path)
                await self._repoint_documents([(id_, path, newest[id_]) for id_ in ids])
                await self.lake.delete(path)

    async def forget(self, ids: set[str]) -> int:
        """Writes files of the day anew without these, and removes the old ones; how many rows there were of them."""
        there = await self.dailies()
        made: dict[tuple[str, str], DayFile] = {}
        try:
            known = await files.in_thread(daily.files_with, [(path, await self.lake.get(path)) for path in there], ids)
            if not known:
                return 0
            moved: list[tuple[str, str, tuple[str, str]]] = []
            gone = await files.in_thread(self._without, await self._old(there), set(known), ids, made, moved)
            current = dict(zip(sorted(made), await self._put(made, there, Compacted(self.day)), strict=True))
            await self._repoint_documents([(id_, old, current[kind]) for id_, old, kind in moved])
            await self.lake.delete(*known)
        finally:
            for one in made.values():
                await files.in_thread(one.discard)
        return gone

    def _without(
        self, rows: Iterator[Row], known: set[str], ids: set[str], made: dict[tuple[str, str], DayFile],
        moved: list[tuple[str, str, tuple[str, str]]],
    ) -> int:  # fmt: skip
        gone = 0
        for row in rows:
            if row.id in ids:
                gone += 1
            elif row.file in known:
                self._add(row, made)
                moved.append((row.id, row.file, (row.kind, row.shape)))
        return gone


def _same(found: Sequence[tuple[Row, str, str]], known: dict[str, tuple[bytes, str]]) -> list[str]:
    """The small files that say what the file of the day says."""
    return [path for row, path, _ in found if known.get(row.id, (b"", ""))[0] == row.digest]


def _rows(some: Sequence[_Small], data: Sequence[bytes], strange: list[str]) -> list[tuple[Row, str, str]]:
    """The row of each small file; those that are none of ours are noted, and left alone."""
    found = []
    for one, content in zip(some, data, strict=True):
        try:
            rows = list(daily.rows_of(content, one.entry.path))
            if len(rows) != 1:
                raise LakeError(f"{one.entry.path}: it has {len(rows)} rows, not one")
            if one.id not in (None, rows[0].id):
                raise LakeError(f"{one.entry.path}: its row is of {rows[0].id}, not of the id in its path")
        except LakeError as error:
            strange.append(str(error))
        else:
            found.append((rows[0], one.entry.path, hashlib.sha256(content).hexdigest()))
    return found


def _sources(small: Sequence[_Small]) -> str:
    listed = sorted(f"{one.entry.path}\t{one.entry.tag}\n" for one in small)
    return hashlib.sha256("".join(listed).encode()).hexdigest()
