"""The speed targets of the engine's issue, and whether a set of results meets them."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from dataclasses import dataclass

from bench.measure import (
    CLAIM_1M,
    CLAIM_10K,
    DRAIN,
    DRAIN_4_WORKERS,
    DRAIN_32_WORKERS,
    ENQUEUE,
    OURS_POSTGRES,
    OURS_SQLITE,
    PICKUP_P50,
    SLEEPERS_1000,
    SLEEPERS_1000_RSS,
    SLEEPERS_5000,
    Result,
)

Figure = tuple[str, str]


@dataclass(frozen=True)
class Target:
    """One of our figures, alone or as a multiple of another, and its required and desired bounds."""

    name: str
    ours: Figure
    against: Figure | None = None
    required: float | None = None
    aim: float | None = None
    at_most: bool = False
    unit: str = "x"


@dataclass(frozen=True)
class Verdict:
    """A target beside the measured value, which is None when a figure is missing."""

    target: Target
    ours: float | None
    against: float | None
    value: float | None

    @property
    def required(self) -> str:
        """ok, short, or a dash where nothing is required or known."""
        return self._mark(self.target.required)

    @property
    def aim(self) -> str:
        """ok, short, or a dash where there is no aim or no figure."""
        return self._mark(self.target.aim)

    def _mark(self, bound: float | None) -> str:
        if bound is None or self.value is None:
            return "-"
        keeps = operator.le if self.target.at_most else operator.ge
        return "ok" if keeps(self.value, bound) else "short"


PG_DRAIN: Figure = (OURS_POSTGRES, DRAIN)
LITE_DRAIN: Figure = (OURS_SQLITE, DRAIN)
PG_PICKUP: Figure = (OURS_POSTGRES, PICKUP_P50)
PG_ENQUEUE: Figure = (OURS_POSTGRES, ENQUEUE)

TARGETS = (
    Target("PostgreSQL drain / PgQueuer, its best batch", PG_DRAIN, ("pgqueuer", DRAIN), 1.15, 1.3),
    Target("PostgreSQL drain / Dramatiq", PG_DRAIN, ("dramatiq+redis", DRAIN), 4),
    Target("PostgreSQL drain / Celery + Redis", PG_DRAIN, ("celery+redis", DRAIN), 12),
    Target("PostgreSQL drain / procrastinate", PG_DRAIN, ("procrastinate", DRAIN), 20),
    Target("PostgreSQL drain / DBOS", PG_DRAIN, ("dbos/postgres", DRAIN), 20),
    Target("PostgreSQL drain / bare loop", PG_DRAIN, ("bare/postgres", DRAIN), aim=0.5),
    Target("SQLite drain / DBOS on SQLite", LITE_DRAIN, ("dbos/sqlite", DRAIN), 20),
    Target("SQLite drain / Huey on SQLite", LITE_DRAIN, ("huey/sqlite", DRAIN), 5),
    Target("SQLite drain / bare batch loop", LITE_DRAIN, ("bare/sqlite", DRAIN), aim=0.3),
    Target("enqueue", PG_ENQUEUE, required=100_000, unit="rows/s"),
    Target("enqueue / COPY", PG_ENQUEUE, ("bare/postgres", f"{ENQUEUE} COPY"), aim=1.0),
    Target("pick-up p50 / bare NOTIFY", PG_PICKUP, ("bare/notify", PICKUP_P50), 2.0, at_most=True),
    Target("pick-up p50 / Celery + Redis", PG_PICKUP, ("celery+redis", PICKUP_P50), aim=1.0, at_most=True),
    Target("pick-up p50, SQLite", (OURS_SQLITE, PICKUP_P50), required=10, at_most=True, unit="ms"),
    Target(
        "claim, 1M finished / 10k, PostgreSQL",
        (OURS_POSTGRES, CLAIM_1M),
        (OURS_POSTGRES, CLAIM_10K),
        1.1,
        1.0,
        True,
    ),
    Target("claim, 1M finished / 10k, SQLite", (OURS_SQLITE, CLAIM_1M), (OURS_SQLITE, CLAIM_10K), 1.1, 1.0, True),
    Target("1,000 jobs of 3 s, one process", (OURS_POSTGRES, SLEEPERS_1000), required=98, unit="%"),
    Target("their memory", (OURS_POSTGRES, SLEEPERS_1000_RSS), required=150, at_most=True, unit="MB"),
    Target("5,000 jobs of 3 s, one process", (OURS_POSTGRES, SLEEPERS_5000), aim=95, unit="%"),
    Target("32 worker processes / 4", (OURS_POSTGRES, DRAIN_32_WORKERS), (OURS_POSTGRES, DRAIN_4_WORKERS), 1.0),
)


def judge(results: Iterable[Result]) -> list[Verdict]:
    """Return every target with its figures from the results."""
    values = {(result.system, result.what): result.value for result in results}
    verdicts = []
    for target in TARGETS:
        ours = values.get(target.ours)
        against = values.get(target.against) if target.against else 1.0
        value = ours / against if ours is not None and against else None
        verdicts.append(Verdict(target, ours, against if target.against else None, value))
    return verdicts
