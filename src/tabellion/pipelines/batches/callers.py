"""Who may call `/process` and `/status`: the orchestrator that the protocol was written for sends no API key."""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass

from starlette.requests import Request

from tabellion.accounts.keys import Holder
from tabellion.accounts.roles import Role
from tabellion.config import LOOPBACK
from tabellion.messages import Message
from tabellion.pipelines.batches.settings import BatchSettings
from tabellion.web.auth import CHALLENGE, PROXIED, is_local
from tabellion.web.environment import ServedEnvironment
from tabellion.web.problems import Problem
from tabellion.web.throttle import address_of

#: Headers of browsers: a page of another site, whose name leads to this machine, must not send chunks for its visitor.
BROWSERS = ("origin", "sec-fetch-site")


@dataclass(frozen=True, slots=True)
class ChunkCaller:
    """Callers with the secret `batches.secret`, or with an API key of a role.

    If no secret is configured, callers on this machine and in `batches.networks` need none. Behind a proxy only those
    networks count, and only if `server.public_url` and `server.proxies` say whom to believe: a proxy on this machine
    would make every caller local. All of them reach the first environment; a key reaches its own.
    """

    role: Role
    word: str = "the secret `batches.secret`, an API key, or the address of the caller"

    async def enter(self, request: Request) -> tuple[ServedEnvironment, Holder]:
        """The environment and the caller."""
        first: ServedEnvironment = next(iter(request.app.state.auth.environments.values()))
        settings: BatchSettings = first.served["batches"].settings  # type: ignore[attr-defined]
        header = request.headers.get("authorization")
        if header is None and settings.secret is None and _is_near(request, settings.networks):
            return first, self._holder(first, "network")
        if header is not None and settings.secret is not None and _has_secret(header, settings.secret):
            return first, self._holder(first, "secret")
        if header is not None:
            environment, holder = await request.app.state.auth.enter(request, self.role)
            return environment, holder
        fix = Message("batch.fix_secret" if settings.secret is not None else "batch.fix_network")
        raise Problem(401, "auth_missing", fix=fix, headers=CHALLENGE)

    def _holder(self, environment: ServedEnvironment, how: str) -> Holder:
        return Holder(f"orchestrator-{how}", environment.name, self.role, "orchestrator", opened_by=how)


@dataclass(frozen=True, slots=True)
class AnyCaller:
    """Every caller, without a key or a session: for routes that show no data."""

    word: str = "anyone"

    async def enter(self, request: Request) -> tuple[ServedEnvironment, Holder]:
        """The first environment. Each address has its own pace: one that sends too much does not delay the others."""
        first: ServedEnvironment = next(iter(request.app.state.auth.environments.values()))
        return first, Holder(f"{self.word} at {address_of(request)}", first.name, Role.VIEWER, self.word)


@dataclass(frozen=True, slots=True)
class SignedSender(AnyCaller):
    """Whoever knows the secret of callbacks: the route itself checks the signature of the body it has read."""

    word: str = "the sender of a signed callback"


def _has_secret(header: str, secret: str) -> bool:
    scheme, _, sent = header.partition(" ")
    return scheme.lower() == "bearer" and hmac.compare_digest(sent.strip().encode(), secret.encode())


def _is_near(request: Request, networks: Sequence[str]) -> bool:
    """Whether the caller is on this machine or in one of these networks.

    A server with a public URL has a proxy, which may add no header and call this machine by its address: then only
    these networks count, and never this machine, whose address may be written into a header by anyone.
    """
    config = request.app.state.config
    if any(name in request.headers for name in BROWSERS):
        return False
    peer = request.client.host if request.client else ""
    if not config.public_url and is_local(request):
        return True
    is_proxied = any(name in request.headers for name in PROXIED)
    if is_proxied and not (config.public_url and _is_in(peer, config.proxies)):
        return False
    address = address_of(request)
    if "/" in address and not is_proxied:
        address = peer  # `address_of` widens an IPv6 address to its /64
    return not _is_in(address, LOOPBACK) and _is_in(address, networks)


def _is_in(text: str, networks: Sequence[str]) -> bool:
    """Whether an address, or a whole network, is within one of these networks."""
    try:
        address = ipaddress.ip_network(text)
    except ValueError:
        return False
    return any(
        address.version == network.version and address.subnet_of(network)  # type: ignore[arg-type]
        for network in map(ipaddress.ip_network, networks)
    )
