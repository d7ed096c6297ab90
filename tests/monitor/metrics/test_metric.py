"""Metrics, their samples and distributions."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tabellion.monitor.metrics.metric import BUCKETS, Distribution, environment_metric


@given(st.lists(st.floats(0, 1e5)))
def test_buckets_are_cumulative(values: list[float]) -> None:
    """Each counts the observations up to its bound, the last one all of them."""
    distribution = Distribution()
    for value in values:
        distribution.observe(value)
    rows = distribution.buckets()
    assert [bound for bound, _ in rows] == [*map(str, BUCKETS), "+Inf"]
    for bound, count in rows:
        assert count == sum(value <= float(bound) for value in values)
    assert distribution.total == sum(values)


def test_distributions_are_added_up() -> None:
    """Counts and sums."""
    one, other = Distribution((1.0, 2.0)), Distribution((1.0, 2.0))
    one.observe(0.5)
    other.observe(1.5)
    other.observe(9.0)
    one += other
    assert (one.counts, one.total) == ([1, 1, 1], 11.0)


def test_a_metric_of_a_database_has_its_environment() -> None:
    """As its first label; readers do not give it."""
    metric = environment_metric("shop_parcels", "gauge", "Parcels.", "carrier")
    assert metric.labels == ("environment", "carrier")
    assert metric.sample(3, carrier="post").labels == {"carrier": "post"}
