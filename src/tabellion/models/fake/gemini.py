"""Gemini's protocol: generateContent, its stream, countTokens and models."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from tabellion.models.fake.answers import FakeAnswer, Question, pieces
from tabellion.models.fake.content import Content, Reader, UnreadableContent, decode_base64, plain
from tabellion.models.fake.files import Files
from tabellion.models.fake.gemini_errors import error
from tabellion.models.fake.gemini_request import build_refusal, check_key, get, json_body
from tabellion.models.fake.log import RequestRecord
from tabellion.models.fake.wire import Call, dump_json, split_model

MODELS = ("gemini-2.5-flash", "gemini-2.5-flash-lite", "gemini-2.5-pro", "gemini-3-flash")
ACTIONS = ("generateContent", "streamGenerateContent", "countTokens")
FINISHES = {"stop": "STOP", "length": "MAX_TOKENS"}


class FakeGemini:
    """The protocol of the Gemini API; keys may be camelCase or snake_case throughout."""

    name = "gemini"
    error = staticmethod(error)

    def __init__(self, reader: Reader, files: Files) -> None:
        self._reader, self._files = reader, files

    async def call(self, request: Request) -> Call:
        """The call in a request to `models/NAME:ACTION`."""
        check_key(request)
        name, _, action = request.path_params["call"].rpartition(":")
        model, suffix = split_model(name)
        if action not in ACTIONS:
            raise build_refusal(404, f"models/{model} has no method {action!r}; there are {', '.join(ACTIONS)}")
        sse = request.query_params.get("alt") == "sse"
        return Call(model, suffix, await json_body(request), action, sse)

    async def question(self, call: Call) -> Question:
        """The question in the call."""
        body = call.body
        if call.action == "countTokens" and isinstance(get(body, "generateContentRequest"), Mapping):
            body = get(body, "generateContentRequest")
        config = _mapping(get(body, "generationConfig"))
        thinking = _mapping(get(config, "thinkingConfig"))
        media = str(get(config, "responseMimeType") or "")
        schema = get(config, "responseSchema") or get(config, "responseJsonSchema")
        contents = [item for content in _list(get(body, "contents")) for item in await self._contents(content)]
        if not contents:
            raise build_refusal(400, "* GenerateContentRequest.contents: contents is not specified\n")
        return Question(
            model=call.model,
            contents=tuple(contents),
            instructions=tuple(await self._contents(get(body, "systemInstruction"))),
            schema=_mapping(schema) if schema is not None else None,
            json=media == "application/json",
            bare_enum=media == "text/x.enum",
            max_tokens=_whole(get(config, "maxOutputTokens")),
            thinking=_whole(get(thinking, "thinkingBudget")) != 0,
            show_thoughts=bool(get(thinking, "includeThoughts")),
            stream=call.action == "streamGenerateContent",
        )

    async def _contents(self, content: Any) -> list[Content]:
        if isinstance(content, str):
            return [plain(content)]
        return [
            found
            for part in _list(get(_mapping(content), "parts"))
            if (found := await self._content(_mapping(part))) is not None
        ]

    async def _content(self, part: Mapping[str, Any]) -> Content | None:
        if isinstance(part.get("text"), str):
            return plain(part["text"])
        inline, file = get(part, "inlineData"), get(part, "fileData")
        try:
            if isinstance(inline, Mapping):
                data = decode_base64(str(inline.get("data") or ""))
                return await self._reader.read(data, str(get(inline, "mimeType") or "application/octet-stream"))
            if isinstance(file, Mapping):
                stored = self._files.at(str(get(file, "fileUri") or ""))
                return await self._reader.read(stored.data, str(get(file, "mimeType") or stored.type))
        except UnreadableContent as unreadable:
            raise build_refusal(400, str(unreadable)) from unreadable
        return None

    def body(self, answer: FakeAnswer, question: Question) -> dict[str, Any]:
        """The answer as a GenerateContentResponse."""
        parts = [{"text": answer.thought, "thought": True}] if answer.thought else []
        if answer.text is not None:
            parts.append({"text": answer.text})
        return self._response(answer, parts, last=True)

    def stream(self, answer: FakeAnswer, question: Question, call: Call) -> list[bytes]:
        """The answer as a stream of responses; usage and the finish reason are in the last."""
        steps = [[{"text": answer.thought, "thought": True}]] if answer.thought else []
        steps += [[{"text": piece}] for piece in pieces(answer.text)] if answer.text is not None else [[]]
        chunks = [dump_json(self._response(answer, step, last=step is steps[-1])) for step in steps]
        if call.sse:
            return [b"data: " + chunk + b"\r\n\r\n" for chunk in chunks]
        return [b"[" + chunks[0], *(b"\n,\r\n" + chunk for chunk in chunks[1:]), b"\n]\n"]

    def tokens(self, question: Question) -> dict[str, Any]:
        """The response of countTokens."""
        counted: dict[str, int] = {}
        for content in (*question.instructions, *question.contents):
            counted[content.modality] = counted.get(content.modality, 0) + content.tokens
        return {"totalTokens": sum(counted.values()), "promptTokensDetails": _details(counted)}

    def _response(self, answer: FakeAnswer, parts: list[dict[str, Any]], *, last: bool) -> dict[str, Any]:
        response: dict[str, Any] = {}
        if answer.finish == "block":
            response["promptFeedback"] = {"blockReason": "PROHIBITED_CONTENT"}
        else:
            content: dict[str, Any] = {"parts": parts, "role": "model"} if parts else {"role": "model"}
            response["candidates"] = [{"content": content, "index": 0}]
            if last:
                response["candidates"][0]["finishReason"] = FINISHES[answer.finish]
        if last:
            response["usageMetadata"] = _usage(answer)
        return response | {"modelVersion": answer.model, "responseId": answer.digest[:22]}


async def list_models(request: Request, entry: RequestRecord) -> Response:
    """GET models."""
    check_key(request)
    return Response(dump_json({"models": [_model(name) for name in MODELS]}), media_type="application/json")


async def show_model(request: Request, entry: RequestRecord) -> Response:
    """GET models/NAME: any name is accepted."""
    check_key(request)
    entry.model, _ = split_model(request.path_params["call"])
    return Response(dump_json(_model(entry.model)), media_type="application/json")


def _mapping(value: Any) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise build_refusal(400, f"Invalid JSON payload received. Expected an object, found {json.dumps(value)[:80]}.")
    return value


def _list(value: Any) -> list[Any]:
    """A value as a list: Google accepts one object for a list of one."""
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def _whole(value: Any) -> int | None:
    try:
        return None if value is None else int(value)
    except (TypeError, ValueError):
        raise build_refusal(
            400, f"Invalid value at 'generation_config' (TYPE_INT32), {json.dumps(value)[:80]}"
        ) from None


def _usage(answer: FakeAnswer) -> dict[str, Any]:
    usage: dict[str, Any] = {"promptTokenCount": sum(answer.input.values())}
    if answer.output:
        usage["candidatesTokenCount"] = answer.output
    if answer.thoughts:
        usage["thoughtsTokenCount"] = answer.thoughts
    return usage | {"totalTokenCount": answer.tokens, "promptTokensDetails": _details(answer.input)}


def _details(counted: Mapping[str, int]) -> list[dict[str, Any]]:
    return [{"modality": modality, "tokenCount": count} for modality, count in sorted(counted.items())]


def _model(name: str) -> dict[str, Any]:
    return {
        "name": f"models/{name}",
        "version": "001",
        "displayName": name,
        "inputTokenLimit": 1_048_576,
        "outputTokenLimit": 65_536,
        "supportedGenerationMethods": list(ACTIONS),
    }
