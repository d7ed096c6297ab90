"""Memos: one caller computes, the others wait; a crash does not block the next try."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from tabellion import Store
from tabellion.engine.memo import Asker, Memos
from tests.table_owner import Owner, jobs_queue

ONE, OTHER = Asker("pages", "1", "token-one"), Asker("", "", "token-other")


def on(url: str, do: Callable[[Memos], Awaitable[None]]) -> None:
    async def go() -> None:
        async with Store(url) as store:
            await do(Memos(store))

    asyncio.run(go())


def test_the_first_caller_computes_and_the_others_get_the_answer(any_url: str) -> None:
    """One gets the order; the second gets neither order nor answer; both get the answer once it is there."""

    async def do(memos: Memos) -> None:
        first = await memos.recall("k", OTHER, "m", 60)
        assert first.mine
        second = await memos.recall("k", Asker("", "", "third"), "m", 60)
        assert (second.mine, second.reply) == (False, None)
        await memos.remember("k", OTHER, '{"text": "été"}', 0.5)
        for asker in (OTHER, Asker("", "", "third")):
            found = await memos.recall("k", asker, "m", 60)
            assert found.reply == '{"text": "été"}'
            assert not found.same

    on(any_url, do)


def test_one_of_many_concurrent_callers_computes(url: str) -> None:
    """Twenty concurrent callers get one order."""

    async def do(memos: Memos) -> None:
        answers = await asyncio.gather(*(memos.recall("k", Asker("", "", str(n)), "m", 60) for n in range(20)))
        assert sum(answer.mine for answer in answers) == 1

    on(url, do)


def test_a_caller_that_gives_up_leaves_its_hint(url: str) -> None:
    """The next caller gets the order and the hint; the raw answer is kept, and is not a result."""

    async def do(memos: Memos) -> None:
        await memos.recall("k", OTHER, "m", 60)
        await memos.give_up("k", OTHER, hint={"split": 2}, raw="{half")
        again = await memos.recall("k", Asker("", "", "next"), "m", 60)
        assert again.mine
        assert again.hint == {"split": 2}

    on(url, do)


def test_the_order_of_a_killed_job_goes_to_its_next_attempt(url: str, owner: Owner) -> None:
    """A job killed while computing blocks neither itself nor others until the memo's lease ends."""
    owner.insert(1)

    async def go() -> None:
        async with Store(url) as store:
            memos, queue = Memos(store), jobs_queue()
            [job] = await store.claim(queue, 1, "w1")
            asker = Asker(queue.name, job.text_key, job.token)
            assert (await memos.recall("k", asker, "m", 600)).mine
            stranger = Asker("", "", "stranger")
            assert not (await memos.recall("k", stranger, "m", 600)).mine
            await store.retry(job, 0, "killed")
            [again] = await store.claim(queue, 1, "w2")
            retry = Asker(queue.name, again.text_key, again.token)
            assert (await memos.recall("k", retry, "m", 600)).mine
            await memos.remember("k", asker, "late", 0.0)  # the killed job comes back: the order is no longer its own
            assert (await memos.recall("k", retry, "m", 600)).reply is None
            await memos.remember("k", retry, "answer", 0.0)
            assert (await memos.recall("k", retry, "m", 600)).same
            assert (await memos.recall("k", stranger, "m", 600)).same is False

    asyncio.run(go())
