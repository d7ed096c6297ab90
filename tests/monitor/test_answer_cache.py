"""Queries that limit their own rate."""

from __future__ import annotations

from tabellion.monitor.answer_cache import AnswerCache
from tabellion.testing import Clock
from tests.engine.made_tables import asynchronous


@asynchronous
async def test_a_slow_query_is_repeated_much_later() -> None:
    """An answer is reused for twenty times as long as it took; an instant one is repeated each time."""
    clock, asked = Clock(0.0), []
    pace = AnswerCache(20, clock)

    async def slow() -> int:
        asked.append("slow")
        clock.advance(2.0)
        return len(asked)

    async def quick() -> int:
        asked.append("quick")
        return len(asked)

    assert await pace.answer(("q", "done"), slow) == 1
    clock.advance(39.0)
    assert await pace.answer(("q", "done"), slow) == 1
    clock.advance(1.0)
    assert await pace.answer(("q", "done"), slow) == 2
    assert await pace.answer(("q", "ready"), quick) == 3
    assert await pace.answer(("q", "ready"), quick) == 4


@asynchronous
async def test_a_change_is_visible_at_once() -> None:
    """Queries whose name starts like this are repeated, and no others."""
    clock, asked = Clock(0.0), []
    pace = AnswerCache(20, clock)

    async def slow() -> int:
        asked.append(1)
        clock.advance(2.0)
        return len(asked)

    await pace.answer(("one", "done"), slow)
    await pace.answer(("other", "done"), slow)
    pace.forget("one")
    assert await pace.answer(("one", "done"), slow) == 3
    assert await pace.answer(("other", "done"), slow) == 2
