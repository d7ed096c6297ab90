"""The versions of entities: each appended to the newest one by compare-and-swap, so that a history has no forks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from tabellion.errors import StoreError, TabellionError
from tabellion.messages import Message
from tabellion.pipelines.batches import tables
from tabellion.pipelines.batches.content import ContentDamaged, ContentMissing, ContentStore
from tabellion.pipelines.batches.entity_rows import clear_error, note_version
from tabellion.pipelines.batches.ref_rows import note_cids

if TYPE_CHECKING:
    from tabellion.engine.context import JobContext
    from tabellion.engine.sql import Dialect

TRIES = 50  #: of one append, while others append to the same entity
MOST_STEPS = 200  #: versions made elsewhere that are followed from a tip to one that we know
HIGHEST = 1_000_000_000  #: number of a version


class EntityError(TabellionError):
    """Nothing can be appended to one entity, whatever is tried; others of its chunk are not affected."""


class TipUnknown(EntityError):  # noqa: N818 - what happened
    """The tip that a request names is not one that we know, and its content does not say how it is related to ours."""


class TipMissing(EntityError):  # noqa: N818 - what happened
    """The content store does not have the version that the next one would follow."""


class TipInvalid(EntityError):  # noqa: N818 - what it is
    """The content of a tip is not a version of an entity."""


class TipDiverged(EntityError):  # noqa: N818 - what happened
    """Neither of two tips descends from the other."""


class TipMoved(TabellionError):  # noqa: N818 - what happened
    """Others kept appending to the entity."""


@dataclass(frozen=True, slots=True)
class Version:
    """One version of an entity."""

    tip: str
    number: int
    is_ours: bool = True  #: whether it was appended here


@dataclass(frozen=True, slots=True)
class Manifest:
    """The content of a version."""

    number: int
    previous: str | None
    components: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Append:
    """What a chunk appends to one entity."""

    chunk: str
    run: int
    position: int  #: of the entity in the chunk
    pi: str
    current_tip: str  #: that the orchestrator knew
    components: Mapping[str, str]  #: CIDs by file name
    refs: Mapping[str, str]  #: the same CIDs by the ids of refs
    note: str
    only_if_new: bool = False  #: whether nothing is appended if the newest version has all of these components


async def append_version(
    context: JobContext, content: ContentStore, append: Append, *, starts: bool = False
) -> Version:
    """Appends a version with these components, and returns it.

    If the entity has a newer version than the orchestrator knew, the components are applied to that one. A second
    call for the same run of a chunk returns what the first one appended. One transaction moves the tip, records
    the version with the chunk and the CIDs with the refs: after a crash either all of it is stored or none.

    A version that cannot be read is never followed: its components would be lost. With `starts`, the first tip of an
    entity may be one that the content store does not have; the entity then has the components that are appended here.
    """
    for _ in range(TRIES):
        made, newest = await _find(context, content, append, starts)
        if made is not None:
            text, values = note_cids(context.dialect, append.refs)
            await context.fetch(text, *values)  # a version of earlier releases may have been appended without them
            return made
        components = await _read_components(content, newest, starts)
        if append.only_if_new and all(_cid(components.get(name)) == cid for name, cid in append.components.items()):
            await context.transact(
                [note_cids(context.dialect, append.refs), clear_error(append.chunk, append.position)]
            )
            return newest
        fresh = {
            "pi": append.pi, "version": newest.number + 1, "previous": newest.tip,
            "components": {**components, **append.components}, "note": append.note,
            "at": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        }  # fmt: skip
        tip = await content.put(json.dumps(fresh, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode())
        if await _swap(context, append, newest, tip):
            return Version(tip, newest.number + 1)
    raise TipMoved(Message("batch.tip_moved", name=append.pi))


async def history(context: JobContext, pi: str) -> list[Any]:
    """The versions of an entity that were appended here, oldest first."""
    return await context.fetch(
        f"SELECT version, tip, previous, chunk, run FROM {tables.VERSIONS} WHERE pi = $1 ORDER BY version", pi
    )


async def read_manifest(content: ContentStore, tip: str) -> Manifest:
    """The content of a version; raises TipMissing or TipInvalid, and ContentError if it cannot be read now.

    Other publishers write `ver` and `prev`, the latter as a link of IPLD.
    """
    try:
        data = await content.get(tip)
    except ContentMissing:
        raise TipMissing(Message("batch.tip_missing", tip=tip[:100])) from None
    except ContentDamaged as error:
        raise TipInvalid(Message("batch.tip_damaged", tip=tip[:100], detail=error)) from None
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        found = None
    if isinstance(found, dict):
        number, components = found.get("version", found.get("ver")), found.get("components")
        previous = _cid(found.get("previous", found.get("prev")))
        if isinstance(number, int) and number is not True and 0 < number <= HIGHEST and isinstance(components, dict):
            return Manifest(number, previous, components)
    raise TipInvalid(Message("batch.tip_invalid", tip=tip[:100]))


def _cid(link: Any) -> str | None:
    """The CID of a link: a text, or as IPLD writes it."""
    cid = link.get("/") if isinstance(link, dict) else link
    return cid if isinstance(cid, str) else None


async def descends(content: ContentStore, tip: str, ancestor: Version) -> bool:
    """Whether the versions before `tip` lead to this one. One that cannot be found proves nothing, so it does not."""
    if tip == ancestor.tip:
        return True
    try:
        manifest = await read_manifest(content, tip)
        for _ in range(MOST_STEPS):
            if manifest.previous == ancestor.tip:
                return True
            if manifest.previous is None or manifest.number - 1 <= ancestor.number:
                return False
            before = await read_manifest(content, manifest.previous)
            if before.number >= manifest.number:
                return False
            manifest = before
    except (TipMissing, TipInvalid):
        pass
    return False


async def _find(
    context: JobContext, content: ContentStore, append: Append, starts: bool
) -> tuple[Version | None, Version]:
    """What this run has appended before, if anything, and the newest version of the entity.

    An entity that we have not seen before has the tip that the orchestrator names. Later, a tip that we do not know
    was made elsewhere: it is adopted if its history leads to our newest version.
    """
    [row] = await context.fetch(
        f"""SELECT m.tip AS made, m.version AS made_number, e.tip, e.version,
  EXISTS (SELECT 1 FROM {tables.VERSIONS} AS o WHERE o.pi = e.pi AND o.tip = e.tip) AS is_ours
FROM (SELECT 1 AS one) AS n LEFT JOIN {tables.VERSIONS} AS m ON m.chunk = $1 AND m.run = $2 AND m.pi = $3
LEFT JOIN {tables.ENTITIES} AS e ON e.pi = $3""",
        append.chunk, append.run, append.pi,
    )  # fmt: skip
    newest = Version(row["tip"], row["version"], bool(row["is_ours"]))
    if row["made"] is not None:
        return Version(row["made"], row["made_number"]), newest
    if newest.tip is None:
        await context.fetch(
            f"""INSERT INTO {tables.ENTITIES} (pi, tip, version) VALUES ($1, $2, $3) ON CONFLICT (pi) DO NOTHING""",
            append.pi, append.current_tip, await _read_first_number(content, append.current_tip, starts),
        )  # fmt: skip
        return await _find(context, content, append, starts)
    if append.current_tip == newest.tip or await _was_tip(context, append.pi, append.current_tip):
        return None, newest
    try:
        theirs = Version(append.current_tip, (await read_manifest(content, append.current_tip)).number)
    except (TipMissing, TipInvalid):
        raise TipUnknown(Message("batch.tip_unknown", tip=append.current_tip[:100], known=newest.tip)) from None
    if theirs.number <= newest.number and await descends(content, newest.tip, theirs):
        return None, newest  # made elsewhere before the version that we follow
    if theirs.number <= newest.number or not await descends(content, theirs.tip, newest):
        raise TipDiverged(Message("batch.tip_diverged", tip=theirs.tip, known=newest.tip))
    await context.fetch(
        f"UPDATE {tables.ENTITIES} SET tip = $2, version = $3 WHERE pi = $1 AND tip = $4",
        append.pi, theirs.tip, theirs.number, newest.tip,
    )  # fmt: skip
    return await _find(context, content, append, starts)


async def _read_first_number(content: ContentStore, tip: str, starts: bool) -> int:
    """The number of the first tip of an entity; 0 if its versions start here."""
    try:
        return (await read_manifest(content, tip)).number
    except TipMissing:
        if starts:
            return 0
        raise


async def _read_components(content: ContentStore, newest: Version, starts: bool) -> Mapping[str, Any]:
    """The components of the version that the next one follows."""
    try:
        return (await read_manifest(content, newest.tip)).components
    except TipMissing:
        if starts and newest.number == 0:
            return {}
        raise


async def _was_tip(context: JobContext, pi: str, tip: str) -> bool:
    """Whether this is an older version: one of ours, or the one that we appended the first of ours to."""
    return bool(
        await context.fetch(f"SELECT 1 FROM {tables.VERSIONS} WHERE pi = $1 AND (tip = $2 OR previous = $2)", pi, tip)
    )


async def _swap(context: JobContext, append: Append, newest: Version, tip: str) -> bool:
    """Moves the tip if nobody else has; the unique index of versions refuses a second one of the same run."""
    number = newest.number + 1
    try:
        moved = await context.transact(
            [
                (_lock(context.dialect), [append.pi, newest.tip]),
                (
                    f"""INSERT INTO {tables.VERSIONS} (pi, version, tip, previous, chunk, run)
VALUES ($1, $2, $3, $4, $5, $6)""",
                    [append.pi, number, tip, newest.tip, append.chunk, append.run],
                ),
                (
                    f"""UPDATE {tables.ENTITIES} SET tip = $2, version = $3 WHERE pi = $1""",
                    [append.pi, tip, number],
                ),
                note_version(append.chunk, append.position, tip, number, append.run),
                note_cids(context.dialect, append.refs),
            ],
            guarded=True,
        )
    except StoreError:
        made = await context.fetch(
            f"SELECT 1 FROM {tables.VERSIONS} WHERE chunk = $1 AND run = $2 AND pi = $3",
            append.chunk, append.run, append.pi,
        )  # fmt: skip
        if made:
            return False  # another worker has published this run; the caller finds its version
        raise
    return bool(moved)


def _lock(dialect: Dialect) -> str:
    """Returns a row if the entity still has this tip, and keeps it until the transaction ends."""
    lock = " FOR UPDATE" if dialect == "postgresql" else ""
    return f"SELECT 1 FROM {tables.ENTITIES} WHERE pi = $1 AND tip = $2{lock}"
