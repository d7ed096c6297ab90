"""Retention: rules that remove what has been kept long enough, in small steps that any worker can take.

A rule walks over its table step by step. `tabellion_retention` has the position of the walk and whose turn it is, so
that workers take turns without a leader. Nothing depends on a turn: two that overlap, or a step that is repeated after
a crash, remove nothing that one would not have removed. What is outside the database (files) is recorded as a leftover
in the transaction that removes its row, and the record is deleted when the files are gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tabellion.engine import sql
from tabellion.engine.failpoints import failpoint
from tabellion.engine.ids import new_id
from tabellion.engine.sql import NOW, Dialect
from tabellion.engine.store import Store
from tabellion.errors import AWAY, Busy, TabellionError, Unreachable

SOME = 500  #: rows that one statement deletes
TURN = 60.0  #: seconds after which the turn of a process that died ends
SHORTEST, LONGEST = 60.0, 86_400.0  #: seconds between two walks over a table
WALKS = 20  #: walks in the time that something is kept
LEFT = 60.0  #: seconds before a leftover is somebody else's to remove
AGAIN = 600.0  #: seconds before a leftover that could not be removed, or a rule that failed, is tried again
PASSES = 10  #: walks over all tables at most: where much is written, something always becomes old enough
LEFTOVERS = 100  #: that are removed in one turn
WAIT = 0.5  #: seconds between two checks whether another process has ended its turn


@dataclass(frozen=True, slots=True)
class PruneStep:
    """The result of one step of a walk."""

    position: str | None = None  #: where the next step begins; None: this was the last
    removed: int = 0
    oldest: float | None = None  #: the age in seconds of the oldest thing removed

    def __add__(self, other: PruneStep) -> PruneStep:
        """Both results; the position is the later one's."""
        ages = [age for age in (self.oldest, other.oldest) if age is not None]
        return PruneStep(other.position, self.removed + other.removed, max(ages, default=None))


Step = PruneStep  #: the former name


class RetentionRule(ABC):
    """What is removed after `keep` seconds; None: never, but leftovers of its deletions are."""

    name: str  #: of the key in `[retention]`
    keep: float | None

    @property
    def turn(self) -> str:
        """The row of `tabellion_retention`: rules with the same one take turns and share a position."""
        return self.name

    @abstractmethod
    async def step(self, store: Store, position: str | None, *, dry_run: bool = False) -> PruneStep:
        """Removes some of what is old enough, from `position` on (None: the start); a dry run only counts."""

    async def clear(self, store: Store, detail: str) -> bool:
        """Removes what a leftover describes; False: not yet."""
        return True

    def cutoff(self, dialect: Dialect) -> str:
        """SQL: the time before which things are old enough."""
        assert self.keep is not None  # noqa: S101 - without it no step is taken
        return sql.later(repr(-float(self.keep)), dialect)


Report = Callable[[RetentionRule, PruneStep], None]
ReportFailure = Callable[[RetentionRule, Exception], None]


async def prune_some(
    store: Store, rules: Sequence[RetentionRule], worker: str, seconds: float, failed: ReportFailure | None = None
) -> dict[str, int]:
    """Takes steps for about so long for each rule whose time and turn it is; returns what each has removed.

    `failed` is called with the error of a rule; without it, the error is raised.
    """
    removed: dict[str, int] = {}
    await clear_leftovers(store, rules)
    rules = [rule for rule in rules if rule.keep is not None]
    free = {row["name"]: row["free"] for row in await store.database.fetch(_TURNS)} if rules else {}
    for rule in rules:
        if not free.get(rule.turn, True):
            continue
        try:
            count = await _walk_on(store, rule, worker, seconds)
        except Unreachable:
            raise
        except (TabellionError, OSError) as error:
            if failed is None:
                raise
            failed(rule, error)
            if not isinstance(error, Busy):  # a lock may be gone at the next turn
                with contextlib.suppress(TabellionError):
                    await _postpone(store, rule)
            continue
        if count:
            removed[rule.name] = count
    return removed


async def _walk_on(store: Store, rule: RetentionRule, worker: str, seconds: float) -> int:
    """Continues the walk of one rule, if it is free; returns how much it has removed."""
    removed, ends = 0, time.monotonic() + seconds
    position = await _take_turn(store, rule, worker)
    if position is None:
        return 0
    try:
        while True:
            began = time.monotonic()
            step = await rule.step(store, position or None)
            failpoint("prune.pre_save")
            removed += step.removed
            if not await _save(store, rule, worker, step) or step.position is None or time.monotonic() > ends:
                return removed
            position = step.position
            await asyncio.sleep(time.monotonic() - began)  # half of the time belongs to others
    finally:
        with contextlib.suppress(TabellionError):
            await _end_turn(store, rule, worker)


async def prune_all(
    store: Store, rules: Sequence[RetentionRule], worker: str, *, dry_run: bool = False, report: Report | None = None,
    waiting: Callable[[RetentionRule], None] | None = None,
) -> None:  # fmt: skip
    """Walks every rule's whole table and reports what it has removed so far. A dry run takes no turn.

    What a walk removes can free what others keep because of it: walks are repeated until they remove nothing.
    `waiting` is called once for each rule that another process applies at the moment.
    """
    totals = [PruneStep() for _ in rules]
    for _ in range(1 if dry_run else PASSES):
        before = sum(total.removed for total in totals)
        for number, rule in enumerate(rules):
            if rule.keep is None:
                continue
            if not dry_run:
                await _wait_for_turn(store, rule, worker, waiting)
            try:
                while True:
                    step = await rule.step(store, totals[number].position, dry_run=dry_run)
                    totals[number] += step
                    if report is not None:
                        report(rule, totals[number])
                    if not dry_run:
                        failpoint("prune.pre_save")
                        await _save(store, rule, worker, step)
                    if step.position is None:
                        break
            finally:
                if not dry_run:
                    await _end_turn(store, rule, worker)
        if sum(total.removed for total in totals) == before:
            break
    if not dry_run:
        await clear_leftovers(store, rules)


async def _wait_for_turn(
    store: Store, rule: RetentionRule, worker: str, waiting: Callable[[RetentionRule], None] | None
) -> None:
    is_first = True
    while await _take_turn(store, rule, worker, now=True) is None:
        if is_first and waiting is not None:
            waiting(rule)
        is_first = False
        await asyncio.sleep(WAIT)


# -- turns -----------------------------------------------------------------------------------------------------------


_IS_IDLE = f"(r.busy_until IS NULL OR r.busy_until < {NOW})"
_IS_FREE = f"({_IS_IDLE} AND (r.due_at IS NULL OR r.due_at <= {NOW}))"
_TURNS = f"SELECT r.name, {_IS_FREE} AS free FROM tabellion_retention AS r"


async def _take_turn(store: Store, rule: RetentionRule, worker: str, *, now: bool = False) -> str | None:
    """The position at which to continue, empty for the start; None: it is another's turn, or not yet time.

    With `now` the walk starts over, whenever the last one was.
    """
    until = sql.later(repr(TURN), store.dialect)
    start = ", position = NULL, removed = 0" if now else ""
    rows = await store.database.fetch(
        f"""INSERT INTO tabellion_retention AS r (name, worker, busy_until) VALUES ($1, $2, {until})
ON CONFLICT (name) DO UPDATE SET worker = excluded.worker, busy_until = excluded.busy_until, due_at = NULL{start}
WHERE {_IS_IDLE if now else _IS_FREE} RETURNING position""",
        rule.turn,
        worker,
    )
    return (rows[0]["position"] or "") if rows else None


async def _save(store: Store, rule: RetentionRule, worker: str, step: PruneStep) -> bool:
    """Writes how far the walk has come; False: the turn has ended meanwhile."""
    next_at = "NULL"
    if step.position is None and rule.keep is not None:
        next_at = sql.later(repr(min(max(rule.keep / WALKS, SHORTEST), LONGEST)), store.dialect)
    rows = await store.database.fetch(
        f"""UPDATE tabellion_retention SET position = $3, removed = removed + $4, due_at = {next_at},
  busy_until = {sql.later(repr(TURN), store.dialect)} WHERE name = $1 AND worker = $2 RETURNING name""",
        rule.turn, worker, step.position, step.removed,
    )  # fmt: skip
    return bool(rows)


async def _end_turn(store: Store, rule: RetentionRule, worker: str) -> None:
    await store.database.fetch(
        "UPDATE tabellion_retention SET busy_until = NULL WHERE name = $1 AND worker = $2", rule.turn, worker
    )


async def _postpone(store: Store, rule: RetentionRule) -> None:
    """Lets a rule that failed rest: what it lacks (a right, a bucket) will not be there in seconds."""
    await store.database.fetch(
        f"""UPDATE tabellion_retention SET due_at = {sql.later(repr(AGAIN), store.dialect)}
WHERE name = $1 AND busy_until IS NULL""",
        rule.turn,
    )


# -- what is left outside the database ---------------------------------------------------------------------------------


def leave(rule: str, detail: str, dialect: Dialect) -> tuple[str, str, dict[str, Any]]:
    """The id of a new leftover, and the statement with its values that records it, for the transaction that deletes
    the rows. Whoever deleted them removes it at once, and calls `forget`."""
    leftover = new_id()
    text = f"""INSERT INTO tabellion_leftovers (id, rule, detail, due_at)
VALUES (:leftover_id, :leftover_rule, :leftover_detail, {sql.later(repr(LEFT), dialect)})"""
    return leftover, text, {"leftover_id": leftover, "leftover_rule": rule, "leftover_detail": detail}


async def forget(store: Store, leftovers: Sequence[str]) -> None:
    """Deletes the records of leftovers that have been removed."""
    if leftovers:
        marks = ", ".join(f"${number}" for number in range(1, len(leftovers) + 1))
        await store.database.fetch(f"DELETE FROM tabellion_leftovers WHERE id IN ({marks})", *leftovers)


async def clear_leftovers(store: Store, rules: Sequence[RetentionRule]) -> int:
    """Removes what deletions of these rules left behind when they were interrupted; returns how many."""
    by_name = {rule.name: rule for rule in rules}
    found = await store.database.fetch(
        f"SELECT id, rule FROM tabellion_leftovers WHERE due_at <= {NOW} ORDER BY due_at LIMIT {LEFTOVERS}"
    )
    cleared = []
    for leftover in found:
        rule = by_name.get(leftover["rule"])
        if rule is None:
            continue  # of a pipeline that does not run here
        taken = await store.database.fetch(
            f"""UPDATE tabellion_leftovers SET due_at = {sql.later(repr(AGAIN), store.dialect)}
WHERE id = $1 AND due_at <= {NOW} RETURNING detail""",
            leftover["id"],
        )
        try:
            if taken and await rule.clear(store, taken[0]["detail"]):
                cleared.append(leftover["id"])
        except AWAY:
            raise
        except (TabellionError, OSError):
            continue  # a disk or bucket that does not answer now: tried again
    await forget(store, cleared)
    return len(cleared)
