"""Pacing: each host has its own turns, and callers share them."""

from __future__ import annotations

import asyncio

from tabellion.net import pacing
from tabellion.net.pacing import HostPacing


def test_callers_of_one_host_get_turns_and_other_hosts_do_not_wait() -> None:
    """The first goes at once, each later one a pause after the one before."""
    one = HostPacing()
    assert [one.reserve("a.example", 2.0, 100.0) for _ in range(3)] == [0.0, 2.0, 4.0]
    assert one.reserve("b.example", 2.0, 100.0) == 0.0
    assert one.reserve("a.example", 2.0, 105.0) == 1.0
    assert one.reserve("a.example", 2.0, 500.0) == 0.0


def test_hosts_whose_pause_is_over_are_forgotten() -> None:
    """The list of hosts does not grow for ever."""
    one = HostPacing()
    for number in range(pacing.MOST_HOSTS):
        one.reserve(f"{number}.example", 1.0, 0.0)
    one.reserve("next.example", 1.0, 10.0)
    assert len(one._free_at) == 1


def test_a_wait_without_a_pause_ends_at_once() -> None:
    """And reserves nothing."""
    one = HostPacing()
    asyncio.run(one.wait("a.example", 0.0))
    assert not one._free_at
