"""CSRF protection: rejects changes that come from other sites, or without the token that only our pages have."""

from __future__ import annotations

import hashlib
import hmac
import secrets

from starlette.requests import Request
from starlette.responses import Response

from tabellion.messages import Message
from tabellion.web import cookies
from tabellion.web.problems import Problem

HEADER = "x-csrf-token"
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})  #: methods that change nothing


def token(secret: str) -> str:
    """The token of a cookie's secret; derived from it, so that nothing needs to be stored."""
    return hmac.new(secret.encode(), b"csrf", hashlib.sha256).hexdigest()


def check(request: Request, secret: str) -> None:
    """Rejects a request that changes something and was not sent by one of our pages."""
    if request.method in SAFE:
        return
    site = request.headers.get("sec-fetch-site")
    if site is not None and site != "same-origin":
        raise _build_problem(Message("problem.other_site"))
    origin = request.headers.get("origin")
    if origin is not None and origin.lower() != cookies.origin(request):
        raise _build_problem(Message("problem.other_origin"))
    sent = request.headers.get(HEADER, "")
    if not secret or not hmac.compare_digest(sent.encode(), token(secret).encode()):
        raise _build_problem(Message("problem.csrf_token"))


def visit(request: Request) -> str:
    """The secret of a browser that is not signed in: from its cookie, else a new one."""
    return cookies.value(request, cookies.VISIT) or secrets.token_hex(16)


def remember(request: Request, response: Response, secret: str) -> None:
    """Sets the cookie, if the browser does not have it."""
    if cookies.value(request, cookies.VISIT) != secret:
        cookies.put(request, response, cookies.VISIT, secret)


def check_visit(request: Request) -> None:
    """The same check for browsers that are not signed in: another site must not sign them in."""
    check(request, cookies.value(request, cookies.VISIT))


def _build_problem(why: str) -> Problem:
    return Problem(403, "csrf_failed", why, fix=Message("fix.reload"))
