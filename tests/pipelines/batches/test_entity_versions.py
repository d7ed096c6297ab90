"""Versions of entities: appended by compare-and-swap, once for each run of a chunk, in a history without forks."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pytest

from tabellion.engine.context import JobContext, OpenContext
from tabellion.engine.environment import Environment
from tabellion.pipelines.batches import entity_versions
from tabellion.pipelines.batches.content import ContentError, ContentStore, IpfsContent, open_content
from tabellion.pipelines.batches.entity_versions import (
    HIGHEST,
    MOST_STEPS,
    Append,
    EntityError,
    TipDiverged,
    TipInvalid,
    TipMissing,
    TipUnknown,
    history,
)
from tabellion.pipelines.batches.pipeline import PIPELINE
from tests.pipelines.batches.kubo import running_node
from tests.pipelines.batches.material import LOOPBACK

Value = TypeVar("Value")
append_version = partial(entity_versions.append_version, starts=True)
FIRST = Append("ocr:b:0", 1, 0, "pi", "tip0", {"a.ref.json": "cid-a"}, {"r0": "cid-a"}, "first")


def run(url: str, folder: Path, work: Callable[[JobContext, ContentStore], Awaitable[Value]]) -> Value:
    """Run something with the tables and a store of content."""

    async def go() -> Value:
        place = Environment("prod", url)
        async with place.store() as store:
            await PIPELINE.prepare(store)
        async with OpenContext(place) as context:
            return await work(context, open_content(str(folder)))

    return asyncio.run(go())


async def put_version(content: ContentStore, number: int, previous: object, **components: str) -> str:
    """Store a version as another publisher writes it, and return its tip."""
    return await content.put(json.dumps({"ver": number, "prev": previous, "components": components}).encode())


def is_linear(versions: list[Any], first: str) -> bool:
    """Whether each version follows the one before it."""
    tips = [first, *(one["tip"] for one in versions)]
    return [one["previous"] for one in versions] == tips[:-1] and len(set(tips)) == len(tips)


def test_the_first_version_follows_the_tip_of_the_request(url: str, tmp_path: Path) -> None:
    """It has the components and names what it follows; the same run again returns it."""

    async def work(context: JobContext, content: ContentStore) -> None:
        made = await append_version(context, content, FIRST)
        manifest = json.loads(await content.get(made.tip))
        assert (manifest["pi"], manifest["version"], manifest["previous"]) == ("pi", 1, "tip0")
        assert manifest["components"] == {"a.ref.json": "cid-a"}
        assert await append_version(context, content, FIRST) == made
        assert len(await history(context, "pi")) == 1

    run(url, tmp_path, work)


def test_components_are_applied_to_the_newest_version(url: str, tmp_path: Path) -> None:
    """A chunk that knew an older tip loses nothing: what others published since stays."""

    async def work(context: JobContext, content: ContentStore) -> None:
        await append_version(context, content, FIRST)
        other = replace(FIRST, chunk="ocr:b:1", components={"b.ref.json": "cid-b"})
        made = await append_version(context, content, other)
        manifest = json.loads(await content.get(made.tip))
        assert manifest["components"] == {"a.ref.json": "cid-a", "b.ref.json": "cid-b"}
        assert is_linear(await history(context, "pi"), "tip0")

    run(url, tmp_path, work)


def test_many_appends_at_once_make_one_line(url: str, tmp_path: Path) -> None:
    """Each of thirty concurrent appends is in the history once, and no two follow the same version."""

    async def work(context: JobContext, content: ContentStore) -> None:
        appends = [
            replace(FIRST, chunk=f"ocr:b:{number}", components={f"{number}.ref.json": f"cid-{number}"})
            for number in range(15)
        ]
        await asyncio.gather(*(append_version(context, content, one) for one in (*appends, *appends)))
        versions = await history(context, "pi")
        assert [one["version"] for one in versions] == list(range(1, 16))
        assert is_linear(versions, "tip0")
        last = json.loads(await content.get(versions[-1]["tip"]))
        assert len(last["components"]) == 15

    run(url, tmp_path, work)


def test_the_database_refuses_a_fork(url: str, tmp_path: Path) -> None:
    """Even a statement that skips our checks cannot append twice to the same version."""
    from tabellion.errors import StoreError

    async def work(context: JobContext, content: ContentStore) -> None:
        await append_version(context, content, FIRST)
        with pytest.raises(StoreError):
            await context.fetch(
                "INSERT INTO batch_versions (pi, version, tip, previous, chunk, run) "
                "VALUES ('pi', 2, 'fork', 'tip0', 'other', 1)"
            )

    run(url, tmp_path, work)


def test_a_crash_after_the_swap_is_not_repeated(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next attempt finds the version that the crashed one appended."""

    async def work(context: JobContext, content: ContentStore) -> None:
        swap = entity_versions._swap

        async def crash(*values: Any) -> bool:
            await swap(*values)
            raise ConnectionError("the worker died here")

        monkeypatch.setattr(entity_versions, "_swap", crash)
        with pytest.raises(ConnectionError):
            await append_version(context, content, FIRST)
        monkeypatch.setattr(entity_versions, "_swap", swap)
        made = await append_version(context, content, FIRST)
        assert [one["tip"] for one in await history(context, "pi")] == [made.tip]

    run(url, tmp_path, work)


def test_a_newer_version_made_elsewhere_is_taken_over(url: str, tmp_path: Path) -> None:
    """If its content can be read and says so; its components stay."""

    async def work(context: JobContext, content: ContentStore) -> None:
        ours = await append_version(context, content, FIRST)
        between = await put_version(content, 2, ours.tip, x="cid-x")
        theirs = await put_version(content, 3, {"/": between}, x="cid-x")
        made = await append_version(context, content, replace(FIRST, chunk="ocr:b:1", current_tip=theirs))
        assert made.number == 4
        manifest = json.loads(await content.get(made.tip))
        assert manifest["previous"] == theirs
        assert manifest["components"] == {"x": "cid-x", "a.ref.json": "cid-a"}
        late = await append_version(context, content, replace(FIRST, chunk="ocr:b:2", current_tip=between))
        assert json.loads(await content.get(late.tip))["previous"] == made.tip

    run(url, tmp_path, work)


def test_a_newer_version_that_does_not_descend_from_ours_is_refused(url: str, tmp_path: Path) -> None:
    """Whatever its number: adopting it would lose our components. Both tips are named."""

    async def work(context: JobContext, content: ContentStore) -> None:
        ours = await append_version(context, content, FIRST)
        lost = await put_version(content, 8, "a version that is not stored")
        looped = await put_version(content, 9, await put_version(content, 9, ours.tip))
        far = ours.tip
        for number in range(2, MOST_STEPS + 4):
            far = await put_version(content, number, far)
        first = await put_version(content, 7, None)
        for theirs in (await put_version(content, 8, first), first, lost, looped, far):
            with pytest.raises(TipDiverged) as raised:
                await append_version(context, content, replace(FIRST, chunk="ocr:b:1", current_tip=theirs))
            assert theirs in str(raised.value)
            assert ours.tip in str(raised.value)
        assert [one["tip"] for one in await history(context, "pi")] == [ours.tip]

    run(url, tmp_path, work)


def test_an_unknown_tip_is_refused(url: str, tmp_path: Path) -> None:
    """Nobody can say whether it is older or newer: appending to either could lose a version."""

    async def work(context: JobContext, content: ContentStore) -> None:
        await append_version(context, content, FIRST)
        with pytest.raises(TipUnknown, match="strange"):
            await append_version(context, content, replace(FIRST, chunk="ocr:b:1", current_tip="strange"))
        assert len(await history(context, "pi")) == 1

    run(url, tmp_path, work)


def test_a_lost_version_of_ours_is_not_replaced_by_one_without_its_components(url: str, tmp_path: Path) -> None:
    """If the content of our own newest version is gone, the entity is an error until it was restored."""

    async def work(context: JobContext, content: ContentStore) -> None:
        made = await append_version(context, content, FIRST)
        for path in tmp_path.rglob(made.tip):
            path.unlink()
        with pytest.raises(TipMissing):
            await append_version(context, content, replace(FIRST, chunk="ocr:b:1"))

    run(url, tmp_path, work)


def test_an_entity_whose_tip_is_not_stored_is_refused_unless_it_may_start(url: str, tmp_path: Path) -> None:
    """Its other components are not known: a version without them would lose them."""

    async def work(context: JobContext, content: ContentStore) -> None:
        with pytest.raises(TipMissing, match=r"tip0.*unknown_tip"):
            await entity_versions.append_version(context, content, FIRST)
        assert await context.fetch("SELECT * FROM batch_entities") == []
        await append_version(context, content, FIRST)
        made = await entity_versions.append_version(context, content, replace(FIRST, chunk="ocr:b:1"))
        assert made.number == 2

    run(url, tmp_path, work)


def test_an_entity_goes_on_from_the_tip_of_the_request(url: str, tmp_path: Path) -> None:
    """Its number is the next one, and its other components stay."""

    async def work(context: JobContext, content: ContentStore) -> None:
        tip = await put_version(content, 6, None, title="cid-t")
        made = await entity_versions.append_version(context, content, replace(FIRST, current_tip=tip))
        assert made.number == 7
        assert json.loads(await content.get(made.tip))["components"] == {"title": "cid-t", "a.ref.json": "cid-a"}

    run(url, tmp_path, work)


@pytest.mark.parametrize(
    "manifest",
    [
        b"text", b"[]", b"{}", b'{"version": 1}', b'{"version": 1, "components": []}', b'{"components": {}}',
        b'{"version": 0, "components": {}}', b'{"version": true, "components": {}}', b"[" * 100_000,
        json.dumps({"version": HIGHEST + 1, "components": {}}).encode(),
    ],
    ids=["text", "list", "empty", "no-components", "list-of-components", "no-number", "zero", "flag", "deep", "huge"],
)  # fmt: skip
def test_what_is_not_a_version_is_not_followed(url: str, tmp_path: Path, manifest: bytes) -> None:
    """Also where entities may start: it is stored, so they do not start here."""

    async def work(context: JobContext, content: ContentStore) -> None:
        tip = await content.put(manifest)
        with pytest.raises(TipInvalid):
            await append_version(context, content, replace(FIRST, current_tip=tip))

    run(url, tmp_path, work)


def test_an_entity_does_not_start_over_a_damaged_version(url: str, tmp_path: Path) -> None:
    """Its file is there, so the entity has components: nothing is appended until the file is repaired."""

    async def work(context: JobContext, content: ContentStore) -> None:
        tip = await put_version(content, 6, None, title="cid-t")
        [path] = tmp_path.rglob(tip)
        whole = path.read_bytes()
        path.write_bytes(whole[:-20])
        with pytest.raises(TipInvalid, match="damaged"):
            await append_version(context, content, replace(FIRST, current_tip=tip))
        path.write_bytes(whole)
        assert (await append_version(context, content, replace(FIRST, current_tip=tip))).number == 7

    run(url, tmp_path, work)


def test_a_node_that_fails_changes_nothing(url: str, tmp_path: Path) -> None:
    """The append can be tried again, and it neither loses components nor starts new numbers."""

    async def work(context: JobContext, content: ContentStore) -> None:
        with running_node() as node:
            ipfs = IpfsContent(node.url, LOOPBACK)
            tip = await put_version(ipfs, 6, None, title="cid-t")
            append = replace(FIRST, current_tip=tip)
            node.broken = True
            with pytest.raises(ContentError) as raised:
                await append_version(context, ipfs, append)
            assert not isinstance(raised.value, EntityError)
            node.broken = False
            made = await append_version(context, ipfs, append)
            assert (made.number, len(await history(context, "pi"))) == (7, 1)
            assert json.loads(await ipfs.get(made.tip))["components"] == {"title": "cid-t", "a.ref.json": "cid-a"}

    run(url, tmp_path, work)
