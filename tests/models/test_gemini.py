"""Gemini through its real SDK, against the fake and against scripted answers."""

from __future__ import annotations

import asyncio
import base64
import json
import sys
from typing import Any

import pytest

from tabellion.errors import ConfigurationError
from tabellion.models.base import Ask, Blob
from tabellion.models.errors import BadOutput, Fault, KeyRefused, ModelError, Rejected, Throttled, Unavailable
from tabellion.models.fake.serving import Serving
from tabellion.models.gemini import Gemini
from tests.models.asking import BAD, CANARY, KEY, PAGE, SCHEMA, TEXT, ask, failing, png
from tests.models.scripted import Answer, RecordedRequest, scripted


def gemini(fake: Serving, knobs: str = "", **settings: Any) -> Gemini:
    model = f"gemini-2.5-flash@{knobs}" if knobs else "gemini-2.5-flash"
    return Gemini(KEY, fake.url, model, **settings)


@pytest.mark.parametrize("version", [None, "v1", "v1beta"])
def test_fields_are_filled_in(fake: Serving, version: str | None) -> None:
    """A schema gets an object, with its tokens and its price."""
    reply = ask(gemini(fake, api_version=version), [PAGE, TEXT], SCHEMA)
    assert reply.object["vendor"] == "Acme Ltd"
    assert reply.object["total"] == 118.0
    assert json.loads(reply.text)["vendor"] == "Acme Ltd"
    assert reply.usage.input > 258
    assert reply.usage.output > 0
    assert reply.cost == pytest.approx((reply.usage.input * 0.30 + reply.usage.output * 2.50) / 1e6)
    assert (reply.model, reply.finish) == ("gemini-2.5-flash", "stop")
    assert reply.request_id
    assert reply.seconds > 0


def test_text_is_answered_with_text(fake: Serving) -> None:
    """Without a schema the text is the answer."""
    assert "Acme Ltd" in ask(gemini(fake)).text


def test_the_version_may_be_in_the_url(fake: Serving) -> None:
    """People copy whole URLs."""
    model = Gemini(KEY, f"{fake.url}/v1beta/")
    assert (model.base_url, model.api_version) == (fake.url, "v1beta")
    assert ask(model).text


def test_thoughts_are_paid_and_left_out(fake: Serving) -> None:
    """They are skipped in the text and counted in the price."""
    reply = ask(gemini(fake, "thought"), schema=SCHEMA)
    assert reply.object["vendor"] == "Acme Ltd"
    assert reply.usage.thoughts > 0


ERRORS: list[tuple[str, type[ModelError], str]] = [
    ("400", Rejected, "gemini returned HTTP 400: bad request"),
    ("401", KeyRefused, "gemini returned HTTP 401: the key was rejected"),
    ("402", KeyRefused, "gemini returned HTTP 402"),
    ("403", KeyRefused, "gemini returned HTTP 403: the key is not allowed to do this"),
    ("404", Rejected, "gemini returned HTTP 404: not found"),
    ("429=36", Throttled, "gemini returned HTTP 429: too many requests (quota Generate"),
    ("429bare", Throttled, "gemini returned HTTP 429: too many requests: Resource has been exhausted"),
    ("429=36,errorlist", Throttled, "gemini returned HTTP 429: too many requests (quota Generate"),
    ("429=36,html", Throttled, "gemini returned HTTP 429: too many requests"),
    ("500", Unavailable, "gemini returned HTTP 500: internal error"),
    ("502", Unavailable, "gemini returned HTTP 502: bad gateway"),
    ("503", Unavailable, "gemini returned HTTP 503: unavailable: The model is overloaded"),
    ("503,html", Unavailable, "gemini returned HTTP 503: unavailable: a web page"),
    ("504", Unavailable, "gemini returned HTTP 504"),
    ("reset", Unavailable, "gemini closed the connection"),
    ("block", Rejected, "gemini refused the request: blocked as PROHIBITED_CONTENT"),
]


@pytest.mark.parametrize(("knob", "kind", "says"), ERRORS)
def test_every_failure_has_its_class(fake: Serving, knob: str, kind: type[ModelError], says: str) -> None:
    """The right class and a message a person understands."""
    error = failing(kind, gemini(fake, knob), schema=SCHEMA)
    assert str(error).startswith(says)
    if knob[:3].isdigit():
        assert error.status == int(knob[:3])


@pytest.mark.parametrize(
    ("knob", "hint"), [("429=36", 36.0), ("429text=36", 36.4), ("429header=36", 36.0), ("429bare", None)]
)
def test_the_servers_retry_hint_is_used(fake: Serving, knob: str, hint: float | None) -> None:
    """RetryInfo, then the text, then the header."""
    error = failing(Throttled, gemini(fake, knob))
    assert error.hint == hint


@pytest.mark.parametrize(("knob", "fault", "hint"), BAD)
def test_every_bad_answer_has_its_fault(fake: Serving, knob: str, fault: Fault, hint: dict[str, Any]) -> None:
    """Never a result; the hint says what to do differently, and the cost is kept."""
    error = failing(BadOutput, gemini(fake, knob), schema=SCHEMA)
    assert (error.fault, error.hint) == (fault, hint)
    if fault not in ("html", "too_large"):
        assert error.cost
        assert error.usage.input
    if fault not in ("empty", "too_large"):
        assert error.raw


@pytest.mark.parametrize("knob", ["hang", "drip", "latency=30"])
def test_the_deadline_ends_everything(fake: Serving, knob: str) -> None:
    """A server that hangs, drips or is slow is abandoned."""
    error = failing(Unavailable, gemini(fake, knob), asked=Ask(deadline=0.5))
    assert str(error) == "gemini: no complete answer within 0.5 s"


def test_a_wrong_key_is_not_an_error_of_the_request(fake: Serving) -> None:
    """Google says 400; it is still the key."""
    failing(KeyRefused, Gemini("bad-key", fake.url))


def test_a_refused_connection() -> None:
    """It is an outage, not an error of the request."""
    assert "cannot be reached" in str(failing(Unavailable, Gemini(KEY, "http://127.0.0.1:9")))


def test_large_files_are_uploaded_and_deleted(fake: Serving) -> None:
    """Files that do not fit into the request use the Files API; smaller parts stay inline."""
    large = Blob(png(100, 100) + b"\x00" * 3000, "image/png")

    async def story() -> tuple[str, list[Any]]:
        import httpx2

        model = gemini(fake, inline_limit=2000)
        reply = await model.call([large, PAGE, TEXT], None, Ask(deadline=20))
        await model.close()
        async with httpx2.AsyncClient() as http:
            left = await http.get(f"{fake.url}/v1beta/files", headers={"x-goog-api-key": KEY})
        return reply.text, left.json().get("files", [])

    text, left = asyncio.run(story())
    assert "100x100" in text
    assert left == []


@pytest.mark.parametrize("knob", ["503", "hang"])
def test_uploads_are_deleted_after_a_failure(fake: Serving, knob: str) -> None:
    """Also when the call fails or times out."""
    large = Blob(b"x" * 3000, "image/png")

    async def story() -> list[Any]:
        import httpx2

        model = gemini(fake, knob, inline_limit=2000)
        with pytest.raises(Unavailable):
            await model.call([large], None, Ask(deadline=2))
        await model.close()
        async with httpx2.AsyncClient() as http:
            left = await http.get(f"{fake.url}/v1beta/files", headers={"x-goog-api-key": KEY})
        return list(left.json().get("files", []))

    assert asyncio.run(story()) == []


def answer(text: str = "ok", finish: str = "STOP", **more: Any) -> Answer:
    content = {"role": "model", "parts": [{"text": text}]}
    return Answer({"candidates": [{"content": content, "finishReason": finish}], **more})


def exchange(
    model_settings: dict[str, Any], script: Any, asked: Ask, schema: Any = None
) -> tuple[Any, list[RecordedRequest]]:
    """One call to a scripted server: its result, and the requests the server got."""

    async def story() -> tuple[Any, list[RecordedRequest]]:
        async with scripted(script) as server:
            model = Gemini(KEY, server.url, **model_settings)
            try:
                return await model.call([PAGE, TEXT], schema, asked), server.asked
            except ModelError as error:
                return error, server.asked
            finally:
                await model.close()

    return asyncio.run(story())


def test_a_request_has_what_was_asked_for() -> None:
    """Inline bytes, schema verbatim, system text, temperature, thinking budget, room for thoughts; one request."""
    asked = Ask(system="Be exact.", temperature=0.3, max_tokens=100, thinking=50)
    reply, [request] = exchange({}, [answer('{"vendor": "A", "total": 1}')], asked, SCHEMA)
    assert reply.object == {"vendor": "A", "total": 1}
    assert request.path == "/v1/models/gemini-2.5-flash:generateContent"
    assert request.headers["x-goog-api-key"] == KEY
    assert KEY not in request.path
    body = request.json
    page, text = body["contents"][0]["parts"]
    assert base64.urlsafe_b64decode(page["inlineData"]["data"]) == PAGE.data
    assert text["text"] == TEXT
    config = body["generationConfig"]
    assert config["responseJsonSchema"] == SCHEMA
    assert config["responseMimeType"] == "application/json"
    assert (config["temperature"], config["maxOutputTokens"]) == (0.3, 150)
    assert config["thinkingConfig"] == {"thinking_budget": 50}
    assert body["systemInstruction"]["parts"][0]["text"] == "Be exact."


@pytest.mark.parametrize(
    ("model", "thinking", "sent"),
    [("gemini-2.5-flash", 0, 0), ("gemini-2.5-pro", 0, 128), ("gemini-2.5-pro", None, None), ("gemini-3-flash", 9, 9)],
)
def test_thinking_is_reduced_as_far_as_the_model_allows(model: str, thinking: int | None, sent: int | None) -> None:
    """The pro models cannot disable thinking; None leaves it to Google."""
    _, [request] = exchange({"model": model}, [answer()], Ask(thinking=thinking))
    config = request.json["generationConfig"].get("thinkingConfig")
    assert (None if config is None else next(iter(config.values()))) == sent


@pytest.mark.parametrize("finish", ["SAFETY", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII"])
def test_blocked_answers_are_final_and_paid(finish: str) -> None:
    """A retry would not help, and the input was billed."""
    usage = {"promptTokenCount": 1_000_000}
    error, _ = exchange({}, [answer("", finish, usageMetadata=usage)], Ask())
    assert isinstance(error, Rejected)
    assert error.cost == pytest.approx(0.30)


@pytest.mark.parametrize("finish", ["RECITATION", "OTHER", "MALFORMED_RESPONSE"])
def test_other_empty_answers_are_retried(finish: str) -> None:
    """A higher temperature may help."""
    error, _ = exchange({}, [answer("", finish)], Ask())
    assert isinstance(error, BadOutput)
    assert (error.fault, error.hint) == ("empty", {"temperature": 0.2})


STRANGE: list[Any] = [
    {}, {"candidates": []}, {"candidates": [None]}, {"candidates": {"a": 1}},
    {"candidates": [{"content": {"parts": "x"}}]},
    {"candidates": [{"content": {"parts": [None, {"text": 5}]}}], "usageMetadata": {"promptTokenCount": "many"}},
    {"usageMetadata": 5, "modelVersion": {}, "responseId": []},
]  # fmt: skip


@pytest.mark.parametrize("body", STRANGE, ids=str)
def test_unexpected_answers_are_bad_output(body: Any) -> None:
    """Whatever shape the body has."""
    error, _ = exchange({}, [Answer(body)], Ask())
    assert isinstance(error, BadOutput)
    assert error.fault == "empty"


def test_redirects_are_not_followed() -> None:
    """The key and the document go to the configured address and nowhere else."""
    elsewhere = Answer(b"", 307, {"location": "http://127.0.0.1:9/"})
    error, asked = exchange({}, [elsewhere], Ask())
    assert isinstance(error, Unavailable)
    assert "redirects are not followed" in str(error)
    assert len(asked) == 1


def test_an_upload_goes_to_the_configured_host() -> None:
    """The URL in an answer does not decide where documents are sent."""
    start = Answer(b"", 200, {"x-goog-upload-url": "http://evil.example/upload/v1/files?upload_id=7"})
    file = {"file": {"name": "files/a", "uri": "https://x/files/a", "state": "ACTIVE"}}
    reply, asked = exchange({"inline_limit": 10}, [start, Answer(file), answer(), Answer({})], Ask())
    assert reply.text == "ok"
    assert [request.method for request in asked] == ["POST", "POST", "POST", "DELETE"]
    assert asked[1].path == "/upload/v1/files?upload_id=7"
    assert asked[1].body == PAGE.data


def test_a_busy_upload_is_not_retried_here() -> None:
    """Only the engine retries."""
    error, asked = exchange({"inline_limit": 10}, [Answer({"error": {"message": "busy"}}, 503)], Ask())
    assert isinstance(error, Unavailable)
    assert len(asked) == 1


def test_without_the_package_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing extra is a configuration error."""
    monkeypatch.setitem(sys.modules, "google.genai", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'tabellion\[gemini\]'"):
        ask(Gemini(KEY, "http://127.0.0.1:9"))


def test_one_model_serves_several_loops(fake: Serving) -> None:
    """Handlers that are plain functions have a loop each."""
    model = gemini(fake)
    assert ask(model).text == ask(model).text
    assert CANARY in ask(model).text
