"""Turns of rules between workers, positions that survive a crash, and leftovers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tabellion import Environment, Store, Worker
from tabellion.engine import retention
from tabellion.engine.retention import PruneStep, RetentionRule, prune_all, prune_some
from tabellion.engine.worker import environment as worker_environment
from tabellion.errors import Busy, TabellionError, Unreachable, ValueRefused
from tabellion.testing import Clock
from tests.engine.made_tables import asynchronous, rows, run, tasks
from tests.workers import EventRecorder


class Counting(RetentionRule):
    """A rule over numbers: each step removes one of those that are left."""

    name = "counting"

    def __init__(self, numbers: int = 5, keep: float | None = 1000.0) -> None:
        self.keep, self.numbers = keep, numbers
        self.seen: list[str | None] = []
        self.cleared: list[str] = []
        self.error: Exception | None = None

    async def step(self, store: Store, position: str | None, *, dry_run: bool = False) -> PruneStep:
        """Remove the number at this position."""
        await asyncio.sleep(0)
        if self.error is not None:
            raise self.error
        self.seen.append(position)
        place = int(position or 0) + 1
        return PruneStep(str(place) if place < self.numbers else None, 1, float(place))

    async def clear(self, store: Store, detail: str) -> bool:
        """Remember what was cleared."""
        if detail == "later":
            return False
        if detail == "broken":
            raise TabellionError("the bucket does not answer")
        self.cleared.append(detail)
        return True


@asynchronous
async def test_a_walk_continues_where_it_stopped(store: Store, clock: Clock) -> None:
    """A turn ends after its time; the next one, of any worker, begins there; then there is a pause."""
    await store.open()
    rule = Counting()
    assert await prune_some(store, [rule], "w1", 0.0) == {"counting": 1}
    assert await prune_some(store, [rule], "w2", 0.0) == {"counting": 1}
    assert rule.seen == [None, "1"]
    assert await prune_some(store, [rule], "w1", 60.0) == {"counting": 3}
    assert rule.seen == [None, "1", "2", "3", "4"]
    assert await prune_some(store, [rule], "w1", 60.0) == {}
    clock.advance(rule.keep or 0)
    assert await prune_some(store, [rule], "w1", 60.0) == {"counting": 5}


@asynchronous
async def test_one_worker_at_a_time(store: Store, clock: Clock) -> None:
    """Others do something else; the turn of one that died ends by itself, and its position is kept."""
    await store.open()
    rule = Counting()
    await prune_some(store, [rule], "w1", 0.0)
    until = f"to_timestamp({clock() + 60})" if store.dialect == "postgresql" else f"{clock() + 60}"
    await run(store, f"UPDATE tabellion_retention SET busy_until = {until}, worker = 'dead'")
    assert await prune_some(store, [rule], "w2", 60.0) == {}
    clock.advance(61)
    assert await prune_some(store, [rule], "w2", 60.0) == {"counting": 4}
    assert rule.seen == [None, "1", "2", "3", "4"]


@asynchronous
async def test_two_workers_do_not_share_a_step(store: Store) -> None:
    """Many that want a turn at once: each number is removed once."""
    await store.open()
    rule = Counting(50)
    await asyncio.gather(*(prune_some(store, [rule], f"w{n}", 0.0) for n in range(8)))
    while await prune_some(store, [rule], "w", 0.0):
        pass
    assert sorted(int(one or 0) for one in rule.seen) == list(range(50))


@asynchronous
async def test_a_crash_repeats_the_step(store: Store, arm: Callable[[str], None]) -> None:
    """A step whose position was not stored is taken again, which removes nothing twice."""
    await store.open()
    rule = Counting()
    arm("prune.pre_save:raise@2")
    with pytest.raises(Unreachable):
        await prune_some(store, [rule], "w", 60.0)
    arm("")
    await prune_some(store, [rule], "w", 60.0)
    assert rule.seen == [None, "1", "1", "2", "3", "4"]


@asynchronous
async def test_a_rule_that_fails_does_not_stop_the_others(store: Store, clock: Clock) -> None:
    """Its error is reported once; it rests for a while, whichever worker comes, and then its turn is free again."""
    await store.open()
    broken, sound = Counting(), Counting()
    broken.name = "broken"
    broken.error = ValueRefused("no")
    failed: list[str] = []
    removed = await prune_some(
        store, [broken, sound], "w", 9.0, lambda rule, error: failed.append(f"{rule.name} {error}")
    )
    assert (removed, failed) == ({"counting": 5}, ["broken no"])
    for worker in ("w", "other"):
        assert await prune_some(store, [broken], worker, 9.0) == {}  # no error either
    clock.advance(retention.AGAIN + 1)
    broken.error = None
    assert await prune_some(store, [broken], "w", 9.0) == {"broken": 5}


@asynchronous
async def test_a_rule_that_met_a_lock_continues_at_the_next_turn(store: Store) -> None:
    """Its error is reported, and it does not rest: the lock may be gone in seconds."""
    await store.open()
    rule, failed = Counting(), list[str]()
    rule.error = Busy("locked")
    assert await prune_some(store, [rule], "w", 9.0, lambda _, error: failed.append(str(error))) == {}
    assert failed == ["locked"]
    rule.error = None
    assert await prune_some(store, [rule], "other", 9.0) == {"counting": 5}


@asynchronous
async def test_everything_at_once(store: Store) -> None:
    """`prune_all` starts over whatever the position is; a dry run leaves no trace."""
    await store.open()
    rule, totals = Counting(), dict[str, PruneStep]()
    await prune_some(store, [rule], "w", 0.0)
    before = await rows(store, "tabellion_retention", "name")
    await prune_all(store, [rule], "p", dry_run=True, report=lambda rule, step: totals.update({rule.name: step}))
    assert totals == {"counting": PruneStep(None, 5, 5.0)}
    assert await rows(store, "tabellion_retention", "name") == before
    rule.seen.clear()
    await prune_all(store, [rule, Counting(keep=None)], "p")
    assert rule.seen == [None, "1", "2", "3", "4"] * retention.PASSES  # it always finds something to remove


@asynchronous
async def test_what_a_walk_frees_is_removed_too(store: Store) -> None:
    """One call removes what was kept only because of what it removed later."""

    class Kept(Counting):
        name = "kept"

        async def step(self, store: Store, position: str | None, *, dry_run: bool = False) -> PruneStep:
            """Remove everything that is free, once."""
            removed, self.numbers = (self.numbers, 0) if self.freed.numbers == 0 else (0, self.numbers)
            return PruneStep(None, removed)

        freed: Kept

    kept, freed = Kept(3), Kept(2)
    kept.freed = freed
    freed.freed = Kept(0)
    totals: dict[RetentionRule, int] = {}
    await store.open()
    await prune_all(store, [kept, freed], "p", report=lambda rule, step: totals.update({rule: step.removed}))
    assert (totals[kept], totals[freed]) == (3, 2)


@asynchronous
async def test_leftovers_are_removed_by_whoever_comes(store: Store, clock: Clock) -> None:
    """Not at once, for whoever deleted the row does so; what cannot be removed is tried again; also if nothing is
    removed by age."""
    await store.open()
    rule = Counting(keep=None)
    for detail in ("a", "later", "broken", "b"):
        _, text, values = retention.leave("counting", detail, store.dialect)
        await store.database.transact([_bound(text, values)])
    _, text, values = retention.leave("another pipeline", "c", store.dialect)
    await store.database.transact([_bound(text, values)])
    await prune_some(store, [rule], "w", 9.0)
    assert rule.cleared == []
    clock.advance(61)
    await prune_some(store, [rule], "w", 9.0)
    assert rule.cleared == ["a", "b"]
    left = {row["detail"] for row in await rows(store, "tabellion_leftovers")}
    assert left == {"later", "broken", "c"}
    rule.clear = lambda store, detail: _yes()  # type: ignore[method-assign]
    await prune_some(store, [rule], "w", 9.0)
    assert len(await rows(store, "tabellion_leftovers")) == 3
    clock.advance(601)
    await prune_some(store, [rule], "w", 9.0)
    assert [row["detail"] for row in await rows(store, "tabellion_leftovers")] == ["c"]


async def _yes() -> bool:
    return True


def _bound(text: str, values: dict[str, Any]) -> tuple[str, list[Any]]:
    from tabellion.engine.sql import bind

    return bind(text, values)


def test_a_worker_prunes_beside_its_work(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An event tells what was removed, another what could not be."""
    monkeypatch.setattr(worker_environment, "PRUNE", 0.05)
    broken, sound = Counting(), Counting()
    broken.name, broken.error = "broken", OSError("no such bucket")
    heard = EventRecorder()

    async def story() -> None:
        async with Store(url) as store:
            queue = await tasks(store)
        queue.handler(lambda job: {})
        worker = Worker([Environment("here", url)], [queue], listeners=[heard], retention=lambda _: [broken, sound])
        serving = asyncio.create_task(worker.serve())
        async with asyncio.timeout(20):
            while not (heard.of("pruned") and heard.of("prune_failed")):
                await asyncio.sleep(0.01)
        worker.stop()
        await serving

    asyncio.run(story())
    assert [(one.note, one.count) for one in heard.of("pruned")] == [("counting", 5)]
    assert {(one.note, one.error) for one in heard.of("prune_failed")} == {("broken", "no such bucket")}


def test_the_former_name_of_a_step_still_works() -> None:
    """Rules of other packages may import it."""
    assert retention.Step is PruneStep
