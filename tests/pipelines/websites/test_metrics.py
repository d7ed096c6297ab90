"""The metrics of the phases."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tabellion.engine.worker import heartbeat
from tabellion.engine.worker.heartbeat import WorkerRecord
from tabellion.monitor.answer_cache import AnswerCache
from tabellion.monitor.metrics.metric import Sample
from tabellion.pipelines.websites.metrics import METRICS, metrics_of
from tabellion.pipelines.websites.queues import phase_queue
from tabellion.pipelines.websites.states import INFO, MODELS, PHASES
from tabellion.pipelines.websites.submit import submit
from tests.pipelines.websites.sites import prepared, settings_in


def test_each_phase_has_its_figures(url: str, tmp_path: Path) -> None:
    """Slots, attempts, retries, success and times by phase, and the backlog with its limit."""

    async def go() -> list[Sample]:
        store, settings = await prepared(url), settings_in(tmp_path)
        try:
            for number in range(3):
                await submit(store, settings, f"https://site{number}.example/")
            await heartbeat.enlist(store, WorkerRecord("one", "host", 1, "boot", "1", INFO.queue, 100))
            first, second = await store.claim(phase_queue(settings, INFO), 2, "one")
            await store.finish(first, {})
            await store.retry(second, 60, "the site is down")
            return list(await metrics_of(settings).read(store, AnswerCache()))
        finally:
            await store.close()

    found = {
        (sample.metric.name.removeprefix("tabellion_websites_"), *sample.labels.values()): sample.value
        for sample in asyncio.run(go())
    }
    assert {name for name, *_ in found} <= {metric.name.removeprefix("tabellion_websites_") for metric in METRICS}
    phases = [*(phase.queue for phase in PHASES), MODELS]
    for phase in phases:
        assert ("phase_slots", phase, "idle") in found
        assert ("phase_attempts", phase, "error") in found
    visit = INFO.queue
    assert found["phase_slots", visit, "idle"] == 10
    assert (found["phase_attempts", visit, "done"], found["phase_attempts", visit, "error"]) == (1, 1)
    assert found["phase_success_ratio", visit] == 0.5
    assert ("phase_mean_seconds", visit) in found
    assert ("phase_mean_seconds", phases[1]) not in found, "nothing was done there"
    assert (found["backlog_jobs",], found["backlog_limit_jobs",]) == (2, 1000)
