"""Middleware around every request: its id, the security headers, and errors that nothing caught."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import re
import time
import uuid

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.types import Message as Event

from tabellion.engine.log import printable
from tabellion.errors import Busy, Full, NotMigrated, Unreachable
from tabellion.messages import Message
from tabellion.storage.blobs import BlobsUnavailable
from tabellion.storage.files import Unwritable
from tabellion.storage.lake_backend import LakeError, NoSuchBucket
from tabellion.web.limits import HEADER_BYTES
from tabellion.web.problems import Problem
from tabellion.web.request_traces import record_request

logger = logging.getLogger("tabellion.web")
REQUEST_ID = "X-Request-Id"
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
DRAINED, DRAIN_SECONDS = 4_000_000, 1.0
_SANE = re.compile(r"[A-Za-z0-9._-]{1,64}")

#: For answers that are data; pages have their own.
POLICY = "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'self'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}


class HeadersMiddleware:
    """Gives each request an id and each answer its headers; turns uncaught errors into problems."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        sent_id = next((value for name, value in scope["headers"] if name == b"x-request-id"), b"").decode("latin-1")
        request_id = sent_id if _SANE.fullmatch(sent_id) else uuid.uuid4().hex
        scope.setdefault("state", {})["request_id"] = request_id
        method = scope["method"]
        if method == "HEAD":
            scope = {**scope, "method": "GET"}  # the same answer and the same checks, without the body
        started_at, status = time.monotonic(), 0
        body = _Body(scope, receive)

        async def send_with_headers(message: Event) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                if status >= 400:
                    await body.drain()
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                headers[REQUEST_ID] = request_id
            elif method == "HEAD":
                await send({"type": "http.response.body"})
                if message.get("more_body"):
                    raise _BodyNotWanted
                return
            await send(message)

        try:
            _check_size(scope)
            await self.app(scope, body.receive, send_with_headers)
        except _BodyNotWanted:
            pass
        except Exception as error:
            problem = last_resort(error, request_id)
            if status:
                raise  # the answer has begun: all that is left is to let the server close the connection
            await problem.response(request_id)(scope, body.receive, send_with_headers)
        finally:
            seconds = time.monotonic() - started_at
            logger.info(
                "%s %s %s %.1f ms %s", method, printable(scope["path"])[:200], status, 1000 * seconds, request_id
            )
            record_request(scope, status, seconds)


class _BodyNotWanted(Exception):  # noqa: N818 - what happened
    """Ends the answer to a HEAD request before its body is produced."""


class _Body:
    """The request's body. An error sent before the body has been read could be lost when the connection is reset."""

    def __init__(self, scope: Scope, receive: Receive) -> None:
        self._receive = receive
        headers = dict(scope["headers"])
        length = headers.get(b"content-length", b"")
        self._left = int(length) if length.isdigit() else None
        # A client that sent `Expect` waits and has sent no body yet.
        self._over = b"expect" in headers or (not length and b"transfer-encoding" not in headers)

    async def receive(self) -> Event:
        """The next message; its bytes are counted."""
        message = await self._receive()
        if message["type"] == "http.request":
            if self._left is not None:
                self._left -= len(message.get("body", b""))
            self._over = self._over or not message.get("more_body", False)
        else:
            self._over = True
        return message

    async def drain(self) -> None:
        """Reads the rest of the body for a moment, so that the client can read the error."""
        if self._over or (self._left is not None and self._left > DRAINED):
            return
        count = 0
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_SECONDS):
                while not self._over and count <= DRAINED:
                    count += len((await self.receive()).get("body", b""))


def _check_size(scope: Scope) -> None:
    """Rejects headers that are too large although they arrived in one piece."""
    size = len(scope["raw_path"]) + len(scope["query_string"])
    size += sum(len(name) + len(value) + 4 for name, value in scope["headers"])
    if size > HEADER_BYTES:
        raise Problem(431, "headers_too_large", limit=HEADER_BYTES, got=size)


def last_resort(error: Exception, request_id: str) -> Problem:
    """The problem of an uncaught error; details go to the log only."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, Full | Unwritable) or (isinstance(error, OSError) and error.errno in NO_ROOM):
        logger.error("request %s: %s: %s", request_id, type(error).__name__, printable(str(error)))
        return Problem(507, "no_space", fix=Message("fix.tell_operator"))
    if isinstance(error, BlobsUnavailable) or type(error) in (LakeError, NoSuchBucket):  # others say what a file is
        logger.warning("request %s: %s: %s", request_id, type(error).__name__, printable(str(error)))
        return Problem(503, "storage_unreachable", fix=Message("fix.try_shortly"), headers={"Retry-After": "5"})
    if isinstance(error, Unreachable | Busy | NotMigrated):
        logger.warning("request %s: %s: %s", request_id, type(error).__name__, printable(str(error)))
        return Problem(503, "database_unreachable", fix=Message("fix.try_shortly"), headers={"Retry-After": "5"})
    logger.error("request %s failed", request_id, exc_info=error)
    return Problem(500, "unexpected", fix=Message("fix.request_id"))
