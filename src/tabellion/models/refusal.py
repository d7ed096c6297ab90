"""Maps a provider's error response, its HTTP status and body, to one of our errors."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from email.utils import parsedate_to_datetime
from typing import Any

from tabellion.messages import Message
from tabellion.models.errors import KeyRefused, ModelError, Rejected, Throttled, Unavailable

LONGEST_MESSAGE = 500
LONGEST_READ = 4000  # characters of a message that are searched for a hint

MEANINGS = {
    400: "bad_request", 401: "key_refused", 402: "payment_required", 403: "key_forbidden", 404: "not_found",
    408: "timed_out", 409: "conflict", 410: "gone", 413: "too_large", 422: "unfit", 429: "too_many_requests",
    500: "internal_error", 502: "bad_gateway", 503: "unavailable", 504: "timed_out",
}  # fmt: skip
TOO_MANY = {429, 498}  # 498 is Groq's status for "no capacity left"
PASSING = {408, 409, 425}
#: Google sends 400 for a wrong key and OpenAI 429 for an exhausted balance: the code decides, not the status.
KEY_CODES = {
    "API_KEY_INVALID", "API_KEY_EXPIRED", "UNAUTHENTICATED", "invalid_api_key", "insufficient_quota",
    "billing_not_active", "account_deactivated",
}  # fmt: skip
KEY_WORDS = re.compile(
    r"api key (?:not valid|expired|not found)|(?:incorrect|invalid) api key|location is not supported|"
    r"credits are depleted",
    re.IGNORECASE,
)
CONTENT_CODES = {"content_filter", "content_policy_violation", "moderation_blocked"}

_PAGE = re.compile(r"\s*<(?:!doctype|html)", re.IGNORECASE)
_SECRETS = re.compile(r"\b(?:sk-|AIza)[\w*.\-]{8,}|(?<=key=)[^&\s\"']+|(?<=Bearer )[\w*.\-]+")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_SPAN = r"(\d++(?:\.\d++)?)\s*+(milliseconds?|ms|hours?|h|minutes?|mins?|m|seconds?|secs?|s)(?![a-z])"
_AGAIN = re.compile(rf"(?:retry|again)\s+(?:in|after)\s+((?:{_SPAN}\s*)+)", re.IGNORECASE)


def error_from_response(
    name: str, status: int, body: object, headers: Mapping[str, str] | None = None, secret: str = ""
) -> ModelError:
    """The error for a response with another status than 200: `body` is its parsed JSON, or its text."""
    headers = headers or {}
    message = _message(body)
    excerpt = "a web page" if _PAGE.match(message) else clean(message, secret)
    hints = (_retry_info(body), _in_words(message[:LONGEST_READ]), _in_headers(headers))
    hint = next((seconds for seconds in hints if seconds is not None), None)
    quota = _quota(body)
    meaning = _describe_status(status)
    if quota:
        meaning = Message("model.quota", detail=meaning, text=clean(quota, secret))
    params: dict[str, Any] = {"model": name, "n": status, "detail": meaning}
    if excerpt and (hint is None or status not in TOO_MANY):
        params["text"] = excerpt
    if hint is not None:
        params["after"] = f"{hint:.3g}"
    text = Message("model.status" + "".join(f"_{part}" for part in ("text", "after") if part in params), **params)
    error = _verdict(status, set(_codes(body)), excerpt, text, hint)
    error.status = status
    error.request_id = request_id(headers)
    return error


def error_from_body(
    name: str, data: Mapping[str, Any], headers: Mapping[str, str] | None = None, secret: str = ""
) -> ModelError | None:
    """The error inside a response with status 200, which gateways send for failures behind them."""
    if not isinstance(data.get("error"), Mapping | str) or not data["error"]:
        return None
    code = pick(data, "error", "code")
    return error_from_response(
        name, code if isinstance(code, int) and 400 <= code < 600 else 502, data, headers, secret
    )


def request_id(headers: Mapping[str, str]) -> str:
    """The provider's id of the call, for support requests."""
    for header in ("x-request-id", "x-goog-request-id", "x-deepinfra-request-id", "cf-ray"):
        if value := headers.get(header):
            return str(value)[:100]
    return ""


def clean(text: str, secret: str = "") -> str:
    """A provider's message for logs: one line, without keys, shortened."""
    if secret:
        text = text.replace(secret, "***")
    return " ".join(_SECRETS.sub("***", text[: 4 * LONGEST_MESSAGE]).split())[:LONGEST_MESSAGE]


def pick(data: object, *path: str | int) -> Any:
    """The value at a path of keys and indexes, or None, because the structure of responses is not trusted."""
    for step in path:
        if isinstance(step, str):
            data = data.get(step) if isinstance(data, Mapping) else None
        else:
            data = data[step] if isinstance(data, list) and -len(data) <= step < len(data) else None
    return data


def _verdict(status: int, codes: set[str], excerpt: str, text: str, hint: float | None) -> ModelError:
    if status in (401, 402) or codes & KEY_CODES or KEY_WORDS.search(excerpt):
        return KeyRefused(text)
    if codes & CONTENT_CODES:
        return Rejected(text)
    if status == 403:
        return KeyRefused(text)
    if status in TOO_MANY or codes & {"RESOURCE_EXHAUSTED", "rate_limit_exceeded"}:
        return Throttled(text, hint)
    if status in PASSING or status >= 500:
        return Unavailable(text, hint)
    if status < 400:
        return Unavailable(Message("model.redirected", detail=text) if status >= 300 else text)
    return Rejected(text)


def _describe_status(status: int) -> str:
    if 300 <= status < 400:
        return Message("status.elsewhere")
    return Message(f"status.{MEANINGS.get(status) or ('refused' if status < 500 else 'server_trouble')}")


def _inner(body: object) -> object:
    """The inner error: Google may put it in a list, FastAPI under `detail`."""
    if isinstance(body, list) and body:
        body = body[0]
    for key in ("error", "detail"):
        inner = pick(body, key)
        if isinstance(inner, Mapping | str) and inner:
            return _inner(inner) if key == "detail" and isinstance(inner, Mapping) and "error" in inner else inner
        if isinstance(inner, list) and inner:
            return inner[0]
    return body


def _message(body: object) -> str:
    """The server's message only: the rest of the body may echo the document."""
    inner = _inner(body)
    if isinstance(inner, str):
        return inner
    for key in ("message", "msg", "error"):
        if isinstance(value := pick(inner, key), str):
            return value
    return ""


def _details(body: object) -> Iterator[Mapping[str, Any]]:
    details = pick(_inner(body), "details")
    if isinstance(details, list):
        yield from (detail for detail in details[:20] if isinstance(detail, Mapping))


def _codes(body: object) -> Iterator[str]:
    inner = _inner(body)
    for value in [pick(inner, "status"), pick(inner, "code"), pick(inner, "type")]:
        if isinstance(value, str):
            yield value
    for detail in _details(body):
        if isinstance(reason := detail.get("reason"), str):
            yield reason


def _quota(body: object) -> str:
    for detail in _details(body):
        violation = pick(detail, "violations", 0)
        if isinstance(quota := pick(violation, "quotaId"), str):
            value = pick(violation, "quotaValue")
            return f"quota {quota} {value}" if value else f"quota {quota}"
    return ""


def _retry_info(body: object) -> float | None:
    for detail in _details(body):
        if str(detail.get("@type", "")).endswith("RetryInfo"):
            delay = detail.get("retryDelay")
            seconds = pick(delay, "seconds") if isinstance(delay, Mapping) else str(delay).removesuffix("s")
            return _number(seconds)
    return None


def _in_words(text: str) -> float | None:
    match = _AGAIN.search(text)
    if not match:
        return None
    total = 0.0
    for amount, unit in re.findall(_SPAN, match[1], re.IGNORECASE):
        unit = unit.lower()
        total += float(amount) * _UNITS["ms" if unit.startswith(("ms", "milli")) else unit[0]]
    return total


def _in_headers(headers: Mapping[str, str]) -> float | None:
    if (milliseconds := _number(headers.get("retry-after-ms"))) is not None:
        return milliseconds / 1000
    after = headers.get("retry-after")
    if after is None or (seconds := _number(after)) is not None:
        return seconds if after is not None else None
    try:
        return max(0.0, parsedate_to_datetime(after).timestamp() - time.time())
    except ValueError:
        return None


def _number(value: object) -> float | None:
    try:
        number = float(str(value))
    except ValueError:
        return None
    return number if 0 <= number < 1e9 else None  # NaN compares false
