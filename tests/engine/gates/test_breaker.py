"""The circuit breaker: opens after five failures in a row, waits a minute, then lets one probe call through."""

from __future__ import annotations

from typing import cast

from tabellion.engine.gates.breaker import Breaker, SavedBreaker

NOW = 1000.0


def opened() -> Breaker:
    breaker = Breaker()
    breaker.record_failure(NOW, 5, "503", 5, 60.0)
    return breaker


def test_five_failures_in_a_row_open_it() -> None:
    """The fifth failure opens it, the fourth does not."""
    breaker = Breaker()
    breaker.record_failure(NOW, 4, "503", 5, 60.0)
    assert breaker.allows(NOW + 0.2, 5) == 1
    breaker.record_failure(NOW + 0.2, 1, "503", 5, 60.0)
    assert breaker.allows(NOW + 59, 5) == 0
    assert breaker.state == "open"


def test_a_success_resets_the_failure_count() -> None:
    """Only failures in a row count."""
    breaker = Breaker()
    for second in range(10):
        breaker.record_failure(NOW + second, 1, "503", 5, 60.0)
        breaker.record_success(NOW + second + 0.1, 1, proven=False)
    assert breaker.state == "closed"
    assert breaker.allows(NOW + 10, 5) is None


def test_one_probe_is_allowed_after_a_minute() -> None:
    """The whole fleet makes one probe call; its success closes the breaker."""
    breaker = opened()
    assert breaker.allows(NOW + 61, 5) == 1
    breaker.let_through(NOW + 61, 1)
    assert breaker.allows(NOW + 62, 5) == 0
    breaker.record_success(NOW + 62, 1, proven=True)
    assert breaker.allows(NOW + 62, 5) is None


def test_a_failed_probe_opens_the_breaker_for_another_minute() -> None:
    """The breaker opens again for as long as before."""
    breaker = opened()
    breaker.let_through(NOW + 61, 1)
    breaker.record_failure(NOW + 62, 1, "503", 5, 60.0)
    assert breaker.allows(NOW + 121, 5) == 0
    assert breaker.allows(NOW + 123, 5) == 1


def test_a_probe_whose_caller_died_is_reassigned() -> None:
    """A probe without an answer is reassigned after a while, an abandoned one at once."""
    breaker = opened()
    breaker.let_through(NOW + 61, 1)
    assert breaker.allows(NOW + 61 + 151, 5) == 1
    breaker = opened()
    breaker.let_through(NOW + 61, 1)
    breaker.record_abandoned(1)
    assert breaker.allows(NOW + 62, 5) == 1


def test_after_two_failures_calls_in_flight_are_limited() -> None:
    """After two failures in a row, three calls may be in flight; a fourth waits for an answer."""
    breaker = Breaker()
    breaker.record_failure(NOW, 1, "503", 5, 60.0)
    assert breaker.allows(NOW, 5) == 0  # for a moment
    assert breaker.allows(NOW + 0.15, 5) is None
    breaker.record_failure(NOW, 1, "503", 5, 60.0)
    assert breaker.allows(NOW, 5) == 0  # for a moment: others may be under way
    assert breaker.allows(NOW + 0.2, 5) == 3
    breaker.let_through(NOW + 0.2, 3)
    assert breaker.allows(NOW + 0.2, 5) == 0
    breaker.record_failure(NOW + 0.3, 1, "503", 5, 60.0)
    assert breaker.allows(NOW + 0.3, 5) == 0
    breaker.record_success(NOW + 1, 1, proven=True)
    assert breaker.allows(NOW + 1, 5) is None


def test_answers_to_earlier_calls_do_not_reset_the_breaker() -> None:
    """The answer to a call made before the failures, or reported late, does not reset the failure count."""
    breaker = Breaker()
    breaker.record_failure(NOW, 1, "503", 5, 60.0)
    breaker.record_success(NOW - 0.1, 1, proven=False)
    assert breaker.row == 1
    breaker.record_failure(NOW + 0.1, 1, "503", 5, 60.0)
    breaker.record_success(NOW + 0.2, 1, proven=False)
    assert breaker.allows(NOW + 0.3, 5) == 3


def test_a_rejected_key_opens_the_breaker_at_once_and_longer_each_time() -> None:
    """A rejected API key stops all calls; probes become rarer while it is rejected."""
    breaker = Breaker()
    breaker.record_refusal(NOW, "the key is not valid")
    assert breaker.allows(NOW + 59, 5) == 0
    breaker.let_through(NOW + 60, breaker.allows(NOW + 60, 5) or 0)
    breaker.record_refusal(NOW + 61, "the key is not valid")
    assert breaker.allows(NOW + 61 + 119, 5) == 0
    assert breaker.allows(NOW + 61 + 121, 5) == 1
    assert breaker.reason == "the key is not valid"


def test_an_operator_may_close_the_breaker() -> None:
    """A reset clears all state."""
    breaker = opened()
    breaker.reset()
    assert breaker.allows(NOW, 5) is None


def test_the_breaker_is_saved_and_loaded() -> None:
    """Its state is made of plain values and survives saving and loading."""
    breaker = opened()
    assert Breaker.load(cast(SavedBreaker, {**breaker.as_dict(), "newer": True})) == breaker


def test_a_few_failures_among_many_successes_do_not_open_it() -> None:
    """Three failures a second among hundreds of successes delay no call; among a handful they do."""
    busy, quiet = Breaker(), Breaker()
    for third in range(30):
        at = NOW + third / 3
        for breaker, answers in ((busy, 100), (quiet, 3)):
            breaker.record_failure(at, 1, "503", 5, 60.0)
            breaker.record_success(at + 0.1, answers, proven=False)
    assert busy.allows(NOW + 10, 5) is None
    assert quiet.wary
