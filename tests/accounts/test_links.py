"""Sign-in links: valid once, for 15 minutes, and not for disabled users."""

from __future__ import annotations

import asyncio

import pytest

from tabellion.accounts import links, users
from tabellion.accounts.sessions import Ticket
from tabellion.accounts.users import User
from tabellion.engine import sql
from tabellion.engine.store import Store
from tests.workers import ask


def make(url: str, name: str, role: str | None = None) -> Ticket | None:
    return ask(url, lambda store: links.make(store, "prod", name, role))


def use(url: str, ticket: Ticket | None) -> User | None:
    assert ticket is not None
    return ask(url, lambda store: links.use(store, ticket))


def test_the_first_link_creates_its_user(url: str) -> None:
    """At its use, not before; a second link finds that user; neither works twice."""
    ticket = make(url, users.FIRST, "admin")
    assert ask(url, users.list_users) == []
    first = use(url, ticket)
    assert first is not None
    assert (first.name, first.role.word, first.has_password) == ("admin", "admin", False)
    assert use(url, ticket) is None
    again = use(url, make(url, "admin", "admin"))
    assert again is not None
    assert again.id == first.id


def test_of_concurrent_uses_one_succeeds(url: str) -> None:
    """Whichever was first."""

    async def go(store: Store) -> list[User | None]:
        ticket = await links.make(store, "prod", "admin", "admin")
        assert ticket is not None
        return list(await asyncio.gather(*(links.use(store, ticket) for _ in range(8))))

    assert len([one for one in ask(url, go) if one is not None]) == 1


def test_a_link_expires(url: str) -> None:
    """After its time it signs nobody in, and creating the next link deletes it."""
    ticket = make(url, "admin", "admin")

    async def expire(store: Store) -> None:
        await store.database.fetch(f"UPDATE tabellion_sign_in_links SET expires_at = {sql.NOW}")

    ask(url, expire)
    assert use(url, ticket) is None
    make(url, "admin", "admin")
    assert len(ask(url, lambda store: store.database.fetch("SELECT hash FROM tabellion_sign_in_links"))) == 1


def test_unknown_and_disabled_users_get_no_link(url: str) -> None:
    """No link is created, and an existing one no longer works."""
    assert make(url, "anna") is None
    anna = ask(url, lambda store: users.add(store, "anna", "viewer"))
    ticket = make(url, "anna")
    ask(url, lambda store: users.change(store, anna.id, disabled=True))
    assert use(url, ticket) is None
    assert make(url, "anna") is None
    assert make(url, "anna", "admin") is None


def test_a_link_of_another_environment_or_secret_is_invalid(url: str) -> None:
    """And the valid one is not used up by it."""
    ticket = make(url, "admin", "admin")
    assert ticket is not None
    assert use(url, Ticket("dev", ticket.secret)) is None
    assert use(url, Ticket("prod", "0" * 64)) is None
    assert use(url, ticket) is not None


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://127.0.0.1:8080", "http://127.0.0.1:8080"),
        ("http://0.0.0.0:8080", "http://127.0.0.1:8080"),
        ("http://[::]:8080", "http://[::1]:8080"),
        ("https://docs.example.com", "https://docs.example.com"),
    ],
)
def test_a_link_has_its_secret_after_the_hash(url: str, shown: str) -> None:
    """Browsers do not send that part to servers."""
    ticket = Ticket("prod", "ab" * 32)
    assert links.address(url, ticket) == f"{shown}/enter#prod:{'ab' * 32}"
