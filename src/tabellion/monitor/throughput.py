"""How much was settled, when: minutes, hours and days of every queue, kept up to date by asking for the newest only."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tabellion.engine import register, sql
from tabellion.engine.store import Store

SLOT, MINUTE, HOUR, DAY = 5, 60, 3600, 86_400
LATE = 20.0  #: seconds after which nothing more is committed with an earlier time: no statement may take longer
RECENT = 180  #: seconds of which single slots are kept
MINUTES, HOURS, DAYS = 60, 24, 30  #: how far back each series goes
PATIENCE = 0.4  #: seconds that one look may spend on the past; the rest of it comes with the next looks

FAILED = ("failed", "quarantined", "parked")
RETRIED = ("retried", "crashed")


@dataclass(slots=True)
class Tally:
    """What was settled in some stretch of time."""

    done: int = 0
    failed: int = 0
    retried: int = 0  #: ended in an error, and will be tried again
    cost: float = 0.0

    def __iadd__(self, other: Tally) -> Tally:
        self.done += other.done
        self.failed += other.failed
        self.retried += other.retried
        self.cost += other.cost
        return self

    @property
    def error_rate(self) -> float | None:
        """The share that ended in an error; None where nothing was tried."""
        tried = self.done + self.failed + self.retried
        return (self.failed + self.retried) / tried if tried else None


Span = dict[int, dict[str, Tally]]
Series = list[dict[str, Tally]]


class Throughput:
    """The tallies of one database. Settled attempts never change, so that what is old enough is asked for once."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.now = 0.0  #: the database's time at the last look
        self._edge: int | None = None  #: everything before it is final, and added to the minutes, hours and days
        self._slots: Span = {}  #: those that may still change, and the last few minutes
        self._minutes: Span = {}
        self._hours: Span = {}
        self._days: Span = {}
        self._past: deque[tuple[Span, int, int, int]] = deque()  #: what is not counted yet: into where, how, from, to

    async def look(self) -> None:
        """Asks for what is new."""
        self.now = await self._store.now()
        if self._edge is None or self.now - self._edge > HOUR:
            await self._begin()
        await self._count_newest()
        await self._count_past()

    async def _begin(self) -> None:
        """The newest slots are counted now; the past is listed, nearest first, to be counted little by little."""
        edge = int((self.now - LATE) // SLOT) * SLOT
        self._slots = await self._counted(edge - RECENT, edge, SLOT)
        self._edge, self._minutes, self._hours, self._days = edge, {}, {}, {}
        self._past = deque(
            [
                (self._minutes, MINUTE, (edge // MINUTE - MINUTES) * MINUTE, edge),
                *((self._hours, HOUR, since, before) for since, before in _pieces(edge, HOUR, HOURS)),
                *((self._days, DAY, since, before) for since, before in _pieces(edge, DAY, DAYS)),
            ]
        )

    @property
    def whole(self) -> bool:
        """Whether all of the past has been counted."""
        return self._edge is not None and not self._past

    async def _count_newest(self) -> None:
        assert self._edge is not None  # noqa: S101 - begun
        found = await self._counted(self._edge, None, SLOT)
        for slot in [slot for slot in self._slots if slot * SLOT >= self._edge]:
            del self._slots[slot]
        self._slots.update(found)
        edge = int((self.now - LATE) // SLOT) * SLOT
        for slot in sorted(slot for slot in found if slot * SLOT < edge):
            for span, length in ((self._minutes, MINUTE), (self._hours, HOUR), (self._days, DAY)):
                _add(span, slot * SLOT // length, found[slot])
        self._edge = max(edge, self._edge)
        for span, length, kept in (
            (self._slots, SLOT, RECENT), (self._minutes, MINUTE, MINUTES * MINUTE),
            (self._hours, HOUR, HOURS * HOUR), (self._days, DAY, DAYS * DAY),
        ):  # fmt: skip
            for old in [one for one in span if (one + 1) * length < self.now - kept]:
                del span[old]

    async def _count_past(self) -> None:
        until = time.monotonic() + PATIENCE
        while self._past and time.monotonic() < until:
            span, length, since, before = self._past[0]
            for number, tallies in (await self._counted(since, before, length)).items():
                _add(span, number, tallies)
            self._past.popleft()

    async def _counted(self, since: int, before: int | None, length: int) -> Span:
        d = self._store.dialect
        number = f"floor({sql.epoch('settled_at', d)} / {length})"
        if d == "sqlite":
            number = f"CAST(settled_at / {length} AS INTEGER)"
        until = f"AND settled_at < {sql.moment('$2', d)}" if before is not None else ""
        rows = await self._store.database.fetch(
            f"""SELECT queue, {number} AS number, outcome, count(*) AS n, sum(cost) AS cost
FROM {register.attempts_by("settled", d)}
WHERE settled_at >= {sql.moment("$1", d)} {until} GROUP BY queue, {number}, outcome""",
            *([float(since)] if before is None else [float(since), float(before)]),
        )
        found: Span = {}
        for row in rows:
            _add(found, int(row["number"]), {row["queue"]: _tally(row)})
        return found

    # -- what it knows ------------------------------------------------------------------------------------------

    def lately(self, seconds: int) -> dict[str, Tally]:
        """Of each queue what was settled in the last so many seconds, at most RECENT, to a slot's precision."""
        first = (self.now - seconds) / SLOT
        return _together(tallies for slot, tallies in self._slots.items() if slot >= first)

    def hour(self) -> dict[str, Tally]:
        """Of each queue what was settled in the last hour, to a minute's precision."""
        return _together(self.minutes())

    def minutes(self) -> Series:
        """What each queue settled in each of the last minutes, the one that runs included."""
        return list(self._span(self._minutes, MINUTE, MINUTES))

    def hours(self) -> Series:
        """The same for the hours of a day."""
        return list(self._span(self._hours, HOUR, HOURS))

    def days(self) -> Series:
        """The same for the days of a month, as UTC has them."""
        return list(self._span(self._days, DAY, DAYS))

    def first(self, length: int, count: int) -> int:
        """When a series of so many stretches of this length begins, in seconds since 1970."""
        return (int(self.now // length) - count + 1) * length

    def _span(self, span: Span, length: int, count: int) -> Iterator[dict[str, Tally]]:
        """Each stretch with what is final and what is not yet."""
        assert self._edge is not None  # noqa: S101 - somebody has looked
        last = int(self.now // length)
        for number in range(last - count + 1, last + 1):
            tallies = _together([span.get(number, {})])
            for slot, open_ones in self._slots.items():
                if slot * SLOT >= self._edge and slot * SLOT // length == number:
                    _merge(tallies, open_ones)
            yield tallies


def _pieces(edge: int, length: int, count: int) -> Iterator[tuple[int, int]]:
    """The stretches of a series before `edge`, the nearest first."""
    before = edge
    for _ in range(count + 1):
        since = (before - 1) // length * length
        yield since, before
        before = since


def _tally(row: Mapping[str, Any]) -> Tally:
    n, outcome = int(row["n"]), row["outcome"]
    cost = float(row["cost"] or 0.0)
    return Tally(
        n if outcome == "done" else 0, n if outcome in FAILED else 0, n if outcome in RETRIED else 0, cost
    )  # fmt: skip


def _add(span: Span, number: int, tallies: Mapping[str, Tally]) -> None:
    _merge(span.setdefault(number, {}), tallies)


def _merge(into: dict[str, Tally], tallies: Mapping[str, Tally]) -> None:
    for queue, tally in tallies.items():
        mine = into.setdefault(queue, Tally())
        mine += tally
        into[queue] = mine


def _together(parts: Iterable[Mapping[str, Tally]]) -> dict[str, Tally]:
    made: dict[str, Tally] = {}
    for tallies in parts:
        _merge(made, tallies)
    return made


def line(series: Series, queue: str | None = None, without: Collection[str] = ()) -> list[Tally]:
    """One tally for each stretch: of one queue, or of all together but some."""
    made = []
    for tallies in series:
        whole = Tally()
        for name, tally in tallies.items():
            if queue in (None, name) and name not in without:
                whole += tally
        made.append(whole)
    return made
