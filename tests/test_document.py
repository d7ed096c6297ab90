"""Reading as configured: locally, or with a model through the same gate as the workers."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import tabellion
from tabellion import Environment, GateSettings, Job, document
from tabellion.config import Config
from tabellion.engine.gates.row import gates
from tabellion.errors import ConfigurationError
from tabellion.models.errors import Unavailable
from tabellion.models.fake.serving import Serving, serving
from tabellion.reading.sandbox import Sandbox
from tests.models.asking import KEY
from tests.models.bills import FixedModel, bill, reply_about
from tests.reading import papers
from tests.table_owner import jobs_queue, owning
from tests.waiting import eventually
from tests.workers import ask, drain, make_worker

FAST = {"gemini": GateSettings(rate=500, min_rate=500, max_rate=500)}


@pytest.fixture(scope="module")
def fake() -> Iterator[Serving]:
    with serving() as running:
        yield running


@pytest.fixture
def config(fake: Serving, sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> Config:
    for name in [name for name in os.environ if name.startswith(("GEMINI_", "GOOGLE_", "TABELLION_"))]:
        monkeypatch.delenv(name)
    home = Environment("prod", sqlite_url)
    settings = {"gemini": {"key": KEY, "base_url": fake.url}}
    return Config(environments=(home,), gates_at=home, gates=FAST, models=settings, types=())


def with_knob(config: Config, knob: str) -> Config:
    return replace(config, models={"gemini": {**config.models["gemini"], "model": f"gemini-2.5-flash@{knob}"}})


def codes(reading: Any) -> list[str]:
    return [issue.code for issue in reading.issues]


def test_a_document_is_read_locally(tmp_path: Path) -> None:
    """A path or bytes; no model, no network, no database."""
    path = tmp_path / "bill.pdf"
    path.write_bytes(bill())
    for source in (path, bill()):
        for model in (None, "local"):
            reading = tabellion.read(source, "invoice", model=model)
            assert reading.fields["total"].value == "120.00"
            assert (reading.model, reading.text) == (None, "")
    assert [one.name for one in tmp_path.iterdir()] == ["bill.pdf"]
    error = tabellion.read(tmp_path / "none.pdf").error
    assert error is not None
    assert (error["code"], error["message"]) == (
        "file_missing", "the file cannot be opened: No such file or directory",
    )  # fmt: skip
    assert error["translatable"]["message"]["code"] == "unreadable.cannot_open"


def test_a_model_is_called_once_through_its_gate(config: Config, fake: Serving) -> None:
    """The second time its stored answer is used at no cost; the gate has what was spent."""
    before = fake.report()["requests"]
    readings = [document.read(bill(), "invoice", model="gemini", config=config) for _ in range(2)]
    assert fake.report()["requests"] == before + 1
    for reading in readings:
        assert "model and page text agree" in reading.fields["total"].reasons
        assert (reading.model, codes(reading)) == ("gemini-2.5-flash", [])
    assert readings[0].cost
    assert readings[1].cost == 0.0
    assert config.gates_at is not None
    known = ask(config.gates_at.url, lambda store: gates(store, FAST))
    state, now = known["gemini"]
    assert state.calls == 1
    assert state.spent_today(now) == pytest.approx(readings[0].cost)


@pytest.mark.parametrize(
    ("knob", "error"), [("503", "Unavailable"), ("truncate", "BadOutput"), ("400", "Rejected"), ("401", "KeyRefused")]
)
def test_a_failing_model_leaves_what_was_read_locally(
    config: Config, knob: str, error: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a warning that names the error, and contains no secret."""
    monkeypatch.setattr(document, "LONGEST_WAIT", 0.0)
    reading = document.read(bill(), "invoice", model="gemini", config=with_knob(config, knob))
    assert reading.fields["total"].value == "120.00"
    assert codes(reading) == ["model_failed"]
    assert error in reading.issues[0].message
    assert KEY not in str(reading.as_dict())
    assert reading.verdict == "warn"
    assert reading.cost is not None


def test_a_bad_answer_is_retried_differently(config: Config, fake: Serving) -> None:
    """Three times, the fields divided; the cost of the bad ones is counted."""
    before = fake.report()["requests"]
    reading = document.read(bill(), "receipt", model="gemini", config=with_knob(config, "truncate"))
    assert fake.report()["requests"] == before + document.TRIES
    assert reading.cost
    assert reading.cost > 0


def test_a_spent_budget_closes_the_gate(config: Config, fake: Serving) -> None:
    """It is reported like any failure, and the model is not called."""
    before = fake.report()["requests"]
    poor = replace(config, gates={"gemini": GateSettings(rate=500, min_rate=500, budget=0.0)})
    reading = document.read(bill(), "invoice", model="gemini", config=poor)
    assert fake.report()["requests"] == before
    assert codes(reading) == ["model_failed"]
    assert "GateClosed" in reading.issues[0].message


def test_a_missing_key_is_reported_before_anything_is_read(config: Config) -> None:
    """There is no fallback for it."""
    with pytest.raises(ConfigurationError, match="requires a key"):
        document.read(bill(), model="gemini", config=replace(config, models={}))


def test_an_unreadable_file_is_not_sent(config: Config, fake: Serving) -> None:
    """The model is not called for it."""
    before = fake.report()["requests"]
    reading = document.read(b"hello", model="gemini", config=config)
    assert reading.error is not None
    assert reading.error["code"] == "type_unsupported"
    assert fake.report()["requests"] == before


def test_the_type_is_detected_before_the_model_is_called() -> None:
    """By the words; then its fields are requested."""
    model = FixedModel("{}")
    reading = document.read(papers.pdf(("Invoice number 7", "Total 12.00")), model=model)
    assert reading.type == "invoice"
    assert "invoice_number" in model.system_texts[0]
    assert codes(reading)[-1] == "model_failed"


def test_within_an_event_loop_the_async_function_is_required() -> None:
    """The error names it; `aread` gives the same."""

    async def go() -> Any:
        model = FixedModel(reply_about(), takes=())
        with pytest.raises(RuntimeError, match="aread"):
            tabellion.read(bill(), "invoice", model=model)
        here = tabellion.read(bill(), "invoice")
        return here, await tabellion.aread(bill(), "invoice")

    here, there = asyncio.run(go())
    assert here.as_dict() | {"seconds": 0} == there.as_dict() | {"seconds": 0}


def test_cancelling_stops_the_reading(tmp_path: Path) -> None:
    """The child is killed, and its slot is free."""

    async def go(pool: Sandbox) -> None:
        reading = asyncio.create_task(tabellion.aread(papers.encoded(papers.drawing()), sandbox=pool))
        await asyncio.to_thread(eventually, lambda: pool._busy)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        await asyncio.to_thread(eventually, lambda: not pool._busy)

    with Sandbox(size=1) as pool:
        asyncio.run(go(pool))
        assert pool._idle == []
        assert tabellion.read(bill(), sandbox=pool, name="bill.pdf").file == "bill.pdf"


@pytest.mark.parametrize("threaded", [False, True])
def test_in_a_handler_failures_reach_the_engine(
    config: Config, fake: Serving, sqlite_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, threaded: bool
) -> None:
    """The model is found by name with the job's own gate, and its errors are raised; in plain functions too."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GEMINI_API_KEY", KEY)
    monkeypatch.setenv("GEMINI_BASE_URL", fake.url)
    monkeypatch.setenv("GEMINI_MODEL", "gemini-2.5-flash@503")
    queue = jobs_queue(uses="gemini")

    async def read(job: Job) -> dict[str, str]:
        try:
            await tabellion.aread(bill(), "invoice", model="gemini")
        except Unavailable as error:
            return {"result": type(error).__name__}
        return {"result": "nothing was raised"}

    def read_in_thread(job: Job) -> dict[str, str]:
        try:
            tabellion.read(bill(), "invoice", model="gemini")
        except Unavailable as error:
            return {"result": type(error).__name__}
        return {"result": "nothing was raised"}

    queue.handler(read_in_thread if threaded else read)
    with owning(sqlite_url) as owner:
        owner.insert(1)
        drain(make_worker(sqlite_url, queue, gates=FAST))
        assert owner("SELECT result FROM jobs")[0]["result"] == "Unavailable"
    document._of_worker.cache_clear()  # it would find the fake model of this module gone
