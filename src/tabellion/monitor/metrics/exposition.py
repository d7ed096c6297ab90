"""Writes samples in the text formats of Prometheus; the number of values that a label may have is limited."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from tabellion import extras
from tabellion.monitor.metrics.metric import Distribution, Labels, Metric, Sample

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.core import Metric as Family

MOST_VALUES = 200  #: of one label; further ones are counted together
OTHER = "other"


def require_client() -> None:
    """Raises an error with the command that installs prometheus_client, if it is missing."""
    with extras.explain_missing("metrics"):
        import prometheus_client  # noqa: F401


class LabelLimit:
    """The values of each label that were seen first; all others are called `other`."""

    def __init__(self, most: int = MOST_VALUES) -> None:
        self._most = most
        self._known: dict[str, set[str]] = {}

    def limit(self, label: str, value: str) -> str:
        """The value, or `other`."""
        known = self._known.setdefault(label, set())
        if value not in known:
            if len(known) >= self._most:
                return OTHER
            known.add(value)
        return value


class Exposition:
    """Writes the samples of one process."""

    def __init__(self, most_values: int = MOST_VALUES, *, process: bool = True) -> None:
        self._labels = LabelLimit(most_values)
        require_client()
        from prometheus_client import ProcessCollector

        self._process = ProcessCollector(registry=None) if process else None

    def write(self, samples: Iterable[Sample], accept: str = "") -> tuple[bytes, str]:
        """The samples and those of the process, in the format that the `Accept` header asks for; its media type."""
        from prometheus_client.exposition import choose_encoder

        encode, media = choose_encoder(accept)
        return encode(self.registry(lambda: samples)), media

    def registry(self, read: Callable[[], Iterable[Sample]]) -> CollectorRegistry:
        """A registry of prometheus_client that reads samples whenever it is asked."""
        from prometheus_client import CollectorRegistry

        registry = CollectorRegistry()
        registry.register(_Collector(self, read))
        return registry

    def families(self, samples: Iterable[Sample]) -> Iterator[Family]:
        """The samples by metric; those whose labels became the same are added up."""
        by_metric: dict[Metric, dict[Labels, float | Distribution]] = {}
        for sample in samples:
            values = by_metric.setdefault(sample.metric, {})
            labels = tuple(self._labels.limit(label, sample.labels[label]) for label in sample.metric.labels)
            if labels not in values:
                values[labels] = sample.value
            else:
                values[labels] = _add(values[labels], sample.value)
        for metric, values in by_metric.items():
            yield _family(metric, values)
        if self._process is not None:
            yield from self._process.collect()


class _Collector:
    def __init__(self, exposition: Exposition, read: Callable[[], Iterable[Sample]]) -> None:
        self._exposition, self._read = exposition, read

    def collect(self) -> Iterator[Family]:
        return self._exposition.families(self._read())


def _add(one: float | Distribution, other: float | Distribution) -> float | Distribution:
    if isinstance(one, Distribution) and isinstance(other, Distribution):
        total = Distribution(one.bounds)
        total += one
        total += other
        return total
    assert not isinstance(one, Distribution)  # noqa: S101 - a metric has one kind
    assert not isinstance(other, Distribution)  # noqa: S101
    return one + other


def _family(metric: Metric, values: dict[Labels, float | Distribution]) -> Family:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

    if metric.kind == "histogram":
        histogram = HistogramMetricFamily(metric.name, metric.help, labels=metric.labels)
        for labels, value in values.items():
            assert isinstance(value, Distribution)  # noqa: S101 - of a histogram
            histogram.add_metric(labels, value.buckets(), value.total)
        return histogram
    kind = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
    family = kind(metric.name, metric.help, labels=metric.labels)
    for labels, value in values.items():
        family.add_metric(labels, value)  # type: ignore[arg-type]
    return family
