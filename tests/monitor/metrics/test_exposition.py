"""The text formats of Prometheus, as its own parsers read them, and the limit on values of labels."""

from __future__ import annotations

from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from tabellion.monitor.metrics.exposition import OTHER, Exposition, LabelLimit
from tabellion.monitor.metrics.metric import Distribution, Metric, Sample

ROWS = Metric("tabellion_rows", "gauge", "Rows.", ("queue",))
CLAIMS = Metric("tabellion_claims_total", "counter", "Claims.", ("queue",))
SECONDS = Metric("tabellion_seconds", "histogram", "Seconds.", ("queue",))


def samples() -> list[Sample]:
    distribution = Distribution((1.0,))
    distribution.observe(0.5)
    distribution.observe(2.0)
    odd = 'a "queue"\n\\ with é'
    return [ROWS.sample(3, queue=odd), CLAIMS.sample(7, queue="b"), Sample(SECONDS, distribution, {"queue": "b"})]


def test_both_formats_have_every_sample() -> None:
    """Parsed by the parsers of the Prometheus project, with names and labels as they were."""
    for accept, parse in (("", parse_text), ("application/openmetrics-text; version=1.0.0", parse_openmetrics)):
        body, media = Exposition().write(samples(), accept)
        assert ("openmetrics" in media) == bool(accept)
        found = {
            (sample.name, *sorted(sample.labels.items())): sample.value
            for family in parse(body.decode())
            for sample in family.samples
            if not sample.name.startswith("process_")
        }
        assert found == {
            ("tabellion_rows", ("queue", 'a "queue"\n\\ with é')): 3.0,
            ("tabellion_claims_total", ("queue", "b")): 7.0,
            ("tabellion_seconds_bucket", ("le", "1.0"), ("queue", "b")): 1.0,
            ("tabellion_seconds_bucket", ("le", "+Inf"), ("queue", "b")): 2.0,
            ("tabellion_seconds_count", ("queue", "b")): 2.0,
            ("tabellion_seconds_sum", ("queue", "b")): 2.5,
        }


def test_the_process_is_measured_too() -> None:
    """Memory and processor time, unless they are not wanted."""
    assert b"process_resident_memory_bytes" in Exposition().write([])[0]
    assert Exposition(process=False).write([])[0] == b""


def test_values_beyond_the_limit_are_added_up() -> None:
    """The first ones stay what they are, in every later scrape; all others are one."""
    exposition = Exposition(2, process=False)
    first = [CLAIMS.sample(1, queue="a"), CLAIMS.sample(2, queue="b")]
    exposition.write(first)
    distributions = [Sample(SECONDS, _one(), {"queue": name}) for name in "xy"]
    later = [CLAIMS.sample(5, queue="0"), CLAIMS.sample(6, queue="1"), *first, *distributions]
    text = exposition.write(later)[0].decode()
    lines = [line for line in text.splitlines() if line.startswith("tabellion_claims")]
    assert lines == [
        f'tabellion_claims_total{{queue="{name}"}} {n}' for name, n in ((OTHER, 11.0), ("a", 1.0), ("b", 2.0))
    ]
    assert f'tabellion_seconds_count{{queue="{OTHER}"}} 2.0' in text


def _one() -> Distribution:
    distribution = Distribution((1.0,))
    distribution.observe(0.5)
    return distribution


def test_each_label_has_its_own_limit() -> None:
    """Many queues do not hide a gate."""
    limit = LabelLimit(1)
    assert [limit.limit("queue", name) for name in "aba"] == ["a", OTHER, "a"]
    assert limit.limit("gate", "b") == "b"
