"""Questions that pace themselves."""

from __future__ import annotations

import asyncio

from tabellion.monitor.pace import AnswerCache
from tabellion.testing import Clock


def test_what_took_long_is_asked_again_much_later() -> None:
    """An answer holds for twenty times as long as it took; one that took no time is asked for each time."""
    clock, asked = Clock(0.0), []
    pace = AnswerCache(20, clock)

    async def slow() -> int:
        asked.append("slow")
        clock.advance(2.0)
        return len(asked)

    async def quick() -> int:
        asked.append("quick")
        return len(asked)

    async def story() -> None:
        assert await pace.answer(("q", "done"), slow) == 1
        clock.advance(39.0)
        assert await pace.answer(("q", "done"), slow) == 1
        clock.advance(1.0)
        assert await pace.answer(("q", "done"), slow) == 2
        assert await pace.answer(("q", "ready"), quick) == 3
        assert await pace.answer(("q", "ready"), quick) == 4

    asyncio.run(story())


def test_a_change_is_seen_at_once() -> None:
    """What starts with the name is asked for anew, and nothing else is."""
    clock, asked = Clock(0.0), []
    pace = AnswerCache(20, clock)

    async def slow() -> int:
        asked.append(1)
        clock.advance(2.0)
        return len(asked)

    async def story() -> None:
        await pace.answer(("one", "done"), slow)
        await pace.answer(("other", "done"), slow)
        pace.forget("one")
        assert await pace.answer(("one", "done"), slow) == 3
        assert await pace.answer(("other", "done"), slow) == 2

    asyncio.run(story())
