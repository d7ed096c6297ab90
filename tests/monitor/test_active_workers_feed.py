"""The workers of all environments, read once for all clients."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tabellion import Environment, Store
from tabellion.monitor import active_workers_feed
from tabellion.monitor.active_workers import environment_workers
from tabellion.monitor.active_workers_feed import ActiveWorkers, ActiveWorkersFeed
from tests.engine.made_tables import asynchronous, tasks, tasks_queue

GONE = "postgresql://postgres@127.0.0.1:9/nothing"


async def working(url: str, worker: str) -> None:
    """A database in which this worker holds a job."""
    async with Store(url) as store:
        await store.claim(await tasks(store, 1), 1, worker)


def names(found: ActiveWorkers) -> list[tuple[str, str | None, str | None, int]]:
    return [(one["environment"], one["worker"], one["queue"], one["jobs"]) for one in found["workers"]]


def problems(found: ActiveWorkers) -> dict[str, str]:
    return {one["environment"]: one["problem"] for one in found["problems"]}


@asynchronous
async def test_environments_without_an_answer_are_listed_beside_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unreachable, silent, without a file, without the register: the others are there."""
    monkeypatch.setattr(active_workers_feed, "KNOWN", 0.0)
    urls = {name: f"sqlite:///{tmp_path}/{name}.db" for name in ("prod", "dev", "bare", "missing")}
    await working(urls["prod"], "w1")
    await working(urls["dev"], "w2")
    (tmp_path / "bare.db").touch()

    async def keep_silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = await asyncio.start_server(keep_silent, "127.0.0.1", 0)
    silent = f"postgresql://postgres@127.0.0.1:{server.sockets[0].getsockname()[1]}/silent"
    places = [Environment(name, url) for name, url in (urls | {"gone": GONE, "silent": silent}).items()]
    async with server, Store(urls["prod"]) as store:
        feed = ActiveWorkersFeed(places, [tasks_queue()], {store.url: store}, deadline=1)
        try:
            found = await feed.read()
            async with asyncio.timeout(30):
                while "too_slow" in (problems(found) | {"silent": ""}).values():  # of a machine with other work
                    found = await feed.read()
                    await asyncio.sleep(0.01)
        finally:
            await feed.close()
        assert names(found) == [("prod", "w1", "tasks", 1), ("dev", "w2", "tasks", 1)]
        result = problems(found)
        assert result.pop("silent") in ("too_slow", "unreachable")
        assert result == {"bare": "not_migrated", "missing": "unreachable", "gone": "unreachable"}
        assert not (tmp_path / "missing.db").exists()
        assert (tmp_path / "bare.db").stat().st_size == 0
        await store.counts(tasks_queue())  # the server's own store stays open


@asynchronous
async def test_many_requests_cost_one_query(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer to one is used for all others for a moment."""
    looks: list[str] = []

    async def counted(environment: str, *rest: object) -> object:
        looks.append(environment)
        return await environment_workers(environment, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(active_workers_feed, "environment_workers", counted)
    monkeypatch.setattr(active_workers_feed, "KNOWN", 3600.0)
    await working(url, "w1")
    feed = ActiveWorkersFeed([Environment("prod", url)], [tasks_queue()], {}, deadline=30)
    try:
        answers = await asyncio.gather(*(feed.read() for _ in range(20)))
    finally:
        await feed.close()
    assert looks == ["prod"]
    assert all(names(one) == [("prod", "w1", "tasks", 1)] for one in answers)


@asynchronous
async def test_an_environment_that_is_back_is_shown_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is queried repeatedly, and not waited for until it has answered."""
    monkeypatch.setattr(active_workers_feed, "KNOWN", 0.0)
    feed = ActiveWorkersFeed([Environment("prod", f"sqlite:///{tmp_path}/prod.db")], [tasks_queue()], {}, deadline=30)
    try:
        assert problems(await feed.read()) == {"prod": "unreachable"}
        await working(f"sqlite:///{tmp_path}/prod.db", "w1")
        async with asyncio.timeout(30):
            while problems(found := await feed.read()):
                await asyncio.sleep(0.01)
        assert names(found) == [("prod", "w1", "tasks", 1)]
    finally:
        await feed.close()


@asynchronous
async def test_a_slow_environment_is_queried_once_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Queries do not pile up behind one without an answer, and nobody waits for it twice."""
    monkeypatch.setattr(active_workers_feed, "KNOWN", 0.0)
    asked: list[asyncio.Event] = []

    async def never(*_: object) -> object:
        asked.append(asyncio.Event())
        return await asked[-1].wait()

    monkeypatch.setattr(active_workers_feed, "environment_workers", never)
    feed = ActiveWorkersFeed([Environment("prod", GONE)], [tasks_queue()], {}, deadline=0.01)
    try:
        for _ in range(3):
            assert problems(await feed.read()) == {"prod": "too_slow"}
    finally:
        await feed.close()
    assert len(asked) == 1
