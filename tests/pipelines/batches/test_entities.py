"""Versions of entities: appended by compare-and-swap, once for each run of a chunk, in a history without forks."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pytest

from tabellion.engine.context import JobContext, OpenContext
from tabellion.engine.environment import Environment
from tabellion.pipelines.batches import entities
from tabellion.pipelines.batches.content import ContentMissing, ContentStore, open_content
from tabellion.pipelines.batches.entities import Append, TipUnknown, append_version, history
from tabellion.pipelines.batches.pipeline import PIPELINE

Value = TypeVar("Value")
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
        swap = entities._swap

        async def crash(*values: Any) -> bool:
            await swap(*values)
            raise ConnectionError("the worker died here")

        monkeypatch.setattr(entities, "_swap", crash)
        with pytest.raises(ConnectionError):
            await append_version(context, content, FIRST)
        monkeypatch.setattr(entities, "_swap", swap)
        made = await append_version(context, content, FIRST)
        assert [one["tip"] for one in await history(context, "pi")] == [made.tip]

    run(url, tmp_path, work)


def test_a_newer_version_made_elsewhere_is_taken_over(url: str, tmp_path: Path) -> None:
    """If its content can be read and says so; its components stay."""

    async def work(context: JobContext, content: ContentStore) -> None:
        await append_version(context, content, FIRST)
        theirs = await content.put(json.dumps({"ver": 7, "components": {"x": "cid-x"}}).encode())
        made = await append_version(context, content, replace(FIRST, chunk="ocr:b:1", current_tip=theirs))
        assert made.number == 8
        manifest = json.loads(await content.get(made.tip))
        assert manifest["previous"] == theirs
        assert manifest["components"] == {"x": "cid-x", "a.ref.json": "cid-a"}

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
    """If the content of our own newest version cannot be read, appending fails and can be tried again."""

    async def work(context: JobContext, content: ContentStore) -> None:
        made = await append_version(context, content, FIRST)
        for path in tmp_path.rglob(made.tip):
            path.unlink()
        with pytest.raises(ContentMissing):
            await append_version(context, content, replace(FIRST, chunk="ocr:b:1"))

    run(url, tmp_path, work)
