"""The worker of one command: it works where nobody else does, and nobody else waits for it."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from tabellion.cli import own_worker as module
from tabellion.cli import pipeline_tables
from tabellion.cli.own_worker import own_worker
from tabellion.config import Config, load
from tabellion.delivery.outbox import webhooks_queue
from tabellion.engine.sql import CLOCK
from tabellion.engine.store import Store
from tabellion.engine.worker_rows import ALIVE, AgedWorker, read_workers
from tabellion.pipelines.batches.pipeline import PIPELINE

NOW = CLOCK["sqlite"]


@asynccontextmanager
async def database(folder: Path) -> AsyncIterator[tuple[Config, Store]]:
    """A configuration and its database, within a block."""
    config = load(None, {"TABELLION_DATA": str(folder)})
    async with Store(config.environments[0].url) as store:
        await pipeline_tables.prepare(store, [PIPELINE])
        yield config, store


def command(config: Config, store: Store, name: str) -> AbstractAsyncContextManager[None]:
    """A command that needs a worker for webhooks."""
    return own_worker(config, PIPELINE, store, ("webhooks",), lambda: [webhooks_queue()], name=name)


async def wait_for_workers(store: Store, count: int) -> list[AgedWorker]:
    """Return the live workers as soon as there are so many."""
    async with asyncio.timeout(30):
        while len(found := await read_workers(store.database)) != count:
            await asyncio.sleep(0.02)
    return found


def test_another_command_does_not_wait_for_the_worker_of_this_one(tmp_path: Path) -> None:
    """It takes the rows of one command only, so it is not listed as one that serves the queue."""

    async def run() -> set[str]:
        async with database(tmp_path) as (config, store), command(config, store, "first"):
            await wait_for_workers(store, 1)
            async with command(config, store, "second"):
                return {worker["queues"] for worker in await wait_for_workers(store, 2)}

    assert asyncio.run(run()) == {"webhooks (first)", "webhooks (second)"}


def test_a_command_goes_on_when_the_workers_that_it_waits_for_are_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that was killed is shown as live for some seconds: after them the command works itself."""
    monkeypatch.setattr(module, "LOOK", 0.02)

    async def run() -> str:
        async with database(tmp_path) as (config, store):
            await store.database.fetch(
                f"""INSERT INTO tabellion_workers (id, host, pid, boot, version, queues, slots, started_at, seen_at)
VALUES ('killed', 'here', 1, 'b', '0', 'webhooks', 1, {NOW}, {NOW})"""
            )
            async with command(config, store, "batch"):
                assert [one["id"] for one in await read_workers(store.database)] == ["killed"]
                await store.database.fetch("UPDATE tabellion_workers SET seen_at = seen_at - $1", ALIVE)
                [worker] = await wait_for_workers(store, 1)
                return worker["id"]

    assert asyncio.run(run()).startswith("batch-")


def test_sigterm_ends_a_command_as_ctrl_c_does(tmp_path: Path) -> None:
    """Its worker stops before the command ends, so that what it has claimed is released."""

    async def run() -> None:
        async with database(tmp_path) as (config, store):
            try:
                async with command(config, store, "batch"):
                    await wait_for_workers(store, 1)
                    assert signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
                    os.kill(os.getpid(), signal.SIGTERM)
                    await asyncio.Event().wait()
            finally:
                assert await read_workers(store.database) == []

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(run())
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
