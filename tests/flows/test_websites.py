"""Seed 002: three phases of one table, each with its own workers; nothing is done twice, and a killed phase resumes."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tabellion import Environment, Job, Worker
from tabellion.config import Config
from tabellion.config import model as configured_model
from tabellion.models.fake.serving import serving
from tabellion.net.guard import Rules
from tabellion.pipelines.websites.queues import website_queues
from tabellion.pipelines.websites.settings import WebsiteSettings
from tabellion.pipelines.websites.site.settings import VisitSettings
from tabellion.pipelines.websites.states import PHASES
from tabellion.pipelines.websites.submit import submit
from tests.pipelines.websites.loopback import served
from tests.pipelines.websites.sites import prepared, rows, settings_in, work
from tests.waiting import eventually
from tests.workers import ROOT


def add(url: str, settings: WebsiteSettings, *websites: str, **options: Any) -> list[str]:
    async def go() -> list[str]:
        store = await prepared(url)
        try:
            return [await submit(store, settings, website, **options) for website in websites]
        finally:
            await store.close()

    return asyncio.run(go())


def test_a_real_website_is_visited_and_analysed(url: str, tmp_path: Path) -> None:
    """A site on loopback, read as it is served: three analyses of it, with sources on its pages."""
    with served(tmp_path / "site") as site:
        visit = VisitSettings(guard=Rules.of(["127.0.0.0/8"]), pause=0.0, browser="never", screenshot=False)
        settings = settings_in(tmp_path, run_visit=None, visit=visit)
        for kind in ("profile", "seo", "trust"):
            add(url, settings, site, type=kind)
        work(url, settings)
    found = {row["type"]: row for row in rows(url)}
    assert {row["status"] for row in found.values()} == {"completed"}, [row["info_error"] for row in found.values()]
    results = {row["job_id"]: row["result"] for row in rows(url, "SELECT job_id, result FROM website_analyses")}
    profile, trust = results[found["profile"]["id"]], results[found["trust"]["id"]]
    for part in ("families and schools", "Trains", "1987", f"{site}about.html"):
        assert part in profile
    assert "ISO 9001" in trust
    assert "website_trust.privacy_good" in trust


def test_no_job_is_done_twice_with_a_worker_for_each_phase(url: str, tmp_path: Path) -> None:
    """The sequence diagram: schedulers race for the same rows, and of each UPDATE one succeeds; two workers a phase."""
    settings = settings_in(tmp_path)
    ids = add(url, settings, *(f"https://site{number}.example/" for number in range(25)))
    done: Counter[tuple[str, str]] = Counter()
    together: Counter[str] = Counter()

    def recording(phase: str) -> Any:
        [queue] = [queue for queue in website_queues(settings) if queue.name == phase]
        work_on = queue.function
        assert work_on is not None

        async def record(job: Job) -> Any:
            together[job.text_key] += 1
            assert together[job.text_key] == 1, "two processors have the same website"
            try:
                return await work_on(job)  # type: ignore[misc]
            finally:
                together[job.text_key] -= 1
                done[phase, job.text_key] += 1

        queue.function = record
        return queue

    async def race() -> None:
        places = [Environment("prod", url)]
        workers = [Worker(places, [recording(phase.queue)], poll=0.05) for phase in PHASES for _ in range(2)]
        serving = [asyncio.create_task(worker.serve()) for worker in workers]
        async with asyncio.timeout(60):
            while sum(done.values()) < len(ids) * len(PHASES):
                await asyncio.sleep(0.05)
        for worker in workers:
            worker.stop()
        await asyncio.gather(*serving)

    asyncio.run(race())
    assert set(done.values()) == {1}
    assert {row["status"] for row in rows(url)} == {"completed"}
    assert all(row[f"{phase.prefix}_attempts"] == 1 for row in rows(url) for phase in PHASES)


@pytest.mark.parametrize("number", range(len(PHASES)), ids=[phase.queue for phase in PHASES])
def test_a_phase_whose_worker_is_killed_resumes_there(url: str, tmp_path: Path, number: int) -> None:
    """kill -9 in the middle of it: the lease ends, the phase is done again, and the phases before it are not."""
    phase, settings = PHASES[number], settings_in(tmp_path, lease=1.0)
    [id_] = add(url, settings, "https://birch.example/")
    for earlier in PHASES[:number]:
        queues = [queue for queue in website_queues(settings) if queue.name == earlier.queue]
        Worker([Environment("prod", url)], queues, poll=0.05).run(until_idle=True)
    command = [sys.executable, "-m", "tests.flows.website_worker", url, str(tmp_path), phase.queue, "hang"]
    process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL)
    try:
        mark = tmp_path / f"hanging-{phase.queue}"
        eventually(lambda: mark.exists() and mark.read_text().endswith(id_), 60)
        [row] = rows(url)
        assert (row["status"], bool(row["inProgress"])) == (phase.status, True)
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    work(url, settings)
    [row] = rows(url)
    assert row["status"] == "completed"
    attempts = [row[f"{one.prefix}_attempts"] for one in PHASES]
    assert attempts == [2 if place == number else 1 for place in range(len(PHASES))]


def test_a_model_server_is_asked_through_its_gate(url: str, tmp_path: Path) -> None:
    """A real HTTP model with a schema: a valid answer with its cost, and the same question again costs nothing."""
    with serving() as fake:
        config = Config(models={"openai": {"base_url": fake.environment["OPENAI_BASE_URL"], "key": "k" * 20}})
        model = partial(configured_model, config=config)
        settings = settings_in(tmp_path, models={"openai": "openai"}, make_model=model)
        for _ in range(2):
            add(url, settings, "https://birch.example/", models=["openai"], type="seo")
            work(url, settings)
        asked = fake.lines()
    first, second = rows(url)
    assert (first["status"], second["status"]) == ("completed", "completed"), first["analysis_error"]
    results = [json.loads(row["result"]) for row in rows(url, "SELECT result FROM website_analyses ORDER BY id")]
    assert [result["from_memo"] for result in results] == [False, True]
    assert first["cost"] > 0
    assert second["cost"] == 0
    assert len(asked) == 1
