"""The health of the phases: slots idle, busy and in error, retries and success."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tabellion.engine.sql import later
from tabellion.engine.worker import heartbeat
from tabellion.engine.worker.heartbeat import WorkerRecord
from tabellion.pipelines.websites.health import WebsitesHealth, measure
from tabellion.pipelines.websites.queues import phase_queue
from tabellion.pipelines.websites.states import INFO
from tabellion.pipelines.websites.submit import submit
from tests.pipelines.websites.sites import prepared, settings_in


def test_slots_are_the_processors_of_the_seed(url: str, tmp_path: Path) -> None:
    """Idle, busy, or in error: a claim whose worker no longer renews it."""

    async def go() -> WebsitesHealth:
        store, settings = await prepared(url), settings_in(tmp_path)
        for number in range(5):
            await submit(store, settings, f"https://site{number}.example/")
        await heartbeat.enlist(store, WorkerRecord("one", "host", 1, "boot", "1", f"{INFO.queue},webhooks", 100))
        queue = phase_queue(settings, INFO)
        first, second, third = await store.claim(queue, 3, "one")
        await store.retry(first, 60, "the site is down")
        await store.database.fetch(
            f"UPDATE tabellion_attempts SET lease_until = {later('-1.0', store.dialect)} WHERE key = $1",
            second.text_key,
        )
        assert third.text_key
        try:
            return await measure(store, settings)
        finally:
            await store.close()

    health = asyncio.run(go())
    visits = health["phases"][0]
    assert visits["slots"] == {"idle": 9, "busy": 1, "error": 1}
    assert (visits["ready"], visits["running"], visits["workers"]) == (3, 2, 1)
    assert (visits["errors"], visits["done"], visits["success_rate"]) == (1, 0, 0.0)
    assert visits["oldest_at"] is not None
    assert health["phases"][1]["slots"] == {"idle": 0, "busy": 0, "error": 0}, "no worker serves prompts"
    assert (health["backlog"], health["backlog_limit"]) == (3, 1000)
