"""Gemini, through google-genai."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from tabellion.messages import Message
from tabellion.models.base import Ask, Blob, Part, Reply, Schema, Usage
from tabellion.models.errors import BadOutput, ModelError, Rejected, Unavailable
from tabellion.models.output import judge, next_temperature, parse_response
from tabellion.models.prices import Prices
from tabellion.models.refusal import error_from_body, error_from_response, pick, request_id
from tabellion.models.remote import ANSWER_LIMIT, Remote, count

if TYPE_CHECKING:
    import httpx2
    from google import genai

BASE_URL = "https://generativelanguage.googleapis.com"
MODEL = "gemini-2.5-flash"
VERSION = "v1"  # used by google-genai 3; v1beta has the newest features
VERSIONS = ("v1", "v1beta", "v1alpha")
INLINE_LIMIT = 18_000_000  # bytes as sent; Google's limit is 20 MB for the whole request
LEAST_THOUGHT = 128  # thinking cannot be disabled for the pro models
FAREWELL = 5.0  # seconds for deleting uploads

#: The model stopped because of the content of the input or output: a retry would not help.
BLOCKED = {"SAFETY", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "LANGUAGE", "IMAGE_SAFETY"}


class Gemini(Remote["genai.Client"]):
    """Google's models, at their own address or at any server with their protocol."""

    name = "gemini"
    module = "google.genai"
    extra = "gemini"
    takes = frozenset({"application/pdf", "image/png", "image/jpeg", "image/webp"})

    def __init__(
        self, key: str, base_url: str | None = None, model: str = MODEL, api_version: str | None = None, *,
        inline_limit: int = INLINE_LIMIT, prices: Prices | None = None, headers: Mapping[str, str] | None = None,
        answer_limit: int = ANSWER_LIMIT,
    ) -> None:  # fmt: skip
        super().__init__(key, base_url or BASE_URL, model, prices=prices, headers=headers, answer_limit=answer_limit)
        for version in VERSIONS:  # people put the version into the base URL, too
            if self.base_url.endswith(f"/{version}"):
                self.base_url = self.base_url.removesuffix(f"/{version}")
                api_version = api_version or version
        self.api_version = api_version or VERSION
        self._inline_limit = inline_limit

    def _connect(self, http: httpx2.AsyncClient) -> genai.Client:
        from google import genai
        from google.genai import types

        options = types.HttpOptions(base_url=self.base_url, api_version=self.api_version, httpx_async_client=http)
        return genai.Client(api_key=self._key, vertexai=False, http_options=options)

    async def _call(
        self, http: httpx2.AsyncClient, client: genai.Client, parts: Sequence[Part], schema: Schema | None, ask: Ask,
        started: float,
    ) -> Reply:  # fmt: skip
        uploaded: dict[int, tuple[str, str]] = {}
        try:
            for index in self._too_large(parts):
                blob = parts[index]
                assert isinstance(blob, Blob)  # noqa: S101 - for the type checker
                uploaded[index] = await self._upload(http, blob)
            body, headers = await self._generate(client, parts, schema, ask, uploaded)
        finally:
            if uploaded:
                await self._delete(http, [name for name, _ in uploaded.values()])
        data = parse_response(self.name, body)
        if error := error_from_body(self.name, data, headers, self._key):
            raise error
        return self._reply(data, headers, schema, ask, started)

    async def _generate(
        self, client: genai.Client, parts: Sequence[Part], schema: Schema | None, ask: Ask,
        uploaded: Mapping[int, tuple[str, str]],
    ) -> tuple[str, Mapping[str, str]]:  # fmt: skip
        from google.genai import errors, types

        contents = []
        for index, part in enumerate(parts):
            if isinstance(part, str):
                contents.append(types.Part(text=part))
            elif index in uploaded:
                contents.append(types.Part(file_data=types.FileData(file_uri=uploaded[index][1], mime_type=part.type)))
            else:
                contents.append(types.Part(inline_data=types.Blob(data=part.data, mime_type=part.type)))
        thinking = LEAST_THOUGHT if ask.thinking == 0 and "-pro" in self.model else ask.thinking
        config = types.GenerateContentConfig(
            system_instruction=ask.system,
            temperature=ask.temperature,
            max_output_tokens=ask.max_tokens + (thinking or 0),  # thoughts count towards the limit
            thinking_config=None if thinking is None else types.ThinkingConfig(thinking_budget=thinking),
            response_mime_type=None if schema is None else "application/json",
            response_json_schema=None if schema is None else dict(schema),
            automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
            should_return_http_response=True,  # the raw body: we validate it ourselves, and parsing it twice costs time
        )
        try:
            response = await client.aio.models.generate_content(
                model=self.model, contents=types.Content(role="user", parts=contents), config=config
            )
        except errors.APIError as error:
            raise self._translate_error(error) from None
        answer = response.sdk_http_response
        return (answer.body or "", answer.headers or {}) if answer is not None else ("", {})

    def _translate_error(self, error: Any) -> ModelError:
        response = error.response
        headers = getattr(response, "headers", None) or {}
        return error_from_response(self.name, int(error.code or 0), error.details, headers, self._key)

    def _reply(
        self, data: Mapping[str, Any], headers: Mapping[str, str], schema: Schema | None, ask: Ask, started: float
    ) -> Reply:
        tokens = data.get("usageMetadata")
        usage = Usage(
            input=count(pick(tokens, "promptTokenCount")) + count(pick(tokens, "toolUsePromptTokenCount")),
            output=count(pick(tokens, "candidatesTokenCount")),
            thoughts=count(pick(tokens, "thoughtsTokenCount")),
            cached=count(pick(tokens, "cachedContentTokenCount")),
        )
        cost = self._cost(usage)
        finish = str(pick(data, "candidates", 0, "finishReason") or "")
        text = _text(data)
        blocked = pick(data, "promptFeedback", "blockReason") or (finish if finish in BLOCKED else None)
        if blocked:
            error = Rejected(Message("model.blocked", model="gemini", text=str(blocked)[:60]))
            error.usage, error.cost = usage, cost
            raise error
        if finish not in ("STOP", "MAX_TOKENS", "") and not text:
            raise BadOutput(
                Message("model.stopped", model="gemini", text=finish[:60]), "empty", raw=str(data), usage=usage,
                cost=cost, hint={"temperature": next_temperature(ask.temperature)},
            )  # fmt: skip
        parsed = judge(text, schema, ask, finish=finish, usage=usage, cost=cost)
        return Reply(
            text=text, object=parsed, usage=usage, cost=cost, model=str(data.get("modelVersion") or self.model),
            seconds=time.monotonic() - started, finish="stop" if finish in ("STOP", "") else finish.lower(),
            request_id=str(data.get("responseId") or request_id(headers))[:100],
        )  # fmt: skip

    def _too_large(self, parts: Sequence[Part]) -> list[int]:
        """The indexes of files to upload, the largest first, until the rest fits into the request."""
        sizes = {index: 4 * len(part.data) // 3 for index, part in enumerate(parts) if isinstance(part, Blob)}
        total = sum(sizes.values()) + sum(len(part.encode()) for part in parts if isinstance(part, str))
        chosen = []
        for index in sorted(sizes, key=sizes.__getitem__, reverse=True):
            if total <= self._inline_limit:
                break
            chosen.append(index)
            total -= sizes[index]
        return chosen

    async def _upload(self, http: httpx2.AsyncClient, blob: Blob) -> tuple[str, str]:
        """Uploads a file; returns its name and URI. The SDK's own upload blocks the event loop on a busy server."""
        start_response = await http.post(
            f"{self.base_url}/upload/{self.api_version}/files",
            json={"file": {"mime_type": blob.type, "size_bytes": len(blob.data)}},
            headers=self._auth | {
                "x-goog-upload-protocol": "resumable", "x-goog-upload-command": "start",
                "x-goog-upload-header-content-length": str(len(blob.data)),
                "x-goog-upload-header-content-type": blob.type,
            },
        )  # fmt: skip
        self._accept(start_response)
        upload_url = start_response.headers.get("x-goog-upload-url", "")
        if not upload_url:
            raise Unavailable(Message("model.no_upload_url", model="gemini"))
        upload_response = await http.post(
            self._here(upload_url), content=blob.data,
            headers=self._auth | {"x-goog-upload-command": "upload, finalize", "x-goog-upload-offset": "0"},
        )  # fmt: skip
        file = pick(self._accept(upload_response), "file")
        while pick(file, "state") == "PROCESSING":  # the deadline around the call ends this
            await asyncio.sleep(0.5)
            file = self._accept(await http.get(self._file(str(pick(file, "name"))), headers=self._auth))
        name, uri = pick(file, "name"), pick(file, "uri")
        if not isinstance(name, str) or not isinstance(uri, str) or pick(file, "state") == "FAILED":
            raise Unavailable(Message("model.upload_lost", model="gemini"))
        return name, uri

    @property
    def _auth(self) -> dict[str, str]:
        return {"x-goog-api-key": self._key}

    def _file(self, name: str) -> str:
        return f"{self.base_url}/{self.api_version}/files/{name.rpartition('/')[2]}"

    def _here(self, url: str) -> str:
        """The upload URL with the host of our base URL: a response must not decide where documents are sent."""
        ours, theirs = urlsplit(self.base_url), urlsplit(url)
        return theirs._replace(scheme=ours.scheme, netloc=ours.netloc).geturl()

    def _accept(self, response: httpx2.Response) -> dict[str, Any]:
        if response.status_code != 200:
            try:
                body = response.json()
            except ValueError:
                body = response.text
            raise error_from_response(self.name, response.status_code, body, response.headers, self._key)
        return parse_response(self.name, response.text) if response.content else {}

    async def _delete(self, http: httpx2.AsyncClient, names: Sequence[str]) -> None:
        """Deletes the uploads, also after a failure; Google deletes any that remain after two days."""
        try:
            async with asyncio.timeout(FAREWELL):
                for name in names:
                    await http.delete(self._file(name), headers=self._auth)
        except (TimeoutError, ModelError, OSError):
            pass
        except Exception as error:
            if not type(error).__module__.startswith("httpx2"):
                raise


def _text(data: Mapping[str, Any]) -> str:
    """The answer without the thoughts."""
    parts = pick(data, "candidates", 0, "content", "parts")
    visible = [part for part in parts if not pick(part, "thought")] if isinstance(parts, list) else []
    return "".join(text for part in visible if isinstance(text := pick(part, "text"), str))
