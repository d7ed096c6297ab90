"""Quotas: exact about which requests pass."""

from __future__ import annotations

from random import Random

import pytest

from tabellion.errors import ConfigurationError
from tabellion.models.fake.quota import FixedWindow, Quota, SlidingWindow, TokenBucket, quota_of, window_of


@pytest.mark.parametrize("rate", [0.5, 1, 3, 20, 60, 333.3, 1500])
def test_even_requests_at_the_rate_are_never_refused(rate: float) -> None:
    """Ten minutes at exactly the rate, each request up to 0.4 s late: none is refused."""
    bucket, dice = TokenBucket(rate, now=0.0), Random(1)
    arrivals = sorted(number / rate + dice.uniform(0, min(0.4, 0.9 / rate)) for number in range(int(rate * 600)))
    assert not any(bucket.take(at) for at in arrivals)


@pytest.mark.parametrize("seconds", [1, 10, 60])
@pytest.mark.parametrize("rate", [3, 20, 500])
def test_faster_requests_get_the_rate_and_the_burst(rate: float, seconds: float) -> None:
    """At three times the rate, three minutes let the stored burst and 180 seconds' worth pass, and no more."""
    bucket = TokenBucket(rate, 0.0, seconds)
    passed = sum(not bucket.take(number / (3 * rate)) for number in range(int(rate * 540)))
    assert passed == pytest.approx((180 + seconds) * rate, abs=1.5)


def test_a_refusal_gives_the_wait_and_costs_nothing() -> None:
    """The seconds are those until the next request passes, however many are refused meanwhile."""
    bucket = TokenBucket(10, now=0.0)
    assert [bucket.take(0.0) for _ in range(10)] == [0.0] * 10
    for _ in range(50):
        assert bucket.take(0.04) == pytest.approx(0.06)
    assert bucket.take(0.1) == 0.0


def test_a_fixed_window_starts_at_a_multiple_of_its_length() -> None:
    """200 in each 20 s: late requests leave the next window untouched; the hint is the window's end."""
    quota = FixedWindow(10, 20)
    assert not any(quota.take(1019.0 + number / 1000) for number in range(200))
    assert quota.take(1019.5) == pytest.approx(0.5)
    assert not any(quota.take(1020.0 + number / 1000) for number in range(200))
    assert quota.take(1021.0) == pytest.approx(19.0)


def test_a_sliding_window_counts_the_seconds_before_each_request() -> None:
    """A request passes when fewer than the quota passed in the window before it; the hint is when one leaves it."""
    quota = SlidingWindow(1, 10)
    assert not any(quota.take(float(number)) for number in range(10))
    assert quota.take(9.5) == pytest.approx(0.5)
    assert quota.take(10.0) == 0.0
    assert quota.take(10.5) == pytest.approx(0.5)


@pytest.mark.parametrize("quota", [FixedWindow(10, 20), SlidingWindow(10, 20)])
def test_a_quota_changes_within_a_window(quota: Quota) -> None:
    """Requests that passed in the current window still count."""
    passed = sum(not quota.take(1000.0 + number / 100) for number in range(100))
    quota.rate = 4
    assert passed == 100
    assert quota.take(1002.0) > 0
    quota.rate = 20
    assert sum(not quota.take(1003.0 + number / 1000) for number in range(500)) == 300


def test_a_lowered_sliding_window_hints_when_enough_have_left() -> None:
    """The hint is not when the oldest leaves: more of them must."""
    quota = SlidingWindow(1, 10)
    assert not any(quota.take(float(number)) for number in range(10))
    quota.rate = 0.5
    assert quota.take(9.5) == pytest.approx(5 + 10 - 9.5)


@pytest.mark.parametrize("text", ["fixed:60", "sliding:0.5", "bucket:10", "fixed"])
def test_a_window_is_written_as_a_kind_and_its_length(text: str) -> None:
    """Kind and seconds; one second by default."""
    kind, _, seconds = text.partition(":")
    assert window_of(text) == (kind, float(seconds or 1))
    assert quota_of(5, window_of(text), 0.0).rate == 5


@pytest.mark.parametrize("text", ["", "weekly:3", "fixed:0", "fixed:soon", "sliding:-1"])
def test_an_invalid_window_is_rejected(text: str) -> None:
    """The error says how windows are written."""
    with pytest.raises(ConfigurationError, match="fixed:60"):
        window_of(text)
