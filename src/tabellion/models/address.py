"""Checks the base URL of a model: not a metadata server, and no key over plain http to the internet."""

from __future__ import annotations

import socket
from ipaddress import ip_address
from urllib.parse import urlsplit

from tabellion.errors import ConfigurationError
from tabellion.net.guard import Rules, is_metadata

#: Domains of one's own network, whatever they resolve to.
PRIVATE = ("localhost", "local", "internal", "lan", "home", "test", "svc", "cluster")


def check(name: str, base_url: str, rules: Rules | None = None) -> None:
    """Rejects a metadata server, and plain http to a public address unless `server.allow` allows its network."""
    split = urlsplit(base_url)
    host = (split.hostname or "").removesuffix(".")
    addresses = _addresses(host, split.port or 80) if split.scheme == "http" else []
    if any(is_metadata(address) for address in (host, *addresses)):
        raise ConfigurationError(f"{name}: the base URL points to a server that gives out credentials of this machine")
    bounds = rules or Rules()
    public = [address for address in map(ip_address, addresses) if address.is_global and not bounds.allows(address)]
    if public:
        raise ConfigurationError(
            f"{name}: plain http to {host} would send the key and every document unencrypted: use https, or allow "
            "its network with server.allow"
        )


def _addresses(host: str, port: int) -> list[str]:
    """The addresses of a host; none where its name is one's own, or cannot be resolved."""
    try:
        return [str(ip_address(host))]
    except ValueError:
        pass
    if "." not in host or host.rpartition(".")[2] in PRIVATE:
        return []
    try:
        return [str(entry[4][0]).partition("%")[0] for entry in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
    except (OSError, UnicodeError):
        return []  # calls will report it
