"""The guard against SSRF: decides which URLs given by users may be requested, and at which IP addresses.

    target = await vet_url("https://example.com/invoice.pdf", Rules.of(["10.0.0.0/8"]))

A URL is parsed once, by a strict parser. Every address of its host must be allowed, and the client connects to one of
those addresses without resolving the name again (see `fetching`).
"""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from tabellion.errors import ConfigurationError, TabellionError
from tabellion.messages import Message

IpAddress = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network
Resolver = Callable[[str, int], Awaitable[list[str]]]

LONGEST = 2048
PORTS = frozenset({80, 443, 8080, 8443})
STANDARD = {"http": 80, "https": 443}
RESOLVE_SECONDS = 5.0
MOST_ADDRESSES = 32

#: Metadata servers give credentials to any caller: blocked even if an allow-list opens the network around them.
METADATA = tuple(
    ip_network(text)
    for text in (
        "169.254.169.254/32", "169.254.170.2/32", "169.254.170.23/32", "100.100.100.200/32", "168.63.129.16/32",
        "192.0.0.192/32", "fd00:ec2::254/128", "fd00:ec2::23/128", "fd20:ce::254/128",
    )
)  # fmt: skip
METADATA_NAMES = frozenset(
    {"metadata.google.internal", "metadata.goog", "metadata", "instance-data", "instance-data.ec2.internal"}
)
#: In some Python versions we support, `is_global` is true for some of these.
NEVER = tuple(
    ip_network(text)
    for text in (
        "0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.88.99.0/24", "198.18.0.0/15", "224.0.0.0/4", "240.0.0.0/4",
        "::/96", "::ffff:0:0/96", "::ffff:0:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48", "100::/64", "2001::/23",
        "2001:db8::/32", "2002::/16", "3fff::/20", "5f00::/16", "fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8",
    )
)  # fmt: skip
UNICAST = ip_network("2000::/3")  #: contains every public IPv6 address

_VISIBLE = re.compile(r"[!-~]+")
_URL = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<authority>[^/?#]*)(?P<rest>[^#]*)(?:#.*)?")
_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?")
_PORT = re.compile(r"[1-9][0-9]{0,4}")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_UNKNOWN_NAME = (socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME))


class Blocked(TabellionError):  # noqa: N818 - a verdict
    """This URL may not be requested; `reason` says why, and never whether anything answers there."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(Message("net.blocked", detail=reason))


class HostUnreachable(TabellionError):  # noqa: N818 - what happened
    """The host of a URL cannot be reached now. Unlike a blocked URL, a later try may succeed."""

    def __init__(self, host: str, reason: Message) -> None:
        self.host, self.reason = host, reason
        super().__init__(Message("net.unreachable", host=host, detail=reason))


@dataclass(frozen=True, slots=True)
class ResolvedUrl:
    """A URL split into its parts, with the addresses of its host."""

    scheme: str
    host: str
    port: int
    rest: str  #: path and query, beginning with a slash
    addresses: tuple[IpAddress, ...] = ()

    @property
    def authority(self) -> str:
        """Host and port, as in the Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == STANDARD[self.scheme] else f"{host}:{self.port}"

    @property
    def url(self) -> str:
        """The URL as it was parsed."""
        return f"{self.scheme}://{self.authority}{self.rest}"


async def system_addresses(host: str, port: int) -> list[str]:
    """The IPv4 and IPv6 addresses of a name, from the system's resolver."""
    entries = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in entries))


@dataclass(frozen=True, slots=True)
class Rules:
    """What is allowed besides public addresses: the operator's own networks, on any port, single services, and hosts by
    name."""

    allow: tuple[Network, ...] = ()
    ports: frozenset[int] = PORTS
    services: frozenset[tuple[IpAddress, int]] = frozenset()  #: addresses that are allowed on one port only
    hosts: frozenset[tuple[str, int]] = frozenset()  #: names that are allowed on one port, whatever their addresses
    resolver: Resolver = system_addresses

    @classmethod
    def of(cls, allow: Iterable[str]) -> Rules:
        """Rules with these networks, written as CIDR."""
        networks = []
        for text in allow:
            try:
                networks.append(ip_network(str(text)))  # a number would be an address too
            except ValueError:
                raise ConfigurationError(f"{text!r} is not a network; write it like 10.0.0.0/8 or fd00::/8") from None
        return cls(tuple(networks))

    def allows(self, address: IpAddress, port: int | None = None) -> bool:
        """Whether this address is in an allowed network, or allowed on this port."""
        return (address, port) in self.services or _within(address, self.allow)

    def check(self, address: IpAddress, port: int | None = None) -> None:
        """Raises Blocked for an address that is not public, unless its network, or this port on it, is allowed."""
        if _within(address, METADATA):
            raise Blocked(Message("net.metadata_server"))
        if getattr(address, "scope_id", None):
            raise Blocked(Message("net.not_public"))
        if self.allows(address, port):
            return
        public = address.is_global and not address.is_multicast and not _within(address, NEVER)
        if not public or (address.version == 6 and address not in UNICAST):
            raise Blocked(Message("net.not_public"))


def parse(url: str) -> ResolvedUrl:
    """The parts of a URL; raises Blocked for one that parsers could understand differently."""
    if not isinstance(url, str) or not url:
        raise Blocked(Message("net.empty"))
    if len(url) > LONGEST:
        raise Blocked(Message("net.too_long", n=LONGEST))
    if not _VISIBLE.fullmatch(url):
        raise Blocked(Message("net.characters"))
    if "\\" in url:
        raise Blocked(Message("net.backslash"))
    match = _URL.fullmatch(url)
    if match is None:
        raise Blocked(Message("net.not_absolute"))
    scheme = match["scheme"].lower()
    if scheme not in STANDARD:
        raise Blocked(Message("net.scheme"))
    host, port = _authority(match["authority"], scheme)
    rest = match["rest"]
    return ResolvedUrl(scheme, host, port, rest if rest.startswith("/") else f"/{rest}")


def _authority(text: str, scheme: str) -> tuple[str, int]:
    if "@" in text:
        raise Blocked(Message("net.credentials"))
    if text.startswith("["):
        host, bracket, after = text[1:].partition("]")
        if not bracket or (after and not after.startswith(":")):
            raise Blocked(Message("net.host_invalid"))
        port_text, colon = after[1:], bool(after)
        try:
            if "%" in host:
                raise ValueError
            host = str(IPv6Address(host))
        except ValueError:
            raise Blocked(Message("net.host_invalid")) from None
    else:
        host, separator, port_text = text.partition(":")
        host, colon = _name(host), bool(separator)
    if not colon:
        return host, STANDARD[scheme]
    if not _PORT.fullmatch(port_text) or int(port_text) > 65535:
        raise Blocked(Message("net.port_invalid"))
    return host, int(port_text)


def _name(text: str) -> str:
    host = text.lower().removesuffix(".")
    labels = host.split(".")
    if not host or len(host) > 253 or not all(_LABEL.fullmatch(label) for label in labels):
        raise Blocked(Message("net.host_invalid"))
    if _NUMBER.fullmatch(labels[-1]):
        # 2130706433, 0x7f000001, 0177.0.0.1 and 127.1 are all 127.0.0.1 to the system's resolver.
        try:
            return str(IPv4Address(host))
        except ValueError:
            raise Blocked(Message("net.obfuscated_number")) from None
    if host in METADATA_NAMES:
        raise Blocked(Message("net.metadata_server"))
    return host


async def vet_url(url: str, rules: Rules | None = None) -> ResolvedUrl:
    """The URL with the addresses of its host; raises Blocked if any of them is not allowed, and HostUnreachable if
    its name cannot be resolved now."""
    effective = rules or Rules()
    target = parse(url)
    addresses = tuple([ip_address(text) for text in await _resolve_host(target, effective)])
    if (target.host, target.port) in effective.hosts:
        named = ((address, target.port) for address in addresses)
        effective = replace(effective, services=effective.services | frozenset(named))
    for address in addresses:
        effective.check(address, target.port)
    if target.port not in effective.ports and not all(effective.allows(address, target.port) for address in addresses):
        raise Blocked(Message("net.port_closed", ports=[str(port) for port in sorted(effective.ports)]))
    return replace(target, addresses=addresses)


async def _resolve_host(target: ResolvedUrl, rules: Rules) -> list[str]:
    try:
        return [str(ip_address(target.host))]
    except ValueError:
        pass
    try:
        async with asyncio.timeout(RESOLVE_SECONDS):
            addresses = await rules.resolver(target.host, target.port)
    except UnicodeError:
        raise Blocked(Message("net.host_invalid")) from None
    except socket.gaierror as error:
        # Also a name that does not exist: the server that says so may be wrong for a moment, or an hour.
        exists = error.errno not in _UNKNOWN_NAME
        raise HostUnreachable(target.host, Message("net.dns_failed" if exists else "net.no_such_host")) from None
    except (OSError, TimeoutError):
        raise HostUnreachable(target.host, Message("net.dns_failed")) from None
    if not addresses:
        raise HostUnreachable(target.host, Message("net.no_such_host"))
    if len(addresses) > MOST_ADDRESSES:
        raise Blocked(Message("net.too_many_addresses", n=MOST_ADDRESSES))
    return addresses


def is_metadata(host: str) -> bool:
    """Whether a host, by name or address, is a metadata server."""
    try:
        return _within(ip_address(host), METADATA)
    except ValueError:
        return host.lower().removesuffix(".") in METADATA_NAMES


def is_loopback(host: str) -> bool:
    """Whether a host, by address or as `localhost`, is this machine."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _within(address: IpAddress, networks: Iterable[Network]) -> bool:
    return any(address.version == network.version and address in network for network in networks)
