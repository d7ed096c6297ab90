"""The quota: exact about who passes and who does not."""

from __future__ import annotations

from random import Random

import pytest

from tabellion.models.fake.bucket import Bucket


@pytest.mark.parametrize("rate", [0.5, 1, 3, 20, 60, 333.3, 1500])
def test_whoever_sends_evenly_at_the_rate_is_never_refused(rate: float) -> None:
    """Ten minutes at exactly the rate, each request up to 0.4 s late: none is refused."""
    bucket, dice = Bucket(rate, now=0.0), Random(1)
    arrivals = sorted(number / rate + dice.uniform(0, min(0.4, 0.9 / rate)) for number in range(int(rate * 600)))
    assert not any(bucket.take(at) for at in arrivals)


@pytest.mark.parametrize("rate", [3, 20, 500])
def test_whoever_sends_more_gets_the_rate_and_a_second_of_burst(rate: float) -> None:
    """At three times the rate, a minute lets the burst and sixty seconds' worth pass, and no more."""
    bucket = Bucket(rate, now=0.0)
    passed = sum(not bucket.take(number / (3 * rate)) for number in range(int(rate * 180)))
    assert passed == pytest.approx(61 * rate, abs=1.5)


def test_a_refusal_says_when_and_costs_nothing() -> None:
    """The seconds it gives are those until the next request passes, however many are refused meanwhile."""
    bucket = Bucket(10, now=0.0)
    assert [bucket.take(0.0) for _ in range(10)] == [0.0] * 10
    for _ in range(50):
        assert bucket.take(0.04) == pytest.approx(0.06)
    assert bucket.take(0.1) == 0.0
