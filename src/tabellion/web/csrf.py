"""Requests that a browser was tricked into: told by where they come from, and by a token only our pages know."""

from __future__ import annotations

import hashlib
import hmac
import secrets

from starlette.requests import Request
from starlette.responses import Response

from tabellion.web import cookies
from tabellion.web.problems import Problem

HEADER = "x-csrf-token"
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})  #: methods that change nothing


def token(secret: str) -> str:
    """What goes with a cookie's secret: made from it, so that nothing needs to be kept."""
    return hmac.new(secret.encode(), b"csrf", hashlib.sha256).hexdigest()


def check(request: Request, secret: str) -> None:
    """Refuses a request that changes something and was not sent by a page of ours."""
    if request.method in SAFE:
        return
    site = request.headers.get("sec-fetch-site")
    if site is not None and site != "same-origin":
        raise _build_problem("it was sent from a page of another site")
    came = request.headers.get("origin")
    if came is not None and came.lower() != cookies.origin(request):
        raise _build_problem("it was sent from a page of another origin")
    given = request.headers.get(HEADER, "")
    if not secret or not hmac.compare_digest(given.encode(), token(secret).encode()):
        raise _build_problem("its X-CSRF-Token does not match the session")


def visit(request: Request) -> str:
    """The secret of a browser that is not signed in: the one it has, else a new one."""
    return cookies.value(request, cookies.VISIT) or secrets.token_hex(16)


def remember(request: Request, response: Response, secret: str) -> None:
    """Gives it to the browser, where it has none."""
    if cookies.value(request, cookies.VISIT) != secret:
        cookies.put(request, response, cookies.VISIT, secret)


def check_visit(request: Request) -> None:
    """The same check for who is not signed in: nobody is to be signed in by another site."""
    check(request, cookies.value(request, cookies.VISIT))


def _build_problem(why: str) -> Problem:
    return Problem(403, "csrf_failed", why, fix="reload the page; programs must use an API key")
