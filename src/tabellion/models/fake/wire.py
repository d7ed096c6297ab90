"""The types that both protocols share: a call, the hint of a 429, and the interface of a protocol."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from starlette.requests import Request

from tabellion.models.fake.answers import FakeAnswer, Question
from tabellion.models.fake.knobs import Form

LARGEST_BODY = 100 * 1024 * 1024
BAD_KEY = "bad-key"  #: the key that is always rejected


class BodyTooLarge(Exception):  # noqa: N818 - what the body is
    """A request body over the limit."""


@dataclass(frozen=True, slots=True)
class Call:
    """One request for an answer, with its model separate from the knobs after the @."""

    model: str
    suffix: str
    body: Mapping[str, Any]
    action: str = "generateContent"
    sse: bool = True  #: streams are server-sent events, not one long JSON list


@dataclass(frozen=True, slots=True)
class RetryHint:
    """When a throttled client may retry, and how the response says so."""

    seconds: float
    message_seconds: float  #: the delay in the message
    form: Form
    quota: float = 10.0  #: requests a minute

    @property
    def header(self) -> dict[str, str]:
        """The Retry-After header, in whole seconds as HTTP requires."""
        return {"retry-after": str(-int(-self.seconds // 1))}


class Wire(Protocol):
    """One protocol: reads its requests, writes its answers and its errors."""

    name: str

    async def call(self, request: Request) -> Call:
        """The call in a request; raises ErrorResponse for an invalid key or body."""
        ...

    async def question(self, call: Call) -> Question:
        """The question in the call; raises ErrorResponse."""
        ...

    def body(self, answer: FakeAnswer, question: Question) -> dict[str, Any]:
        """The answer as one JSON object."""
        ...

    def stream(self, answer: FakeAnswer, question: Question, call: Call) -> list[bytes]:
        """The answer as the pieces of a stream."""
        ...

    def error(
        self, status: int, message: str = "", hint: RetryHint | None = None, model: str = ""
    ) -> tuple[dict[str, Any], dict[str, str]]:
        """An error's body and headers; without a message, the provider's usual one."""
        ...


async def read_body(request: Request) -> bytes:
    """The whole body; raises BodyTooLarge."""
    if int(request.headers.get("content-length") or 0) > LARGEST_BODY:
        raise BodyTooLarge
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > LARGEST_BODY:
            raise BodyTooLarge
    return bytes(body)


def split_model(name: str) -> tuple[str, str]:
    """A model's name and the knobs after its @."""
    model, _, suffix = name.partition("@")
    return model, suffix


def dump_json(value: Any) -> bytes:
    """JSON in ASCII, because the request may contain lone surrogates."""
    return json.dumps(value, separators=(",", ":")).encode()
