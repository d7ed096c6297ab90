"""Authentication: from a key or a session to an environment and a role. With a key, cookies are ignored."""

from __future__ import annotations

import asyncio
import hashlib
import time
from dataclasses import dataclass, field

from starlette.requests import Request

from tabellion.accounts import keys, sessions
from tabellion.accounts.keys import Holder
from tabellion.accounts.roles import Role
from tabellion.accounts.sessions import Ticket
from tabellion.engine.store import Store
from tabellion.errors import StoreError, Unreachable
from tabellion.messages import Message
from tabellion.net.guard import is_loopback
from tabellion.web import cookies, csrf
from tabellion.web.environment import ServedEnvironment
from tabellion.web.problems import Problem

CHALLENGE = {"WWW-Authenticate": 'Bearer realm="tabellion"'}
FIX = Message("fix.send_key")
LOCAL = "loopback"  #: the name of a caller on this machine without a key
ANSWER = 2.0  #: seconds that a database has to check the key of a scrape
REMEMBERED = 3600.0  #: seconds for which a key that reads metrics is known while the database does not answer
MOST_SCRAPERS = 100
PROXIED = ("forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-real-ip")  #: headers that proxies add


@dataclass(slots=True)
class Authenticator:
    """Authenticates requests by key or session, each for the environment of its key or session."""

    environments: dict[str, ServedEnvironment]
    local_metrics: bool = False  #: whether metrics need no key on this machine
    _scrapers: dict[str, tuple[float, ServedEnvironment, Holder]] = field(default_factory=dict)
    _noted: dict[str, float] = field(default_factory=dict)

    async def enter(self, request: Request, needed: Role) -> tuple[ServedEnvironment, Holder]:
        """The environment and the caller; raises a Problem if they are not authenticated or their role is too low."""
        header = request.headers.get("authorization")
        if needed is Role.METRICS:
            return await self._scraper(request, header)
        environment, holder = await (self._session(request) if header is None else self._key(header))
        if holder.role < needed:
            code = "problem.role_of_key" if holder.user is None else "problem.role_of_user"
            raise Problem(
                403, "role_required", Message(code, needed=needed.word, role=holder.role.word),
                fix=Message("fix.key_role", role=needed.word) if holder.user is None else Message("fix.ask_admin"),
                role=needed.word,
            )  # fmt: skip
        return environment, holder

    async def _scraper(self, request: Request, header: str | None) -> tuple[ServedEnvironment, Holder]:
        """The caller of the metrics: their answer must not depend on the database, which may be what they report."""
        if header is None and self.local_metrics and is_local(request):
            environment = next(iter(self.environments.values()))
            return environment, Holder(LOCAL, environment.name, Role.METRICS, LOCAL)
        secret = hashlib.sha256((header or "").encode()).hexdigest()
        try:
            async with asyncio.timeout(ANSWER):
                environment, holder = await (self._session(request) if header is None else self._key(header))
        except (StoreError, TimeoutError):
            known = self._scrapers.get(secret)
            if known is None or time.monotonic() - known[0] > REMEMBERED:
                raise Unreachable("the database does not answer, so that the key cannot be checked") from None
            return known[1], known[2]
        except Problem:
            self._scrapers.pop(secret, None)
            raise
        if header is not None:
            self._scrapers[secret] = (time.monotonic(), environment, holder)
            while len(self._scrapers) > MOST_SCRAPERS:
                del self._scrapers[next(iter(self._scrapers))]
        return environment, holder

    async def visitor(self, request: Request) -> tuple[ServedEnvironment, Holder] | None:
        """The caller of an open route; None if they are not authenticated."""
        try:
            return await self.enter(request, Role.VIEWER)
        except Problem:
            return None

    def ticket(self, request: Request) -> Ticket | None:
        """The session ticket in the cookie; None without one, or if a key was sent."""
        return sessions.parse(cookies.value(request, cookies.SESSION))

    async def _key(self, header: str) -> tuple[ServedEnvironment, Holder]:
        if not header:
            raise Problem(401, "auth_missing", fix=FIX, headers=CHALLENGE)
        scheme, _, text = header.partition(" ")
        key = keys.parse(text.strip()) if scheme.lower() == "bearer" else None
        environment = self.environments.get(key.environment) if key else None
        holder = await keys.holder(environment.store, key) if key and environment else None
        if environment is None or holder is None:
            raise Problem(401, "auth_invalid", fix=FIX, headers=CHALLENGE)
        await self._note(environment.store, holder)
        return environment, holder

    async def _session(self, request: Request) -> tuple[ServedEnvironment, Holder]:
        if not cookies.value(request, cookies.SESSION):
            raise Problem(401, "auth_missing", fix=FIX, headers=CHALLENGE)
        ticket = self.ticket(request)
        environment = self.environments.get(ticket.environment) if ticket else None
        holder = await sessions.holder(environment.store, ticket) if ticket and environment else None
        if environment is None or holder is None or ticket is None:
            raise Problem(401, "session_ended", fix=Message("fix.sign_in_again"), headers=CHALLENGE)
        csrf.check(request, ticket.secret)
        return environment, holder

    async def _note(self, store: Store, holder: Holder) -> None:
        now = time.monotonic()
        if now - self._noted.get(holder.id, -keys.NOTED) >= keys.NOTED:
            self._noted[holder.id] = now
            await keys.note(store, holder.id)


def is_local(request: Request) -> bool:
    """Whether a program on this machine asks for itself: not a proxy for others, nor a page of another site."""
    if any(name in request.headers for name in PROXIED):
        return False
    return is_loopback(request.client.host if request.client else "") and is_loopback(request.url.hostname or "")
