"""Sign-in attempts: a few are free, each further one waits longer, and concurrent ones all count."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace

import pytest
from starlette.requests import Request

from tabellion.config import Config
from tabellion.engine.store import Store
from tabellion.web import throttle
from tabellion.web.problems import Problem
from tabellion.web.throttle import Measure

ONE = Measure(2, 8)
MANY = Measure(100, 900)


class Clock:
    """A time that a test sets."""

    def __init__(self) -> None:
        self.now = 1_700_000_000.0

    def __call__(self) -> float:
        """Return the current time."""
        return self.now


def counted(account: str = "account:a") -> tuple[tuple[str, Measure], ...]:
    return ("address:1", MANY), (account, ONE)


def run(url: str, work: Callable[[Store, Clock], object]) -> None:
    clock = Clock()

    async def go() -> None:
        async with Store(url, clock=clock, durable=False) as store:
            await work(store, clock)  # type: ignore[misc]

    asyncio.run(go())


async def refused(store: Store, subjects: tuple[tuple[str, Measure], ...]) -> int:
    """Return for how many seconds an attempt is refused."""
    with pytest.raises(Problem) as caught:
        await throttle.admit(store, subjects)
    assert (caught.value.status, caught.value.code) == (429, "too_many_tries")
    assert caught.value.headers["Retry-After"] == str(caught.value.more["wait"])
    return int(caught.value.more["wait"])


def test_each_excess_attempt_doubles_the_wait(url: str) -> None:
    """Up to the longest; a refused attempt does not count."""

    async def work(store: Store, clock: Clock) -> None:
        await throttle.admit(store, counted())
        for wait in (1, 2, 4, 8, 8):
            await throttle.admit(store, counted())
            assert await refused(store, counted()) == wait
            assert await refused(store, counted()) == wait
            clock.now += wait

    run(url, work)


def test_success_resets_the_account(url: str) -> None:
    """It also takes one off the address: many successful sign-ins from one office are not an attack."""

    async def work(store: Store, clock: Clock) -> None:
        for _ in range(2):
            await throttle.admit(store, counted())
        await throttle.forgive(store, counted())
        await throttle.admit(store, counted())
        rows = await store.database.fetch("SELECT subject, tries FROM tabellion_sign_in_tries ORDER BY subject")
        assert [(row["subject"], row["tries"]) for row in rows] == [("account:a", 1), ("address:1", 2)]

    run(url, work)


def test_attempts_expire(url: str) -> None:
    """An hour later counting restarts; a day later the row is deleted with the next success."""

    async def work(store: Store, clock: Clock) -> None:
        for _ in range(2):
            await throttle.admit(store, counted())
        clock.now += throttle.FORGOTTEN + 1
        for _ in range(2):
            await throttle.admit(store, counted())
        await refused(store, counted())
        clock.now += throttle.KEPT + 1
        await throttle.admit(store, counted("account:b"))
        await throttle.forgive(store, counted("account:b"))
        rows = await store.database.fetch("SELECT subject FROM tabellion_sign_in_tries")
        assert [row["subject"] for row in rows] == ["address:1"]

    run(url, work)


def test_concurrent_attempts_are_counted_one_by_one(url: str) -> None:
    """Of fifty, as many pass as if they came one after the other."""

    async def work(store: Store, clock: Clock) -> None:
        tries = [throttle.admit(store, counted()) for _ in range(50)]
        ended = await asyncio.gather(*tries, return_exceptions=True)
        assert len([one for one in ended if one is None]) == ONE.free

    run(url, work)


@pytest.mark.parametrize(
    ("forwarded", "address"),
    [
        ("203.0.113.7", "203.0.113.7"), ("203.0.113.7:4711", "203.0.113.7"), ("2001:db8:1:2:3::9", "2001:db8:1:2::/64"),
        ("[2001:db8:1:2:3::9]:4711", "2001:db8:1:2::/64"), ("[2001:db8:1:2:3::9]", "2001:db8:1:2::/64"),
        ("198.51.100.1:1, 203.0.113.7:4711, 127.0.0.2:80", "203.0.113.7"), ("proxy:80", "unknown"), ("[", "unknown"),
        ("1:2:3", "unknown"),
    ],
)  # fmt: skip
def test_a_forwarded_address_may_have_a_port(forwarded: str, address: str) -> None:
    """Some proxies add it; the client is the same on every port."""
    config = Config(public_url="https://docs.example.com")
    scope = {
        "type": "http", "headers": [(b"x-forwarded-for", forwarded.encode())], "client": ("127.0.0.1", 5000),
        "app": SimpleNamespace(state=SimpleNamespace(config=config)),
    }  # fmt: skip
    assert throttle.address_of(Request(scope)) == address
