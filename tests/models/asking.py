"""The requests that tests of models send, and how they send them."""

from __future__ import annotations

import asyncio
import struct
import zlib
from collections.abc import Sequence
from typing import Any, TypeVar

import pytest

from tabellion.models.base import Ask, Blob, Model, Part, Reply, Schema
from tabellion.models.errors import Fault, ModelError

Error = TypeVar("Error", bound=ModelError)

KEY = "canary-key-1234567890"
CANARY = "canary-document"
TEXT = f"Vendor: Acme Ltd\nTotal: 118.00\nDue date: 2026-12-01\n{CANARY}"
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "vendor": {"type": "string"},
        "total": {"type": "number"},
        "due_date": {"type": "string"},
        "note": {"type": "string"},
    },
    "required": ["vendor", "total"],
}

#: Answers that are no results: the fake server's knob, the fault, and the hint for the next call.
BAD: list[tuple[str, Fault, dict[str, Any]]] = [
    ("truncate", "truncated", {"split": 2}),
    ("empty", "empty", {"split": 2}),
    ("repeat", "repetition", {"temperature": 0.2}),
    ("schema", "schema", {"temperature": 0.2}),
    ("html", "html", {}),
    ("huge=17", "too_large", {}),
]


def ask(
    model: Model, parts: Sequence[Part] = (TEXT,), schema: Schema | None = None, asked: Ask = Ask(deadline=20)
) -> Reply:
    """Make one call in its own event loop and close its connections."""

    async def once() -> Reply:
        try:
            return await model.call(parts, schema, asked)
        finally:
            await model.close()

    return asyncio.run(once())


def failing(
    kind: type[Error], model: Model, parts: Sequence[Part] = (TEXT,), schema: Schema | None = None,
    asked: Ask = Ask(deadline=20),
) -> Error:  # fmt: skip
    """Return the error of a call, which must be of exactly this class and contain no key and no document."""
    with pytest.raises(kind) as caught:
        ask(model, parts, schema, asked)
    error = caught.value
    assert type(error) is kind
    for text in (str(error), repr(error), str(error.__cause__), repr(model)):
        assert KEY not in text
        assert CANARY not in text
    assert error.__suppress_context__ or error.__context__ is None
    return error


def png(width: int = 60, height: int = 80) -> bytes:
    """A grey picture."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    rows = zlib.compress((b"\x00" + b"\x80" * width) * height)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


PAGE = Blob(png(), "image/png", "page.png")
