"""Any server with OpenAI's protocol."""

from __future__ import annotations

import json
import os
import re
import time
from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from tabellion.errors import ConfigurationError
from tabellion.messages import Message
from tabellion.models.base import Ask, Blob, Part, Reply, Schema, Usage
from tabellion.models.errors import ModelError, Rejected
from tabellion.models.output import judge, parse_response
from tabellion.models.prices import Prices
from tabellion.models.refusal import error_from_body, error_from_response, pick, request_id
from tabellion.models.remote import ANSWER_LIMIT, Remote, count
from tabellion.models.strict import make_strict

if TYPE_CHECKING:
    import httpx2

BASE_URL = "https://api.openai.com/v1"
MODEL = "gpt-4.1-mini"
NO_KEY = "none"  # some self-hosted servers require the header but ignore the key
#: Headers by the variables that OpenAI's own package reads.
ACCOUNT = {"OpenAI-Organization": "OPENAI_ORG_ID", "OpenAI-Project": "OPENAI_PROJECT_ID"}
CUSTOM = "OPENAI_CUSTOM_HEADERS"  #: a variable of that package: headers in lines of `name: value`

ResponseFormat = Literal["json_schema", "json_object", "text"]
#: From the best way to request JSON to the one that every server supports.
WEAKER: dict[ResponseFormat, ResponseFormat] = {"json_schema": "json_object", "json_object": "text"}
_ABOUT_FORM = re.compile(r"response_format|json_schema|json_object|structured output|guided", re.IGNORECASE)
_UNSUPPORTED = re.compile(r"unsupported|not supported|does not support|unrecognized|unknown|extra", re.IGNORECASE)
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+:[\t -~]*")


class OpenAI(Remote[dict[str, str]]):
    """OpenAI's own models, and vLLM, Ollama, DeepInfra, OpenRouter, llama.cpp, … by their base URL."""

    name = "openai"
    module = "httpx2"  # the package openai adds 0.2 s to the start of a process, and a third to the time of a call
    extra = "openai"

    def __init__(
        self, key: str = "", base_url: str | None = None, model: str = MODEL, *, prices: Prices | None = None,
        headers: Mapping[str, str] | None = None, answer_limit: int = ANSWER_LIMIT,
    ) -> None:  # fmt: skip
        super().__init__(key, base_url or BASE_URL, model, prices=prices, headers=headers, answer_limit=answer_limit)
        self._environment_headers = self._read_environment()
        # What this server supports: the best way is tried first, and an error is remembered.
        self._form: ResponseFormat = "json_schema"
        self._dropped: set[str] = set()

    def _connect(self, http: httpx2.AsyncClient) -> dict[str, str]:
        """The headers of every request, by their names in lower case; those of the settings win."""
        from tabellion import __version__  # the package is above this module

        headers = {
            "accept": "application/json", "authorization": f"Bearer {self._key or NO_KEY}",
            "content-type": "application/json", "user-agent": f"tabellion/{__version__}",
        } | self._environment_headers  # fmt: skip
        kept = {name.lower() for name in self._headers} | {"accept-encoding"}  # the client itself sends these
        return {name: value for name, value in headers.items() if name not in kept}

    def _read_environment(self) -> dict[str, str]:
        """The headers that the variables of OpenAI's own package define."""
        account = {name.lower(): value for name, variable in ACCOUNT.items() if (value := os.environ.get(variable))}
        return account | read_headers(CUSTOM, os.environ.get(CUSTOM, ""))

    async def _call(
        self, http: httpx2.AsyncClient, headers: dict[str, str], parts: Sequence[Part], schema: Schema | None, ask: Ask,
        started: float,
    ) -> Reply:  # fmt: skip
        data, reply_headers = await self._complete(http, headers, self._content(parts, ask), schema, ask)
        usage, cost = self._usage(data)
        text, finish = self._text(data, usage, cost)
        parsed = judge(text, schema, ask, finish=finish, usage=usage, cost=cost)
        return Reply(
            text=text, object=parsed, usage=usage, cost=cost, model=str(data.get("model") or self.model)[:200],
            seconds=time.monotonic() - started, finish=finish,
            request_id=request_id(reply_headers) or str(data.get("id", ""))[:100],
        )  # fmt: skip

    async def _complete(
        self, http: httpx2.AsyncClient, headers: dict[str, str], content: list[dict[str, Any]], schema: Schema | None,
        ask: Ask,
    ) -> tuple[dict[str, Any], Mapping[str, str]]:  # fmt: skip
        """The server's answer to the best request it supports; finding that is not a retry, as no model has run."""
        while True:
            attempted = self._form, frozenset(self._dropped)
            request = self._request(content, schema, ask)
            body = json.dumps(request, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
            answer = await http.post(f"{self.base_url}/chat/completions", content=body, headers=headers)
            if not answer.is_success:
                refusal = self._parse_refusal(answer)
                verdict = error_from_response(self.name, answer.status_code, refusal, answer.headers, self._key)
                error = pick(refusal, "error") or refusal
                if schema is not None and self._weaken(verdict, error, attempted):
                    continue
                if self._drop(verdict, error, attempted):
                    continue
                raise verdict
            data = parse_response(self.name, answer.text)
            if failure := error_from_body(self.name, data, answer.headers, self._key):
                raise failure
            return data, answer.headers

    def _request(self, content: list[dict[str, Any]], schema: Schema | None, ask: Ask) -> dict[str, Any]:
        system = ask.system or ""
        request: dict[str, Any] = {"model": self.model, "max_tokens": ask.max_tokens, "temperature": ask.temperature}
        if schema is not None and self._form == "json_schema":
            strict_schema = make_strict(schema)
            json_schema = {
                "name": "answer",
                "strict": strict_schema is not None,
                "schema": strict_schema or dict(schema),
            }
            request["response_format"] = {"type": "json_schema", "json_schema": json_schema}
        elif schema is not None:
            system += f"\nAnswer with one JSON object only. It must fit this JSON Schema:\n{json.dumps(schema)}"
            if self._form == "json_object":
                request["response_format"] = {"type": "json_object"}
        if "max_tokens" in self._dropped:  # OpenAI's newer name, which older servers do not know
            request["max_completion_tokens"] = request.pop("max_tokens")
        if "temperature" in self._dropped:
            del request["temperature"]
        messages = [{"role": "system", "content": system.strip()}] if system else []
        return request | {"messages": [*messages, {"role": "user", "content": content}]}

    def _content(self, parts: Sequence[Part], ask: Ask) -> list[dict[str, Any]]:
        return [{"type": "text", "text": part} if isinstance(part, str) else self._blob(part) for part in parts]

    def _blob(self, blob: Blob) -> dict[str, Any]:
        url = f"data:{blob.type};base64,{b64encode(blob.data).decode()}"
        if blob.type.startswith("image/"):
            return {"type": "image_url", "image_url": {"url": url}}
        return {"type": "file", "file": {"filename": blob.name or "document.pdf", "file_data": url}}

    def _parse_refusal(self, answer: httpx2.Response) -> object:
        try:
            return answer.json()
        except ValueError:
            return answer.text

    def _weaken(self, verdict: ModelError, body: object, attempted: tuple[ResponseFormat, frozenset[str]]) -> bool:
        """Whether to repeat the request in a weaker form."""
        form = attempted[0]
        about_form = pick(body, "param") == "response_format" or _ABOUT_FORM.search(str(verdict))
        if not isinstance(verdict, Rejected) or form not in WEAKER or not about_form:
            return False
        if self._form == form:  # many calls may find this out at once
            self._form = WEAKER[form]
        return True

    def _drop(self, verdict: ModelError, body: object, attempted: tuple[ResponseFormat, frozenset[str]]) -> bool:
        """Whether the server only rejected an optional parameter, which is then omitted."""
        param = pick(body, "param")
        if not isinstance(verdict, Rejected) or param not in ("max_tokens", "temperature") or param in attempted[1]:
            return False
        if not str(pick(body, "code")).startswith("unsupported") and not _UNSUPPORTED.search(str(verdict)):
            return False
        self._dropped.add(str(param))
        return True

    def _usage(self, data: Mapping[str, Any]) -> tuple[Usage, float | None]:
        tokens = data.get("usage")
        thoughts = count(pick(tokens, "completion_tokens_details", "reasoning_tokens"))
        usage = Usage(
            input=count(pick(tokens, "prompt_tokens")),
            output=max(0, count(pick(tokens, "completion_tokens")) - thoughts),
            thoughts=thoughts,
            cached=count(pick(tokens, "prompt_tokens_details", "cached_tokens")),
        )
        billed = pick(tokens, "estimated_cost")
        return usage, self._cost(usage, pick(tokens, "cost") if billed is None else billed)

    def _text(self, data: Mapping[str, Any], usage: Usage, cost: float | None) -> tuple[str, str]:
        choice = pick(data, "choices", 0)
        finish = str(pick(choice, "finish_reason") or "stop")[:60]
        text = pick(choice, "message", "content")
        if isinstance(text, list):  # some servers answer in parts
            text = "".join(part_text for part in text if isinstance(part_text := pick(part, "text"), str))
        if finish == "content_filter" or pick(choice, "message", "refusal"):
            error = Rejected(Message("model.content_filter", model=self.name))
            error.usage, error.cost = usage, cost
            raise error
        return text if isinstance(text, str) else "", finish


def read_headers(variable: str, text: str) -> dict[str, str]:
    """Headers in lines of `name: value`, by their names in lower case; lines without a colon are ignored.

    Raises a ConfigurationError that does not quote the line, because its value may be a secret.
    """
    headers = {}
    for number, line in enumerate(text.split("\n"), 1):
        name, colon, value = (part.strip() for part in line.partition(":"))
        if not colon:
            continue
        if not _HEADER.fullmatch(f"{name}:{value}"):
            raise ConfigurationError(f"{variable}: line {number} is not a valid header of the form `name: value`")
        headers[name.lower()] = value
    return headers
