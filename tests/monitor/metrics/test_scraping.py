"""A scrape never waits for a database that does not answer, and says that it does not."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from tabellion.errors import Unreachable
from tabellion.monitor.metrics import scraping
from tabellion.monitor.metrics.database_metrics import ROWS
from tabellion.monitor.metrics.metric import Sample
from tabellion.monitor.metrics.scraping import EnvironmentScrape

FIGURES = [ROWS.sample(3, queue="tasks", state="ready")]


class Reader:
    """A database that answers as a test says."""

    def __init__(self) -> None:
        self.answers = asyncio.Event()
        self.counted = asyncio.Event()
        self.error: Exception | None = None
        self.pings = self.readings = 0
        self.store: Any = SimpleNamespace(now=self._now)
        self.answers.set()
        self.counted.set()

    async def _now(self) -> float:
        self.pings += 1
        await self.answers.wait()
        if self.error is not None:
            raise self.error
        return 0.0

    async def read(self) -> list[Sample]:
        """Count."""
        self.readings += 1
        await self.counted.wait()
        return FIGURES


def run(story: Callable[[Reader, EnvironmentScrape], Awaitable[None]]) -> None:
    async def go() -> None:
        reader = Reader()
        scrape = EnvironmentScrape("prod", reader)  # type: ignore[arg-type]
        try:
            await story(reader, scrape)
        finally:
            await scrape.close()

    asyncio.run(go())


def told(samples: list[Sample]) -> dict[str, Any]:
    assert {sample.labels["environment"] for sample in samples} == {"prod"}
    return {sample.metric.name.removeprefix("tabellion_"): sample.value for sample in samples}


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scraping, "ANSWER", 0.05)
    monkeypatch.setattr(scraping, "FIGURES", 0.05)


def test_figures_are_shared_for_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two scrapes, also at once, count once; later ones count again."""

    async def story(reader: Reader, scrape: EnvironmentScrape) -> None:
        one, other = await asyncio.gather(scrape.samples(), scrape.samples())
        assert told(one)["database_up"] == told(other)["database_up"] == 1
        assert told(one)["queue_rows"] == 3
        assert told(one)["figures_age_seconds"] >= 0
        assert reader.readings == 1
        monkeypatch.setattr(scraping, "KNOWN", 0.0)
        await scrape.samples()
        assert reader.readings == 2

    run(story)


def test_a_database_that_hangs_is_down() -> None:
    """At once, without its figures, and it is not asked again before it has answered; then it is up."""

    async def story(reader: Reader, scrape: EnvironmentScrape) -> None:
        await scrape.samples()
        reader.answers.clear()
        for _ in range(3):
            assert told(await scrape.samples()) == {"database_up": 0}
        assert reader.pings == 2
        reader.answers.set()
        assert told(await scrape.samples())["database_up"] == 1

    run(story)


def test_a_database_that_refuses_is_down(caplog: pytest.LogCaptureFixture) -> None:
    """Reported in the log once, not at every scrape."""

    async def story(reader: Reader, scrape: EnvironmentScrape) -> None:
        reader.error = Unreachable("connection refused")
        for _ in range(3):
            assert told(await scrape.samples()) == {"database_up": 0}

    run(story)
    assert [record.message for record in caplog.records] == [
        "metrics: the database of prod does not answer: connection refused"
    ]


def test_slow_figures_are_given_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    """The database is up; the last figures are given until the new ones are counted, but not for ever."""
    monkeypatch.setattr(scraping, "KNOWN", 0.0)

    async def story(reader: Reader, scrape: EnvironmentScrape) -> None:
        reader.counted.clear()
        assert told(await scrape.samples()) == {"database_up": 1}
        reader.counted.set()
        assert told(await scrape.samples())["queue_rows"] == 3
        reader.counted.clear()
        assert told(await scrape.samples())["queue_rows"] == 3
        monkeypatch.setattr(scraping, "STALE", 0.0)
        assert told(await scrape.samples()) == {"database_up": 1}

    run(story)
