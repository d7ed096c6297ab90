"""Throughput of every queue by minute, hour and day, from the counts that settlements write."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from tabellion.engine import counts
from tabellion.engine.counts import DAY, HOUR, MINUTE, SECONDS
from tabellion.engine.store import Store

RECENT = 180  #: seconds for which counts of a few seconds each are kept
MINUTES, HOURS, DAYS = 60, 24, 30  #: how far back each series goes


@dataclass(slots=True)
class Tally:
    """The jobs settled in a period."""

    done: int = 0
    failed: int = 0
    retried: int = 0  #: ended in an error, and will be retried
    cost: float = 0.0

    def __iadd__(self, other: Tally) -> Tally:
        self.done += other.done
        self.failed += other.failed
        self.retried += other.retried
        self.cost += other.cost
        return self

    @property
    def error_rate(self) -> float | None:
        """The share of attempts that ended in an error; None without attempts."""
        tried = self.done + self.failed + self.retried
        return (self.failed + self.retried) / tried if tried else None


Span = dict[int, dict[str, Tally]]
Series = list[dict[str, Tally]]


class Throughput:
    """The tallies of one database, as last read."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.now = 0.0  #: the database's time when it was last read
        self._recent: Span = {}
        self._minutes: Span = {}
        self._hours: Span = {}
        self._days: Span = {}

    async def look(self) -> None:
        """Reads the counts."""
        now = await self._store.now()
        rows = await counts.read(self._store.database, (now // DAY - DAYS + 1) * DAY)
        self.now = now
        spans = [
            (self._recent, SECONDS, -(-RECENT // SECONDS) + 1), (self._minutes, MINUTE, MINUTES),
            (self._hours, HOUR, HOURS), (self._days, DAY, DAYS),
        ]  # fmt: skip
        for span, _, _ in spans:
            span.clear()
        for row in rows:
            tally = Tally(int(row["done"]), int(row["failed"]), int(row["retried"]), float(row["cost"]))
            for span, length, count in spans:
                # An hourly count cannot be split into minutes.
                if row["period"] <= length and row["at"] >= self.first(length, count):
                    _merge(span.setdefault(row["at"] // length, {}), {row["queue"]: tally})

    def recent_tallies(self, seconds: int) -> dict[str, Tally]:
        """The tally of each queue for the last `seconds`, at most RECENT, to a precision of a few seconds."""
        first = (self.now - seconds) / SECONDS
        return _merge_all(tallies for number, tallies in self._recent.items() if number >= first)

    def hour(self) -> dict[str, Tally]:
        """The tally of each queue for the last hour, to a precision of a minute."""
        return _merge_all(self.minutes())

    def minutes(self) -> Series:
        """The tallies of each of the last minutes, including the current one."""
        return list(self._span(self._minutes, MINUTE, MINUTES))

    def hours(self) -> Series:
        """The tallies of each hour of the last day."""
        return list(self._span(self._hours, HOUR, HOURS))

    def days(self) -> Series:
        """The tallies of each of the last thirty days (UTC)."""
        return list(self._span(self._days, DAY, DAYS))

    def first(self, length: int, count: int) -> int:
        """The start of a series of `count` periods of this length, in seconds since 1970."""
        return (int(self.now // length) - count + 1) * length

    def _span(self, span: Span, length: int, count: int) -> Iterator[dict[str, Tally]]:
        last = int(self.now // length)
        for number in range(last - count + 1, last + 1):
            yield span.get(number, {})


def _merge(into: dict[str, Tally], tallies: Mapping[str, Tally]) -> None:
    for queue, tally in tallies.items():
        sum_so_far = into.setdefault(queue, Tally())
        sum_so_far += tally
        into[queue] = sum_so_far


def _merge_all(parts: Iterable[Mapping[str, Tally]]) -> dict[str, Tally]:
    total: dict[str, Tally] = {}
    for tallies in parts:
        _merge(total, tallies)
    return total


def line(series: Series, queue: str | None = None, without: Collection[str] = ()) -> list[Tally]:
    """One tally per period: of one queue, or the sum of all except `without`."""
    sums = []
    for tallies in series:
        period_sum = Tally()
        for name, tally in tallies.items():
            if queue in (None, name) and name not in without:
                period_sum += tally
        sums.append(period_sum)
    return sums
