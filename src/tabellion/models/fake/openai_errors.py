"""OpenAI's errors, and those of compatible servers."""

from __future__ import annotations

from typing import Any

from tabellion.models.fake.wire import RetryHint

MESSAGES = {
    400: "Invalid request.",
    401: "Incorrect API key provided. You can find your API key at https://platform.openai.com/account/api-keys.",
    402: "Your balance is too low to run this model. Please top up.",
    403: "You are not allowed to use this model.",
    404: "The model `{model}` does not exist or you do not have access to it.",
    413: "Request too large.",
    429: "Model busy, retry later",
    500: "The server had an error while processing your request. Sorry about that!",
    502: "Bad gateway.",
    503: "The engine is currently overloaded, please try again later.",
    504: "The request timed out.",
}
TYPES = {402: "insufficient_quota", 403: "permission_error", 429: "requests"}
CODES = {401: "invalid_api_key", 402: "insufficient_quota", 404: "model_not_found", 429: "rate_limit_exceeded"}
LIMIT = "Rate limit reached for {model} on requests per min (RPM): Limit {quota:g}. Please try again in {seconds:g}s."


def error(
    status: int, message: str = "", hint: RetryHint | None = None, model: str = ""
) -> tuple[dict[str, Any], dict[str, str]]:
    """An error's body and headers."""
    headers: dict[str, str] = {}
    if hint is not None:
        if hint.form in ("full", "text"):
            message = LIMIT.format(model=model, quota=hint.quota, seconds=hint.message_seconds)
        if hint.form in ("full", "header"):
            headers = hint.header
        if hint.form == "full":
            headers |= {"retry-after-ms": str(max(1, round(hint.seconds * 1000)))}
        elif hint.form == "bare":
            return {"error": {"message": MESSAGES[429]}}, headers
    return _body(status, message or MESSAGES[status].format(model=model)), headers


def no_key() -> dict[str, Any]:
    """The error for a request without a key."""
    return _body(401, "You didn't provide an API key. You need to provide your API key in an Authorization header.", "")


def invalid_key() -> dict[str, Any]:
    """The error for a request with a wrong key."""
    return _body(401, MESSAGES[401])


def _body(status: int, message: str, code: str | None = None) -> dict[str, Any]:
    kind = TYPES.get(status, "server_error" if status >= 500 else "invalid_request_error")
    code = CODES.get(status) if code is None else code or None
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}
