"""The common parts of Gemini requests: a key, a JSON body, and names in two spellings."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from starlette.requests import Request

from tabellion.models.fake.gemini_errors import error, invalid_key, no_key
from tabellion.models.fake.replies import ErrorResponse
from tabellion.models.fake.wire import BAD_KEY, BodyTooLarge, read_body


def check_key(request: Request) -> None:
    """Rejects a request without a key, and one with the key that is always invalid."""
    key = request.headers.get("x-goog-api-key") or request.query_params.get("key") or ""
    bearer = request.headers.get("authorization", "").removeprefix("Bearer").strip()
    if not key and not bearer:
        raise ErrorResponse(403, no_key())
    if BAD_KEY in (key, bearer):
        raise ErrorResponse(400, invalid_key())


async def json_body(request: Request) -> Mapping[str, Any]:
    """The request's JSON object."""
    try:
        body = json.loads(await read_body(request) or b"{}")
    except BodyTooLarge:
        raise build_refusal(400, "Request payload size exceeds the limit: 104857600 bytes.") from None
    except (RecursionError, ValueError):
        raise build_refusal(400, "Invalid JSON payload received. Unexpected token.") from None
    if not isinstance(body, Mapping):
        raise build_refusal(400, "Invalid JSON payload received. Expected an object.")
    return body


def build_refusal(status: int, message: str) -> ErrorResponse:
    """An error response with this message."""
    body, headers = error(status, message)
    return ErrorResponse(status, body, headers)


def get(mapping: Mapping[str, Any], camel: str) -> Any:
    """A value by its camelCase or its snake_case key."""
    value = mapping.get(camel)
    return mapping.get(_snake(camel)) if value is None else value


@lru_cache(256)
def _snake(camel: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in camel)
