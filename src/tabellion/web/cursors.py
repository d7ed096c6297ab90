"""Cursors: the signed start of the next page, valid only for the query they came from."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Mapping
from typing import Any

from starlette.requests import Request

from tabellion.accounts.shared_secrets import get_secret
from tabellion.engine.values import json_text
from tabellion.messages import Message
from tabellion.web.environment import ServedEnvironment
from tabellion.web.problems import Problem

NAME = "cursors"  #: of the secret
LONGEST = 400
_MARK = 16  #: bytes of the signature


async def signing_key(request: Request) -> bytes:
    """The key of the request's environment, which all machines that serve it share."""
    environment: ServedEnvironment = request.state.environment
    if environment.cursor_key is None:
        environment.cursor_key = await get_secret(environment.store, NAME)
    return environment.cursor_key


def make_cursor(key: bytes, environment: str, question: Mapping[str, Any], place: str) -> str:
    """The cursor of a page that begins at `place`."""
    raw = place.encode()
    return base64.urlsafe_b64encode(_signature(key, environment, question, raw) + raw).decode().rstrip("=")


def place(key: bytes, environment: str, question: Mapping[str, Any], cursor: str) -> str:
    """Where the page of this cursor begins; raises a Problem if it is not ours or belongs to another query."""
    try:
        if len(cursor) > LONGEST or not cursor.isascii():
            raise ValueError
        signed = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        signature, raw = signed[:_MARK], signed[_MARK:]
        if hmac.compare_digest(signature, _signature(key, environment, question, raw)):
            return raw.decode()
    except (ValueError, binascii.Error):
        pass
    raise Problem(
        422, "cursor_invalid", field="cursor", expected=Message("expected.cursor"), fix=Message("fix.no_cursor")
    )  # fmt: skip


def _signature(key: bytes, environment: str, question: Mapping[str, Any], raw: bytes) -> bytes:
    query = json_text([environment, sorted(question.items(), key=lambda pair: pair[0])]).encode()
    return hmac.digest(key, hashlib.sha256(query).digest() + raw, "sha256")[:_MARK]
