"""The pace of a batch: throughput and remaining time from samples, also after a retry and after a pause."""

from __future__ import annotations

from typing import Any

from tests.javascript.__main__ import ROOT
from tests.javascript.test_days import evaluate

PACE = ROOT / "src/tabellion/pipelines/batches/static/batch_pace.js"


def measure(*samples: tuple[float, int], pending: int = 100) -> dict[str, Any]:
    """Return what a pace knows after these samples: seconds, and the refs that have ended by then."""
    expression = f"""(() => {{
        const pace = new Pace();
        for (const [at, ended] of {[list(one) for one in samples]}) pace.add(at, ended);
        return {{ rate: pace.rate, current: pace.current, remaining: pace.remaining({pending}) }};
    }})()"""
    return dict(evaluate(PACE, "Pace", expression, "UTC"))


def test_nothing_is_said_before_it_is_known() -> None:
    """One sample, or two within three seconds, are not enough for a throughput."""
    assert measure((0, 0)) == {"rate": None, "current": None, "remaining": None}
    assert measure((0, 0), (2, 20)) == {"rate": None, "current": 10, "remaining": None}


def test_the_throughput_is_an_average_over_the_last_minute() -> None:
    """What was before is forgotten."""
    samples = [(float(at), min(at, 60) * 100 + max(0, at - 60)) for at in range(0, 182, 2)]
    found = measure(*samples, pending=50)
    assert found["rate"] == found["current"] == 1
    assert found["remaining"] == 50


def test_the_current_value_is_an_average_over_some_seconds() -> None:
    """Refs end in groups: their number differs from one second to the next."""
    assert measure((0, 0), (10, 500), (11, 510), (12, 510), (13, 530), (14, 530), (15, 550))["current"] == 10
    assert measure((0, 0), (20, 500))["current"] == 25


def test_a_batch_that_does_not_advance_has_no_remaining_time() -> None:
    """Not an infinite one either."""
    assert measure((0, 5), (10, 5)) == {"rate": 0, "current": 0, "remaining": None}


def test_after_a_retry_counting_starts_anew() -> None:
    """Refs that are read again have not ended: that is not a negative throughput."""
    assert measure((0, 0), (10, 100), (12, 90)) == {"rate": None, "current": None, "remaining": None}
    assert measure((0, 0), (10, 100), (12, 90), (17, 100))["rate"] == 2
