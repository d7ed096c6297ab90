"""The phases at work: a website from submission to its result, several models, failures in each phase."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tabellion.errors import Permanent
from tabellion.messages import Message
from tabellion.models.base import Ask, Part, Reply, Schema, Usage
from tabellion.pipelines.websites.files import load_info, load_prompt
from tabellion.pipelines.websites.result import AnalysisResult
from tabellion.pipelines.websites.settings import WebsiteSettings
from tabellion.pipelines.websites.site.info import WebsiteInfo
from tabellion.pipelines.websites.site.settings import VisitSettings
from tabellion.pipelines.websites.submit import submit
from tests.pipelines.websites.sites import prepared, rows, settings_in, website, work

URL = "https://birch.example/"
ANSWER = {
    "name": {"value": "Birch & Co.", "quote": "Birch & Co. makes wooden toys"},
    "summary": {"value": "Makes toys.", "quote": "every toy is made by hand"},
    "offer": [{"value": "Trains", "quote": "Our trains, puzzles"}, {"value": "Rockets", "quote": "We sell rockets"}],
    "audience": [], "tone": {"value": "friendly", "quote": None}, "location": {"value": None, "quote": None},
    "founded": {"value": "1987", "quote": "Founded in 1987"},
}  # fmt: skip


class Answering:
    """A model with a fixed answer; `fails` raises first."""

    def __init__(self, name: str, fails: int = 0, always: Exception | None = None) -> None:
        self.name, self.model = name, f"{name}-large"
        self.prompts: list[str] = []
        self._fails, self._always = fails, always

    async def call(self, parts: Sequence[Part], schema: Schema | None = None, ask: Ask | None = None) -> Reply:
        """The answer, after its failures."""
        if self._always is not None:
            raise self._always
        if self._fails:
            self._fails -= 1
            raise ConnectionError("the line is down")
        self.prompts.append(str(parts[0]))
        return Reply(json.dumps(ANSWER), ANSWER, Usage(100, 50), cost=0.002, model=self.model)

    async def close(self) -> None:
        """Nothing is open."""


def with_models(folder: Path, *models: Answering, **changes: Any) -> WebsiteSettings:
    by_name = {model.name: model for model in models}
    names = {name: name for name in by_name}
    return settings_in(folder, models=names, make_model=by_name.__getitem__, **changes)


def add(url: str, settings: WebsiteSettings, website_url: str = URL, **options: Any) -> str:
    async def go() -> str:
        store = await prepared(url)
        try:
            return await submit(store, settings, website_url, **options)
        finally:
            await store.close()

    return asyncio.run(go())


def result_of(url: str, model: str = "local") -> AnalysisResult:
    [row] = rows(url, f"SELECT result FROM website_analyses WHERE model = '{model}'")
    return AnalysisResult.from_dict(json.loads(row["result"]))


def test_a_website_passes_the_three_phases(url: str, tmp_path: Path) -> None:
    """With no model at all: each phase leaves its times, its worker and what it made; texts are files."""
    settings = settings_in(tmp_path)
    id_ = add(url, settings)
    work(url, settings)
    [row] = rows(url)
    assert (row["id"], row["status"], bool(row["inProgress"])) == (id_, "completed", False)
    for prefix in ("info", "prompts", "analysis"):
        assert row[f"{prefix}_attempts"] == 1
        assert row[f"{prefix}_started_at"] <= row[f"{prefix}_finished_at"]
        assert row[f"{prefix}_worker"]
        assert row[f"{prefix}_error"] is None
    assert "beech from managed forests" not in str(row)
    assert asyncio.run(load_info(settings.blobs, row["info_file"])).text == website().text
    assert "beech" in asyncio.run(load_prompt(settings.blobs, row["prompts_file"])).user
    [digest] = json.loads(row["results"])
    assert (digest["model"], digest["cost"], digest["quotes"]) == ("local", 0.0, digest["grounded"])
    assert result_of(url).first("name") == "Birch & Co."


def test_quotes_of_a_model_are_located_and_what_is_made_up_is_ungrounded(url: str, tmp_path: Path) -> None:
    """The prompt is sent as it was stored; the cost is kept; nothing gets a place that it does not have."""
    model = Answering("openai")
    settings = with_models(tmp_path, model)
    add(url, settings, models=["openai"])
    work(url, settings)
    [row] = rows(url)
    result = result_of(url, "openai")
    trains, rockets = result.fields["offer"]
    assert trains.sources[0].page == URL
    assert rockets.sources[0].kind == "ungrounded"
    assert rockets.sources[0].page == ""
    assert "location" not in result.fields
    assert result.count_quotes() == (5, 4)
    assert row["cost"] == 0.002
    assert model.prompts == [asyncio.run(load_prompt(settings.blobs, row["prompts_file"])).user]


def test_several_models_are_asked_side_by_side(url: str, tmp_path: Path) -> None:
    """Each in a row of its own; the job ends when all have ended, also if one of them failed."""
    broken = Answering("broken", always=Permanent("no such model"))
    settings = with_models(tmp_path, Answering("openai"), Answering("gemini", fails=2), broken)
    add(url, settings, models=["gemini", "local", "broken", "openai"])
    work(url, settings)
    [row] = rows(url)
    assert row["status"] == "completed"
    analyses = {one["model"]: one for one in rows(url, "SELECT * FROM website_analyses")}
    assert {name: one["status"] for name, one in analyses.items()} == {
        "gemini": "completed", "local": "completed", "broken": "failed", "openai": "completed",
    }  # fmt: skip
    assert analyses["gemini"]["attempts"] == 3
    digests = json.loads(row["results"])
    assert [digest["model"] for digest in digests] == ["gemini", "local", "broken", "openai"]
    assert "no such model" in digests[2]["error"]
    assert row["cost"] == 0.004


def test_a_job_whose_models_all_failed_fails(url: str, tmp_path: Path) -> None:
    """And says what each of them said."""
    models = [Answering(name, always=Permanent(f"{name} is gone")) for name in ("one", "two")]
    settings = with_models(tmp_path, *models)
    add(url, settings, models=["one", "two"])
    work(url, settings)
    [row] = rows(url)
    assert row["status"] == "failed"
    assert "one: one is gone" in row["analysis_error"]
    assert "two: two is gone" in row["analysis_error"]


def test_retries_are_counted_in_their_own_phase(url: str, tmp_path: Path) -> None:
    """A visit that fails twice and a model that fails once: three and two attempts, one for the prompt."""
    left = Counter({URL: 2})

    async def flaky(
        website_url: str, visit: VisitSettings, folder: Path, note: Callable[[Message], None]
    ) -> WebsiteInfo:
        if left[website_url]:
            left[website_url] -= 1
            raise ConnectionError("the site is down")
        return website(website_url)

    settings = with_models(tmp_path, Answering("openai", fails=1), run_visit=flaky)
    add(url, settings, models=["openai"])
    work(url, settings)
    [row] = rows(url)
    assert row["status"] == "completed"
    assert [row[f"{prefix}_attempts"] for prefix in ("info", "prompts", "analysis")] == [3, 1, 2]


def test_a_job_fails_in_the_phase_that_failed(url: str, tmp_path: Path) -> None:
    """After the first attempt and three retries; the other phases know nothing of it."""

    async def down(*_: Any) -> WebsiteInfo:
        raise ConnectionError("the site is down")

    settings = settings_in(tmp_path, run_visit=down, retry_base=0.01)
    add(url, settings)
    work(url, settings)
    [row] = rows(url)
    assert (row["status"], row["info_attempts"], row["prompts_attempts"]) == ("failed", 4, 0)
    assert "the site is down" in row["info_error"]
    assert row["prompts_error"] is None
    assert row["analysis_error"] is None
