"""Metrics: their declarations, and samples of them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from tabellion.engine.store import Store
from tabellion.monitor.answer_cache import AnswerCache

MetricKind = Literal["gauge", "counter", "histogram"]
Labels = tuple[str, ...]  #: the values of a metric's labels, in the order of its declaration

#: Seconds; handlers take from milliseconds to an hour.
BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0)


@dataclass(frozen=True, slots=True)
class Metric:
    """The declaration of a metric: its name, what it means, and its labels, whose values are from closed sets."""

    name: str
    kind: MetricKind
    help: str
    labels: tuple[str, ...] = ()

    def sample(self, value: float, **labels: str) -> Sample:
        """A sample of this metric; every label but `environment` must be given."""
        return Sample(self, float(value), labels)


class Distribution:
    """A histogram: how many observations were at most so large, and their sum."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float] = BUCKETS) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        """Adds an observation."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def __iadd__(self, other: Distribution) -> Distribution:
        self.counts = [mine + theirs for mine, theirs in zip(self.counts, other.counts, strict=True)]
        self.total += other.total
        return self

    def buckets(self) -> list[tuple[str, float]]:
        """The cumulative counts by upper bound, as Prometheus has them."""
        cumulative, rows = 0, []
        for bound, count in zip((*self.bounds, float("inf")), tuple(self.counts), strict=True):
            cumulative += count
            rows.append(("+Inf" if bound == float("inf") else str(bound), float(cumulative)))
        return rows


@dataclass(frozen=True, slots=True)
class Sample:
    """A value of a metric for some values of its labels."""

    metric: Metric
    value: float | Distribution
    labels: Mapping[str, str] = field(default_factory=dict)


#: Reads samples from one database; it uses the cache to limit its queries. `environment` is added to each sample.
ReadSamples = Callable[[Store, AnswerCache], Awaitable[Iterable[Sample]]]


@dataclass(frozen=True, slots=True)
class MetricSource:
    """The metrics that a pipeline adds, and how they are read."""

    metrics: tuple[Metric, ...]
    read: ReadSamples


def environment_metric(name: str, kind: MetricKind, help: str, *labels: str) -> Metric:  # noqa: A002 - Prometheus's word
    """A metric of one environment's database."""
    return Metric(name, kind, help, ("environment", *labels))
