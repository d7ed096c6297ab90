"""Every error response has one meaning, whatever the provider calls it."""

from __future__ import annotations

import email.utils
import time
from typing import Any

import pytest

from tabellion.models.errors import LONGEST_HINT, KeyRefused, ModelError, Rejected, Throttled, Unavailable
from tabellion.models.refusal import clean, error_from_body, error_from_response, pick

RETRY = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "36s"}
QUOTA = {
    "@type": "type.googleapis.com/google.rpc.QuotaFailure",
    "violations": [{"quotaId": "GenerateRequestsPerMinutePerProjectPerModel-FreeTier", "quotaValue": "10"}],
}


def google(code: int, message: str, status: str = "", details: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    return {"error": {"code": code, "message": message, "status": status, "details": details or []}}


def openai(message: str, code: str | None = None, kind: str = "invalid_request_error") -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


CASES: list[tuple[int, object, type[ModelError]]] = [
    (400, google(400, "bad schema", "INVALID_ARGUMENT"), Rejected),
    (400, google(400, "API key not valid. Please pass a valid API key.", "INVALID_ARGUMENT"), KeyRefused),
    (400, google(400, "x", "INVALID_ARGUMENT", [{"reason": "API_KEY_INVALID"}]), KeyRefused),
    (400, google(400, "User location is not supported for the API use.", "FAILED_PRECONDITION"), KeyRefused),
    (400, google(400, "The File is not in an ACTIVE state.", "FAILED_PRECONDITION"), Rejected),
    (401, openai("Incorrect API key provided", "invalid_api_key"), KeyRefused),
    (402, openai("no money"), KeyRefused),
    (403, google(403, "denied", "PERMISSION_DENIED"), KeyRefused),
    (403, openai("flagged", "content_policy_violation"), Rejected),
    (404, google(404, "no such model", "NOT_FOUND"), Rejected),
    (410, "gone", Rejected),
    (413, "large", Rejected),
    (422, {"detail": [{"msg": "field required", "input": "the document"}]}, Rejected),
    (429, google(429, "slow down", "RESOURCE_EXHAUSTED"), Throttled),
    (429, openai("You exceeded your current quota", "insufficient_quota", "insufficient_quota"), KeyRefused),
    (429, {"detail": {"error": "Model busy, retry later"}}, Throttled),
    (503, google(503, "x", "RESOURCE_EXHAUSTED"), Throttled),
    (408, "", Unavailable),
    (409, "", Unavailable),
    (500, google(500, "internal", "INTERNAL"), Unavailable),
    (502, "<html>bad gateway</html>", Unavailable),
    (503, [google(503, "The model is overloaded.", "UNAVAILABLE")], Unavailable),
    (504, None, Unavailable),
    (302, "", Unavailable),
]


@pytest.mark.parametrize(("status", "body", "verdict"), CASES, ids=lambda value: str(value)[:50])
def test_an_error_response_has_one_meaning(status: int, body: object, verdict: type[ModelError]) -> None:
    """The status and the message together decide the class."""
    error = error_from_response("gemini", status, body)
    assert type(error) is verdict
    assert error.status == status
    assert str(error).startswith(f"gemini returned HTTP {status}: ")


def test_the_message_is_understandable() -> None:
    """Who, what, which quota, when again."""
    body = google(429, "Please retry in 36.4s.", "RESOURCE_EXHAUSTED", [QUOTA, RETRY])
    quota = "quota GenerateRequestsPerMinutePerProjectPerModel-FreeTier 10"
    assert (
        str(error_from_response("gemini", 429, body))
        == f"gemini returned HTTP 429: too many requests ({quota}); retry in 36 s"
    )


HINTS: list[tuple[object, dict[str, str], float | None]] = [
    (google(429, "retry in 9s", details=[RETRY]), {"retry-after": "5"}, 36.0),
    (google(429, "", details=[{**RETRY, "retryDelay": "0.5s"}]), {}, 0.5),
    (google(429, "", details=[{**RETRY, "retryDelay": {"seconds": 7}}]), {}, 7.0),
    (google(429, "Please retry in 36.4s."), {"retry-after": "5"}, 36.4),
    (openai("Please try again in 1m26.4s. Visit …"), {}, 86.4),
    (openai("Please try again in 6ms."), {}, 0.006),
    (openai("Please retry after 20 seconds"), {}, 20.0),
    ("<html>Please try again in 30 seconds</html>", {}, 30.0),
    (openai("busy"), {"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
    (openai("busy"), {"retry-after": "9"}, 9.0),
    (openai("busy"), {"retry-after": "soon"}, None),
    (openai("busy"), {"retry-after": "nan"}, None),
    (openai("busy"), {}, None),
    (openai("busy"), {"retry-after": "86400"}, LONGEST_HINT),
]


@pytest.mark.parametrize(("body", "headers", "hint"), HINTS, ids=lambda value: str(value)[:40])
def test_the_servers_retry_hint(body: object, headers: dict[str, str], hint: float | None) -> None:
    """RetryInfo, then the text, then Retry-After; capped; None without one."""
    error = error_from_response("openai", 429, body, headers)
    assert isinstance(error, Throttled)
    assert error.hint == (None if hint is None else pytest.approx(hint))


def test_retry_after_may_be_a_date() -> None:
    """An HTTP date in the future is a number of seconds."""
    error = error_from_response(
        "openai", 429, "", {"retry-after": email.utils.formatdate(time.time() + 100, usegmt=True)}
    )
    assert isinstance(error, Throttled)
    assert error.hint is not None
    assert 90 < error.hint <= 100


def test_a_busy_server_may_say_when() -> None:
    """Retry-After on a 503 is kept for the circuit breaker."""
    error = error_from_response("openai", 503, openai("overloaded"), {"retry-after": "20", "x-request-id": "req_1"})
    assert isinstance(error, Unavailable)
    assert (error.hint, error.request_id) == (20.0, "req_1")


def test_documents_and_keys_stay_out_of_messages() -> None:
    """Only the server's own sentence is shown, cut, and without anything that looks like a key."""
    body = {"detail": [{"msg": "field required", "input": "canary document"}]}
    assert "canary" not in str(error_from_response("openai", 422, body))
    response = openai("Incorrect API key provided: sk-abcdefgh12345678, or canary-key")
    error = error_from_response("openai", 401, response, {}, "canary-key")
    assert "abcdefgh" not in str(error)
    assert "canary" not in str(error)
    assert len(str(error_from_response("openai", 400, openai("x" * 5000)))) < 600


STRANGE: list[object] = [None, 5, [], [[]], {"error": []}, {"error": {"details": "x"}}, {"detail": [3]}, "\x00"]


@pytest.mark.parametrize("body", STRANGE, ids=repr)
def test_an_unexpected_body_is_handled(body: object) -> None:
    """A server may send anything."""
    assert error_from_response("x", 429, body).status == 429


def test_an_error_inside_a_200_is_an_error() -> None:
    """Gateways answer 200 with an error in it; an empty error does not count."""
    assert isinstance(error_from_body("openai", {"error": {"code": 429, "message": "slow down"}}), Throttled)
    assert isinstance(error_from_body("openai", {"error": {"message": "upstream is down"}}), Unavailable)
    assert isinstance(error_from_body("openai", {"error": "upstream is down"}), Unavailable)
    for data in ({}, {"error": None}, {"error": 5}):
        assert error_from_body("openai", data) is None


def test_pick_follows_only_existing_keys() -> None:
    """Missing keys, wrong kinds and short lists are None."""
    assert pick({"a": [{"b": 1}]}, "a", 0, "b") == 1
    assert pick({"a": []}, "a", 0, "b") is None
    assert pick("text", "a") is None
    assert pick(None, 0) is None


def test_clean_is_one_line() -> None:
    """Line breaks are removed, length is limited."""
    assert clean("a\n\n b\tc") == "a b c"
