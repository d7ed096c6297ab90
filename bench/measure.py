"""What every benchmark script shares: a result, a median, a percentile, and JSON lines."""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import TextIO

ENQUEUE = "enqueue"
DRAIN = "drain"
PICKUP_P50 = "pickup p50"
PICKUP_P99 = "pickup p99"
CLAIM_10K = "claim, 10k finished"
CLAIM_1M = "claim, 1M finished"
SLEEPERS_1000 = "1,000 sleepers"
SLEEPERS_1000_RSS = "1,000 sleepers, memory"
SLEEPERS_5000 = "5,000 sleepers"
DRAIN_4_WORKERS = "drain, 4 workers"
DRAIN_32_WORKERS = "drain, 32 workers"

OURS_POSTGRES = "tabellion/postgres"
OURS_SQLITE = "tabellion/sqlite"

ROWS_PER_SECOND = "rows/s"
JOBS_PER_SECOND = "jobs/s"
MILLISECONDS = "ms"
PERCENT_OF_IDEAL = "% ideal"
MEGABYTES = "MB"


@dataclass(frozen=True)
class Result:
    """One number: whose it is, what was measured, and the relevant circumstances."""

    system: str
    what: str
    value: float
    unit: str
    detail: str = ""


def median_of(runs: int, fn: Callable[[], float]) -> float:
    """Return the median of several calls, so that one disturbed run does not decide."""
    return statistics.median(fn() for _ in range(runs))


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the value below which that share of the sorted values is, interpolated between neighbours."""
    if not values:
        raise ValueError("a percentile of nothing")
    ordered = sorted(values)
    position = (len(ordered) - 1) * percent / 100
    below = int(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)


def latency(system: str, seconds: Sequence[float], detail: str = "") -> list[Result]:
    """Return the pick-up p50 and p99 of one system, in milliseconds."""
    detail = f"{len(seconds)} samples{', ' * bool(detail)}{detail}"
    return [
        Result(system, what, percentile(seconds, percent) * 1000, MILLISECONDS, detail)
        for what, percent in ((PICKUP_P50, 50), (PICKUP_P99, 99))
    ]


def medians(results: Iterable[Result]) -> list[Result]:
    """Return one result per system and measurement, its value the median, its detail that of the median run."""
    groups: dict[tuple[str, str], list[Result]] = {}
    for result in results:
        groups.setdefault((result.system, result.what), []).append(result)
    chosen = []
    for (system, what), group in groups.items():
        value = statistics.median(result.value for result in group)
        nearest = min(group, key=lambda result: abs(result.value - value))
        chosen.append(Result(system, what, value, nearest.unit, nearest.detail))
    return chosen


def to_line(result: Result) -> str:
    """Return the result as one line of JSON."""
    return json.dumps(asdict(result), ensure_ascii=False)


def from_line(line: str) -> Result | None:
    """Return the result in a line of JSON; None for any other line, since peers also print."""
    try:
        return Result(**json.loads(line))
    except (TypeError, ValueError):
        return None


def emit(results: Iterable[Result], *, as_json: bool, to: TextIO | None = None) -> None:
    """Print each result, as JSON lines for compare.py or as text for a person."""
    stream = to or sys.stdout
    for result in results:
        text = f"{result.system:24} {result.what:28} {result.value:12,.2f} {result.unit:8} {result.detail}"
        print(to_line(result) if as_json else text.rstrip(), file=stream, flush=True)
