"""Cookies: their names and attributes, and the check that they are not sent over plain HTTP."""

from __future__ import annotations

from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response

from tabellion.messages import Message
from tabellion.net.guard import is_loopback
from tabellion.web.problems import Problem

SESSION, VISIT = "tabellion", "tabellion-visit"
HOST = "__Host-"  #: browsers accept such a cookie only for one host, over https and for all paths
LANGUAGE, THEME = "language", "theme"


def origin(request: Request) -> str:
    """The origin of this application for browsers: as configured, else from the request."""
    public: str = request.app.state.config.public_url
    if public:
        parts = urlsplit(public)
        return f"{parts.scheme}://{parts.netloc}".lower()
    return f"{request.url.scheme}://{request.headers.get('host', '')}".lower()


def is_secure(request: Request) -> bool:
    """Whether browsers use https."""
    return origin(request).startswith("https://")


def name(request: Request, base: str) -> str:
    """The full name of one of our cookies."""
    return f"{HOST}{base}" if is_secure(request) else base


def value(request: Request, base: str) -> str:
    """The value of a cookie; empty if an API key was sent, which then is all that counts."""
    return "" if "authorization" in request.headers else request.cookies.get(name(request, base), "")


def put(request: Request, response: Response, base: str, text: str) -> None:
    """Sets a session cookie that scripts cannot read and other sites cannot send."""
    response.set_cookie(
        name(request, base), text, path="/", secure=is_secure(request), httponly=True, samesite="lax",
    )  # fmt: skip


def drop(request: Request, response: Response, base: str) -> None:
    """Deletes a cookie."""
    response.delete_cookie(
        name(request, base), path="/", secure=is_secure(request), httponly=True, samesite="lax",
    )  # fmt: skip


def check_way(request: Request) -> None:
    """Rejects sign-in over plain HTTP from other machines, unless the administrator configured a URL."""
    if is_secure(request) or request.app.state.config.public_url or _is_at_loopback(request):
        return
    raise Problem(
        403, "https_needed", Message("problem.plain_http"),
        fix=Message("fix.tls_proxy"),
    )  # fmt: skip


def _is_at_loopback(request: Request) -> bool:
    return is_loopback(urlsplit(f"//{request.headers.get('host', '')}").hostname or "")
