"""Gemini's errors, with Google's texts and the details that clients use."""

from __future__ import annotations

from typing import Any

from tabellion.models.fake.wire import RetryHint

STATUSES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    402: "FAILED_PRECONDITION",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    502: "UNAVAILABLE",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
MESSAGES = {
    400: "Request contains an invalid argument.",
    401: "Request had invalid authentication credentials. Expected OAuth 2 access token, login cookie or other valid "
    "authentication credential.",
    402: "Your prepayment credits are depleted. Please go to AI Studio to manage your billing.",
    403: "Permission denied: Consumer has been suspended.",
    404: "models/{model} is not found for API version v1beta, or is not supported for generateContent. Call ListModels "
    "to see the list of available models and their supported methods.",
    429: "Resource has been exhausted (e.g. check quota).",
    500: "An internal error has occurred. Please retry or report.",
    502: "Bad gateway.",
    503: "The model is overloaded. Please try again later.",
    504: "Deadline expired before operation could complete.",
}
QUOTA = (
    "You exceeded your current quota, please check your plan and billing details. For more information on this error, "
    "head to: https://ai.google.dev/gemini-api/docs/rate-limits. Please retry in {seconds:g}s."
)
_RPC = "type.googleapis.com/google.rpc."
_SERVER = "generativelanguage.googleapis.com"


def error(
    status: int, message: str = "", hint: RetryHint | None = None, model: str = ""
) -> tuple[dict[str, Any], dict[str, str]]:
    """An error's body and headers."""
    details: list[dict[str, Any]] = []
    headers: dict[str, str] = {}
    if hint is not None and hint.form == "header":
        headers = hint.header
    elif hint is not None and hint.form != "bare":
        message = QUOTA.format(seconds=hint.message_seconds)
        if hint.form == "full":
            details = _quota(hint, model)
    elif status == 403 and not message:
        details = [_reason("CONSUMER_SUSPENDED")]
    return _body(status, message or MESSAGES[status].format(model=model), details), headers


def no_key() -> dict[str, Any]:
    """The error for a request without a key."""
    return _body(
        403,
        "Method doesn't allow unregistered callers (callers without established identity). Please use API Key or other "
        "form of API consumer identity to call this API.",
        [],
    )


def invalid_key() -> dict[str, Any]:
    """The error for a request with a wrong key: a 400, not a 401."""
    message = "API key not valid. Please pass a valid API key."
    localized = {"@type": f"{_RPC}LocalizedMessage", "locale": "en-US", "message": message}
    return _body(400, message, [_reason("API_KEY_INVALID"), localized])


def _body(status: int, message: str, details: list[dict[str, Any]]) -> dict[str, Any]:
    error: dict[str, Any] = {"code": status, "message": message, "status": STATUSES.get(status, "UNKNOWN")}
    return {"error": error | {"details": details} if details else error}


def _reason(reason: str) -> dict[str, Any]:
    return {
        "@type": f"{_RPC}ErrorInfo",
        "reason": reason,
        "domain": "googleapis.com",
        "metadata": {"service": _SERVER},
    }


def _quota(hint: RetryHint, model: str) -> list[dict[str, Any]]:
    violation = {
        "quotaMetric": f"{_SERVER}/generate_content_free_tier_requests",
        "quotaId": "GenerateRequestsPerMinutePerProjectPerModel-FreeTier",
        "quotaDimensions": {"location": "global", "model": model},
        "quotaValue": f"{hint.quota:g}",
    }
    links = [
        {
            "description": "Learn more about Gemini API quotas",
            "url": "https://ai.google.dev/gemini-api/docs/rate-limits",
        }
    ]
    return [
        {"@type": f"{_RPC}QuotaFailure", "violations": [violation]},
        {"@type": f"{_RPC}Help", "links": links},
        {"@type": f"{_RPC}RetryInfo", "retryDelay": f"{hint.seconds:g}s"},
    ]
