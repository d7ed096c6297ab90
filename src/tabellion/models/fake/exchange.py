"""Handles one call: key, knobs, quota, delay, answer."""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import replace
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from tabellion.errors import ConfigurationError
from tabellion.models.fake.answers import FakeAnswer, Question, build_answer
from tabellion.models.fake.control import Control
from tabellion.models.fake.gemini import FakeGemini
from tabellion.models.fake.knobs import KNOBS, Knobs
from tabellion.models.fake.log import RequestRecord
from tabellion.models.fake.replies import MARK, PAGE, Cut, Drip, ErrorResponse, Pieces, Silence, huge
from tabellion.models.fake.wire import Call, RetryHint, Wire, dump_json

HEADER = "x-fake"
JSON, SSE, HTML = "application/json", "text/event-stream", "text/html; charset=utf-8"
STATUS_KNOBS = tuple(name for name in KNOBS if name.isdigit())
SAID_LATER = 0.4  # seconds by which the delay in Google's message exceeds its RetryInfo
_numbers = itertools.count(1)


class Exchange:
    """Answers the calls of one protocol."""

    def __init__(self, wire: Wire, control: Control) -> None:
        self._wire, self._control = wire, control

    async def reply(self, request: Request, entry: RequestRecord) -> Response:
        """The reply to a request; the knobs that applied are recorded in the entry."""
        call = await self._wire.call(request)
        entry.model = call.model
        try:
            knobs = self._control.knobs(call.suffix, request.headers.get(HEADER, ""))
        except ConfigurationError as error:
            raise self._build_refusal(400, str(error), call) from error
        met = self._control.draw_knobs(knobs)
        self._check_quota(knobs, met, call, entry)
        status = next((int(name) for name in STATUS_KNOBS if name in met), 0)
        if 0 < status < 500:
            entry.knob = str(status)
            raise self._error(status, knobs, met, call)
        question = await self._wire.question(call)
        if delay := self._control.delay(knobs):
            await asyncio.sleep(delay)
        if status:
            entry.knob = str(status)
            raise self._error(status, knobs, met, call)
        return self._answer(call, question, knobs, met, entry)

    def _check_quota(self, knobs: Knobs, met: frozenset[str], call: Call, entry: RequestRecord) -> None:
        wait = self._control.take_quota(knobs.rate, knobs.window) if knobs.rate else 0.0
        if wait:
            entry.knob = "rate"
            seconds = -(-wait * 1000 // 1) / 1000
            raise self._shape_error(
                429, met, call, hint=RetryHint(seconds, seconds, knobs.hint, (knobs.rate or 0) * 60)
            )

    def _answer(
        self, call: Call, question: Question, knobs: Knobs, met: frozenset[str], entry: RequestRecord
    ) -> Response:
        headers = self._headers()
        entry.knob = next((name for name in KNOBS if name in met), "")
        for name, kind in (("hang", Silence), ("drip", Drip)):
            if name in met:
                entry.status = 0
                return kind(media_type=JSON)
        if "html" in met:
            return Response(PAGE.format(status=200), 200, headers, HTML)
        if isinstance(self._wire, FakeGemini) and call.action == "countTokens":
            return Response(dump_json(self._wire.tokens(question)), 200, headers, JSON)
        try:
            answer = build_answer(question, met)
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            raise self._build_refusal(400, f"Invalid schema: {error}", call) from error
        entry.tokens = answer.tokens
        return self._build_response(answer, call, question, knobs, met, headers)

    def _build_response(
        self,
        answer: FakeAnswer,
        call: Call,
        question: Question,
        knobs: Knobs,
        met: frozenset[str],
        headers: dict[str, str],
    ) -> Response:
        if "huge" in met:
            answer = replace(answer, text=MARK, output=knobs.huge * 262_144)
        media = SSE if question.stream and call.sse else JSON
        if question.stream:
            parts = self._wire.stream(answer, question, call)
        else:
            parts = [dump_json(self._wire.body(answer, question))]
        if "huge" in met:
            return Pieces(huge(b"".join(parts), knobs.huge), media, headers)
        if "reset" in met:
            return Cut(parts, media, headers)
        return Pieces(parts, media, headers) if question.stream else Response(parts[0], 200, headers, media)

    def _headers(self) -> dict[str, str]:
        return {"x-request-id": f"req_{next(_numbers):010x}"} if self._wire.name == "openai" else {}

    def _error(self, status: int, knobs: Knobs, met: frozenset[str], call: Call) -> ErrorResponse:
        hint = RetryHint(knobs.after, knobs.after + SAID_LATER, knobs.hint) if status == 429 else None
        return self._shape_error(status, met, call, hint=hint)

    def _build_refusal(self, status: int, message: str, call: Call) -> ErrorResponse:
        return self._shape_error(status, frozenset(), call, message=message)

    def _shape_error(
        self, status: int, met: frozenset[str], call: Call, *, message: str = "", hint: RetryHint | None = None
    ) -> ErrorResponse:
        """The error in the protocol's format, or in the format that a knob sets."""
        error, headers = self._wire.error(status, message, hint, call.model)
        body: Any = error
        if "html" in met:
            body = PAGE.format(status=status)
        elif "detail" in met and self._wire.name == "openai":
            body = {"detail": {"error": error["error"]["message"]}}
        elif "errorlist" in met:
            body = [error]
        return ErrorResponse(status, body, headers | self._headers())
