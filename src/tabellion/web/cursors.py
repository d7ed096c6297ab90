"""Cursors: the signed start of the next page, valid only for the query they came from."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tabellion.engine.values import json_text
from tabellion.messages import Message
from tabellion.web.problems import Problem

FILE = "cursor.key"
LONGEST = 400
_MARK = 16  #: bytes of the signature


def installation_key(folder: Path) -> bytes:
    """The signing key of this data folder; created on first use, readable only by its owner."""
    path = folder / FILE
    folder.mkdir(parents=True, exist_ok=True)
    temporary = folder / f".{FILE}.{secrets.token_hex(6)}"
    if not path.exists():
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            os.write(handle, secrets.token_bytes(32))
            os.fsync(handle)
        finally:
            os.close(handle)
        try:
            os.link(temporary, path)  # the first process wins, and none reads half a key
        except FileExistsError:
            pass
        finally:
            temporary.unlink()
    return path.read_bytes()


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
        422, "cursor_invalid", field="cursor", expected="the `next` value of the previous page, with the same filters",
        fix=Message("fix.no_cursor"),
    )  # fmt: skip


def _signature(key: bytes, environment: str, question: Mapping[str, Any], raw: bytes) -> bytes:
    query = json_text([environment, sorted(question.items(), key=lambda pair: pair[0])]).encode()
    return hmac.digest(key, hashlib.sha256(query).digest() + raw, "sha256")[:_MARK]
