"""Cookies of people's browsers: what they are called, when they are kept secret on the way, where none is given."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response

from tabellion.web.problems import Problem

SESSION, VISIT = "tabellion", "tabellion-visit"
HOST = "__Host-"  #: browsers keep such a cookie to one host, to https and to the whole of it
LANGUAGE, THEME = "language", "theme"


def origin(request: Request) -> str:
    """Where this application is for browsers: as configured, else as the request itself says."""
    public: str = request.app.state.config.public_url
    if public:
        parts = urlsplit(public)
        return f"{parts.scheme}://{parts.netloc}".lower()
    return f"{request.url.scheme}://{request.headers.get('host', '')}".lower()


def is_secure(request: Request) -> bool:
    """Whether browsers come by https."""
    return origin(request).startswith("https://")


def name(request: Request, plain: str) -> str:
    """What a cookie of ours is called there."""
    return f"{HOST}{plain}" if is_secure(request) else plain


def value(request: Request, plain: str) -> str:
    """What a browser brings; nothing where a key is brought, which is then all that counts."""
    return "" if "authorization" in request.headers else request.cookies.get(name(request, plain), "")


def put(request: Request, response: Response, plain: str, text: str) -> None:
    """Gives a browser a cookie until it is closed, which no script can read and no other site can send."""
    response.set_cookie(
        name(request, plain), text, path="/", secure=is_secure(request), httponly=True, samesite="lax",
    )  # fmt: skip


def drop(request: Request, response: Response, plain: str) -> None:
    """Takes it back."""
    response.delete_cookie(
        name(request, plain), path="/", secure=is_secure(request), httponly=True, samesite="lax",
    )  # fmt: skip


def check_way(request: Request) -> None:
    """Refuses passwords and links that would cross a network in the open, unless the administrator chose so."""
    if is_secure(request) or request.app.state.config.public_url or _is_loopback(request):
        return
    raise Problem(
        403, "https_needed", "signing in over plain HTTP is possible only on the same machine",
        fix="put a TLS proxy in front and set server.public_url to its https URL",
    )  # fmt: skip


def _is_loopback(request: Request) -> bool:
    host = urlsplit(f"//{request.headers.get('host', '')}").hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
