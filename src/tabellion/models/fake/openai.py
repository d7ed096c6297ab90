"""OpenAI's protocol: chat completions, with and without streaming, and models."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from tabellion.models.fake.answers import FakeAnswer, Question, pieces
from tabellion.models.fake.content import Content, Reader, UnreadableContent, data_url, decode_base64, plain
from tabellion.models.fake.log import RequestRecord
from tabellion.models.fake.openai_errors import error, invalid_key, no_key
from tabellion.models.fake.replies import ErrorResponse
from tabellion.models.fake.wire import BAD_KEY, BodyTooLarge, Call, dump_json, read_body, split_model

MODELS = ("gpt-5-mini", "gpt-4o-mini", "allenai/olmOCR-2-7B-1025")
CREATED = 1_767_225_600  # the first second of 2026, fixed so that answers are always identical
PRICES = 0.09, 0.19  # DeepInfra's dollars per million tokens of olmOCR, input and output
FINISHES = {"stop": "stop", "length": "length", "block": "content_filter"}


class FakeOpenAI:
    """The protocol of the OpenAI API, with the additions of DeepInfra and vLLM."""

    name = "openai"
    error = staticmethod(error)

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    async def call(self, request: Request) -> Call:
        """The call in a request to `chat/completions`."""
        check_key(request)
        try:
            body = json.loads(await read_body(request))
        except BodyTooLarge:
            raise build_refusal(413, "Request too large.") from None
        except (RecursionError, ValueError):
            raise build_refusal(400, "We could not parse the JSON body of your request.") from None
        if not isinstance(body, Mapping) or not isinstance(body.get("model"), str) or not body["model"]:
            raise build_refusal(400, "you must provide a model parameter")
        model, suffix = split_model(body["model"])
        return Call(model, suffix, body)

    async def question(self, call: Call) -> Question:
        """The question in the call."""
        body = call.body
        contents: list[Content] = []
        instructions: list[Content] = []
        messages = body.get("messages")
        for message in messages if isinstance(messages, list) else []:
            if not isinstance(message, Mapping):
                raise build_refusal(400, "Invalid type for 'messages[0]': expected an object.")
            from_user = message.get("role") in ("user", None)
            (contents if from_user else instructions).extend(await self._contents(message.get("content")))
        if not contents:
            raise build_refusal(400, "Invalid 'messages': there is nothing from a user in it.")
        form = body.get("response_format")
        form = form if isinstance(form, Mapping) else {}
        schema: Any = body.get("guided_json")
        if form.get("type") == "json_schema":
            json_schema = form.get("json_schema")
            schema = json_schema.get("schema") if isinstance(json_schema, Mapping) else None
            if not isinstance(schema, Mapping):
                raise build_refusal(400, "Missing required parameter: 'response_format.json_schema'.")
        max_tokens = body.get("max_completion_tokens") or body.get("max_tokens")
        options = body.get("stream_options")
        return Question(
            model=call.model,
            contents=tuple(contents),
            instructions=tuple(instructions),
            schema=schema if isinstance(schema, Mapping) else None,
            json=form.get("type") == "json_object",
            max_tokens=max_tokens if isinstance(max_tokens, int) else None,
            stream=body.get("stream") is True,
            stream_usage=isinstance(options, Mapping) and options.get("include_usage") is True,
        )

    async def _contents(self, content: Any) -> list[Content]:
        if isinstance(content, str):
            return [plain(content)]
        parts = content if isinstance(content, list) else []
        found = [await self._content(part) for part in parts if isinstance(part, Mapping)]
        return [item for item in found if item is not None]

    async def _content(self, part: Mapping[str, Any]) -> Content | None:
        kind = part.get("type")
        if kind == "text":
            return plain(str(part.get("text") or ""))
        source = part.get(kind) if kind in ("image_url", "file") else None
        if source is None:
            return None
        fields = source if isinstance(source, Mapping) else {"url": source}
        address = str(fields.get("url") or fields.get("file_data") or "")
        try:
            inline = data_url(address)
            if inline is None and kind == "file":
                inline = decode_base64(address), "application/pdf"
            if inline is None:  # a URL, which this server never fetches
                return await self._reader.read(address.encode("utf-8", "replace"), "image/unseen")
            return await self._reader.read(*inline)
        except UnreadableContent as unreadable:
            raise build_refusal(400, f"Invalid {kind}: {unreadable}") from unreadable

    def body(self, answer: FakeAnswer, question: Question) -> dict[str, Any]:
        """The answer as a chat.completion."""
        message: dict[str, Any] = {"role": "assistant", "content": answer.text, "refusal": None}
        if answer.thought:
            message["reasoning_content"] = answer.thought
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": FINISHES[answer.finish]}
        return _head(answer, "chat.completion") | {"choices": [choice], "usage": _usage(answer)}

    def stream(self, answer: FakeAnswer, question: Question, call: Call) -> list[bytes]:
        """The answer as chat.completion.chunk events."""
        deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
        if answer.thought:
            deltas.append({"reasoning_content": answer.thought})
        deltas += [{"content": piece} for piece in pieces(answer.text)] if answer.text is not None else []
        head = _head(answer, "chat.completion.chunk")
        chunks = [head | {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
        chunks.append(head | {"choices": [{"index": 0, "delta": {}, "finish_reason": FINISHES[answer.finish]}]})
        if question.stream_usage:
            chunks.append(head | {"choices": [], "usage": _usage(answer)})
        return [*(b"data: " + dump_json(chunk) + b"\n\n" for chunk in chunks), b"data: [DONE]\n\n"]


def check_key(request: Request) -> None:
    """Rejects a request without a key, and one with the key that is always invalid."""
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    key = key.strip()
    if scheme.lower() != "bearer" or not key:
        raise ErrorResponse(401, no_key())
    if key == BAD_KEY:
        raise ErrorResponse(401, invalid_key())


def build_refusal(status: int, message: str) -> ErrorResponse:
    """An error response with this message."""
    body, headers = error(status, message)
    return ErrorResponse(status, body, headers)


async def list_models(request: Request, entry: RequestRecord) -> Response:
    """GET models."""
    check_key(request)
    listed = {"object": "list", "data": [_model(name) for name in MODELS]}
    return Response(dump_json(listed), media_type="application/json")


async def show_model(request: Request, entry: RequestRecord) -> Response:
    """GET models/NAME: any name is accepted."""
    check_key(request)
    entry.model, _ = split_model(request.path_params["call"])
    return Response(dump_json(_model(entry.model)), media_type="application/json")


def _model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": CREATED, "owned_by": "fake"}


def _head(answer: FakeAnswer, kind: str) -> dict[str, Any]:
    return {"id": f"chatcmpl-{answer.digest[:24]}", "object": kind, "created": CREATED, "model": answer.model}


def _usage(answer: FakeAnswer) -> dict[str, Any]:
    sent, generated = sum(answer.input.values()), answer.output + answer.thoughts
    usage: dict[str, Any] = {"prompt_tokens": sent, "completion_tokens": generated, "total_tokens": sent + generated}
    if answer.thoughts:
        usage["completion_tokens_details"] = {"reasoning_tokens": answer.thoughts}
    if "olmocr" in answer.model.lower():
        usage["estimated_cost"] = round((sent * PRICES[0] + generated * PRICES[1]) / 1e6, 10)
    return usage
