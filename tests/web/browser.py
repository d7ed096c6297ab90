"""A browser without a screen: a session's cookie, and the CSRF token that its pages send."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import httpx2

from tabellion.accounts import sessions, users
from tabellion.accounts.sessions import Ticket
from tabellion.engine.store import Store
from tabellion.web import csrf
from tests.web.live import Live


class Browser:
    """A user signed in to a running application."""

    def __init__(self, web: Live, ticket: Ticket) -> None:
        self.web, self.ticket = web, ticket
        self.token = csrf.token(ticket.secret)

    @property
    def cookie(self) -> dict[str, str]:
        """The cookie sent with every request."""
        return {"Cookie": f"tabellion={self.ticket}"}

    def ask(self, method: str, path: str, headers: Mapping[str, str] | None = None, **options: Any) -> httpx2.Response:
        """Send a request as one of our pages does; a header given as "" is left out."""
        sent = {"Origin": self.web.url, "Sec-Fetch-Site": "same-origin", "X-CSRF-Token": self.token}
        sent = {**self.cookie, **sent, **(headers or {})}
        return self.web.ask(
            method, path, key=None, headers={name: value for name, value in sent.items() if value}, **options
        )

    def get(self, path: str, **options: Any) -> httpx2.Response:
        """Send a GET request."""
        return self.ask("GET", path, **options)


def signed_in(web: Live, role: str, environment: str = "", name: str = "", opened_by: str = "password") -> Browser:
    """Return a browser signed in as a user with this role, created if needed."""
    place = environment or next(iter(web.urls))

    async def work(store: Store) -> Ticket:
        user = await users.find_by_name(store, name or role) or await users.add(store, name or role, role)
        return await sessions.begin(store, place, user.id, opened_by)

    return Browser(web, web.store(place, work))
