"""Pauses of hosts: as long as they ask for, longer each time otherwise, and one for all of their images."""

from __future__ import annotations

import pytest

from tabellion.pipelines.batches.host_pauses import LONGEST, MOST_ASKED, SHORTEST, HostPauses

URL, SAME, OTHER = "https://a.example/1", "https://A.example:443/2", "https://a.example:8443/1"


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, which a test sets."""
    now = [1000.0]
    monkeypatch.setattr("tabellion.pipelines.batches.host_pauses.time.monotonic", lambda: now[0])
    return now


def test_a_host_is_left_alone_as_long_as_it_asks(clock: list[float]) -> None:
    """With all of its images, and no other host; what is spread is at most half more."""
    pauses = HostPauses()
    assert pauses.remaining(URL) == 0
    assert 40 <= pauses.add_refusal(URL, 40.0) <= 60
    assert 40 <= pauses.remaining(SAME) <= 60
    assert pauses.remaining(OTHER) == pauses.remaining("nowhere") == 0
    clock[0] += 40
    assert pauses.remaining(SAME) == 0


@pytest.mark.usefixtures("clock")
def test_a_host_cannot_ask_for_years() -> None:
    """Some send a Unix time where a number of seconds belongs."""
    pauses = HostPauses()
    assert pauses.add_refusal(URL, 179_509_742.0) <= MOST_ASKED * 1.5
    assert MOST_ASKED <= pauses.remaining(URL) <= MOST_ASKED * 1.5


def test_pauses_grow_with_refusals_in_a_row(clock: list[float]) -> None:
    """Requests that were under way together are refused together: that is one refusal. An answer ends the row."""
    pauses, expected = HostPauses(), SHORTEST
    for _ in range(10):
        for _ in range(3):
            assert expected <= pauses.add_refusal(URL, None) <= expected * 1.5
        clock[0] += LONGEST * 2
        expected = min(expected * 2, LONGEST)
    pauses.add_success(SAME)
    assert pauses.add_refusal(URL, None) <= SHORTEST * 1.5


def test_no_pause_is_shorter_than_a_second(clock: list[float]) -> None:
    """A host that asks for none would be asked in a loop."""
    assert HostPauses().add_refusal(URL, 0.0) >= 1
