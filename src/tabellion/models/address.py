"""Where models are: no server that gives credentials away, and no key in clear words over the internet."""

from __future__ import annotations

import socket
from ipaddress import ip_address
from urllib.parse import urlsplit

from tabellion.errors import ConfigurationError
from tabellion.net.guard import Rules, is_metadata

#: Names that are of one's own network, wherever they lead.
PRIVATE = ("localhost", "local", "internal", "lan", "home", "test", "svc", "cluster")


def check(name: str, base_url: str, rules: Rules | None = None) -> None:
    """Refuses a metadata server, and plain http to a public address unless `server.allow` opens its network."""
    split = urlsplit(base_url)
    host = (split.hostname or "").removesuffix(".")
    found = _addresses(host, split.port or 80) if split.scheme == "http" else []
    if any(is_metadata(one) for one in (host, *found)):
        raise ConfigurationError(f"{name}: the base URL points to a server that gives out credentials of this machine")
    bounds = rules or Rules()
    public = [one for one in map(ip_address, found) if one.is_global and not bounds.allows(one)]
    if public:
        raise ConfigurationError(
            f"{name}: plain http to {host} would send the key and every document unencrypted: use https, or allow "
            "its network with server.allow"
        )


def _addresses(host: str, port: int) -> list[str]:
    """Where a host is; nothing where its name says that it is one's own, or where nobody knows it."""
    try:
        return [str(ip_address(host))]
    except ValueError:
        pass
    if "." not in host or host.rpartition(".")[2] in PRIVATE:
        return []
    try:
        return [str(entry[4][0]).partition("%")[0] for entry in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
    except (OSError, UnicodeError):
        return []  # calls will say so
