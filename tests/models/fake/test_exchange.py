"""Every knob, as each official client sees it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import openai as sdk
import pytest
from google import genai
from google.genai import errors, types
from openai import OpenAI

from tabellion.testing import Serving
from tests.engine.made_tables import asynchronous
from tests.models.fake.samples import INVOICE, INVOICE_SCHEMA, chat, generate, send
from tests.waiting import eventually

SERVER = [500, 502, 503, 504]
CLIENT = [400, 401, 402, 403, 404]
STATUS = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    402: "FAILED_PRECONDITION",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    500: "INTERNAL",
    502: "UNAVAILABLE",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
CLASSES = {
    400: sdk.BadRequestError,
    401: sdk.AuthenticationError,
    402: sdk.APIStatusError,
    403: sdk.PermissionDeniedError,
    404: sdk.NotFoundError,
}


def by_google(client: genai.Client, knobs: str, **config: Any) -> types.GenerateContentResponse:
    """Make one call with these knobs."""
    return client.models.generate_content(
        model=f"gemini-2.5-flash@{knobs}", contents=INVOICE, config=types.GenerateContentConfig(**config)
    )


def by_openai(client: OpenAI, knobs: str, **options: Any) -> Any:
    """Make one call with these knobs."""
    messages: Any = [{"role": "user", "content": INVOICE}]
    return client.chat.completions.create(model=f"gpt-4o-mini@{knobs}", messages=messages, **options)


SCHEMA_OF_GOOGLE = {"response_mime_type": "application/json", "response_json_schema": INVOICE_SCHEMA}
SCHEMA_OF_OPENAI = {
    "response_format": {"type": "json_schema", "json_schema": {"name": "invoice", "schema": INVOICE_SCHEMA}}
}


@pytest.mark.parametrize("code", [*CLIENT, *SERVER])
def test_statuses(google: genai.Client, openai: OpenAI, code: int) -> None:
    """Each status has the class, the status word and the body that its client expects."""
    kind = errors.ServerError if code >= 500 else errors.ClientError
    with pytest.raises(kind) as theirs:
        by_google(google, str(code))
    assert (theirs.value.code, theirs.value.status) == (code, STATUS[code])
    assert theirs.value.message
    with pytest.raises(CLASSES.get(code, sdk.InternalServerError)) as ours:
        by_openai(openai, str(code))
    assert ours.value.status_code == code
    assert isinstance(ours.value.body, dict)
    assert ours.value.body["message"]


def test_429_with_every_hint(google: genai.Client, openai: OpenAI) -> None:
    """RetryInfo, QuotaFailure and the sentence from Gemini; the header and the sentence from OpenAI."""
    with pytest.raises(errors.ClientError) as theirs:
        by_google(google, "429=36")
    google_error = theirs.value.details["error"]
    assert google_error["status"] == "RESOURCE_EXHAUSTED"
    assert "Please retry in 36.4s." in google_error["message"]
    kinds = {detail["@type"].rpartition(".")[2]: detail for detail in google_error["details"]}
    assert kinds["RetryInfo"]["retryDelay"] == "36s"
    assert kinds["QuotaFailure"]["violations"][0]["quotaDimensions"]["model"] == "gemini-2.5-flash"
    with pytest.raises(sdk.RateLimitError) as ours:
        by_openai(openai, "429=36")
    assert ours.value.response.headers["retry-after"] == "36"
    assert ours.value.code == "rate_limit_exceeded"
    assert "Please try again in 36.4s." in ours.value.message


@pytest.mark.parametrize(
    ("knob", "header", "sentence"), [("429bare", False, False), ("429text", False, True), ("429header", True, False)]
)
def test_429_with_fewer_hints(fake: Serving, knob: str, header: bool, sentence: bool) -> None:
    """Nothing, only the sentence, or only the header; never the details."""
    for reply in (generate(fake.url, "x", f"m@{knob}"), chat(fake.url, "x", f"m@{knob}")):
        assert reply.status == 429
        assert ("retry-after" in reply.headers) is header
        assert (" in 30.4s." in reply.json["error"]["message"]) is sentence
        assert "details" not in reply.json["error"]
        assert "retry-after-ms" not in reply.headers


def test_requests_above_the_rate_are_refused(fake: Serving) -> None:
    """The burst passes, the next is refused with the time to wait, and after that time one passes again."""
    statuses = [generate(fake.url, "x", "m@rate=2.5").status for _ in range(2)]
    assert statuses == [200, 200]
    refused = next(reply for _ in range(50) if (reply := generate(fake.url, "x", "m@rate=2.5,hint=full")).status == 429)
    info = refused.json["error"]["details"][-1]
    assert 0 < float(info["retryDelay"].removesuffix("s")) <= 0.4
    assert refused.json["error"]["details"][0]["violations"][0]["quotaValue"] == "150"
    assert eventually(lambda: generate(fake.url, "x", "m@rate=2.5").status == 200, within=5)


def test_a_window_counts_the_rate_over_its_length(fake: Serving) -> None:
    """Three in a thousand seconds: the fourth is refused until the first left the window, with or without a hint."""
    model = "m@rate=0.003,window=sliding:1000"
    assert [chat(fake.url, "x", model).status for _ in range(4)] == [200, 200, 200, 429]
    assert 900 < int(chat(fake.url, "x", model).headers["retry-after"]) <= 1000
    bare = chat(fake.url, "x", f"{model},hint=bare")
    assert bare.status == 429
    assert "retry-after" not in bare.headers


def test_probabilities(fake: Serving) -> None:
    """A probability of one half refuses some and answers some."""
    statuses = {chat(fake.url, "x", "m@503=0.5").status for _ in range(40)}
    assert statuses == {200, 503}


def test_error_bodies_in_other_shapes(fake: Serving, google: genai.Client, openai: OpenAI) -> None:
    """A list of one, FastAPI's detail, an HTML page: the clients still see the status."""
    assert isinstance(generate(fake.url, "x", "m@503,errorlist").json, list)
    with pytest.raises(errors.ServerError) as listed:
        by_google(google, "503,errorlist")
    assert listed.value.code == 503
    assert set(chat(fake.url, "x", "m@429,detail").json) == {"detail"}
    with pytest.raises(sdk.RateLimitError) as detailed:
        by_openai(openai, "429,detail")
    assert isinstance(detailed.value.body, dict)
    assert "error" in detailed.value.body["detail"]
    with pytest.raises(errors.ServerError) as page:
        by_google(google, "502,html")
    assert page.value.code == 502
    with pytest.raises(sdk.InternalServerError) as other:
        by_openai(openai, "502,html")
    assert "<html>" in str(other.value.body)


def test_html_instead_of_json(fake: Serving, google: genai.Client) -> None:
    """Status 200 with an HTML page: parsing it as JSON fails."""
    for reply in (generate(fake.url, "x", "m@html"), chat(fake.url, "x", "m@html")):
        assert reply.status == 200
        assert reply.headers["content-type"].startswith("text/html")
        assert reply.body.startswith(b"<!DOCTYPE html>")
    with pytest.raises((errors.UnknownApiResponseError, ValueError)):
        by_google(google, "html")


def test_truncate(google: genai.Client, openai: OpenAI) -> None:
    """Half an object and the limit as the reason."""
    reply = by_google(google, "truncate", **SCHEMA_OF_GOOGLE)
    assert reply.candidates
    assert reply.candidates[0].finish_reason == types.FinishReason.MAX_TOKENS
    assert reply.parsed is None
    choice = by_openai(openai, "truncate", **SCHEMA_OF_OPENAI).choices[0]
    assert choice.finish_reason == "length"
    for text in (reply.text or "", choice.message.content):
        assert text.startswith("{")
        with pytest.raises(json.JSONDecodeError):
            json.loads(text)


def test_empty(google: genai.Client, openai: OpenAI) -> None:
    """No parts, null content."""
    reply = by_google(google, "empty")
    assert reply.candidates
    assert reply.candidates[0].finish_reason == types.FinishReason.MAX_TOKENS
    assert reply.text is None
    choice = by_openai(openai, "empty").choices[0]
    assert (choice.finish_reason, choice.message.content) == ("length", None)


def test_schema(google: genai.Client, openai: OpenAI) -> None:
    """Valid JSON with a required property missing, wrong types and one property too many."""
    texts = [
        by_google(google, "schema", **SCHEMA_OF_GOOGLE).text or "",
        by_openai(openai, "schema", **SCHEMA_OF_OPENAI).choices[0].message.content,
    ]
    for text in texts:
        broken = json.loads(text)
        assert "reference" not in broken
        assert not isinstance(broken["total"], int | float)
        assert broken["unexpected"] is True


def test_repeat(google: genai.Client, openai: OpenAI) -> None:
    """A loop up to the token limit that was set."""
    reply = by_google(google, "repeat", max_output_tokens=500)
    assert reply.candidates
    assert reply.candidates[0].finish_reason == types.FinishReason.MAX_TOKENS
    assert reply.usage_metadata
    assert reply.usage_metadata.candidates_token_count == 500
    choice = by_openai(openai, "repeat", max_tokens=500, **SCHEMA_OF_OPENAI).choices[0]
    assert choice.finish_reason == "length"
    for text in (reply.text or "", choice.message.content):
        assert len(text) == 2000
        assert len(set(text[-200:])) < 15


def test_block(google: genai.Client, openai: OpenAI) -> None:
    """A blocked prompt without candidates; a content filter."""
    reply = by_google(google, "block")
    assert reply.prompt_feedback
    assert reply.prompt_feedback.block_reason == types.BlockedReason.PROHIBITED_CONTENT
    assert not reply.candidates
    choice = by_openai(openai, "block").choices[0]
    assert (choice.finish_reason, choice.message.content) == ("content_filter", None)


def test_thought(google: genai.Client, openai: OpenAI) -> None:
    """A first part that is not the answer; with OpenAI it is in a separate field."""
    reply = by_google(google, "thought")
    assert reply.parts
    assert reply.parts[0].thought
    assert reply.text == INVOICE
    message = by_openai(openai, "thought").choices[0].message
    assert message.reasoning_content
    assert message.content == INVOICE


def test_huge(google: genai.Client, openai: OpenAI) -> None:
    """A reply of as many megabytes as requested, whole or streamed."""
    assert len(by_google(google, "huge=2").text or "") == 2 * 1024 * 1024
    assert len(by_openai(openai, "huge=3").choices[0].message.content) == 3 * 1024 * 1024
    streamed = by_openai(openai, "huge=1", stream=True)
    assert sum(len(chunk.choices[0].delta.content or "") for chunk in streamed if chunk.choices) == 1024 * 1024


def test_reset(google: genai.Client, openai: OpenAI) -> None:
    """The connection ends within the body."""
    with pytest.raises(Exception, match=r"closed connection|incomplete"):
        by_google(google, "reset")
    with pytest.raises(sdk.APIConnectionError):
        by_openai(openai, "reset")


def test_hang(fake: Serving, openai: OpenAI) -> None:
    """No answer: the client's own timeout ends it; the log has it from the start, with status 0."""
    client = genai.Client(api_key="k", http_options=types.HttpOptions(base_url=fake.url, timeout=300))
    with pytest.raises(Exception, match=r"[Tt]ime"):
        client.models.generate_content(model="gemini-hanging@hang", contents="x")
    client.close()
    with pytest.raises(sdk.APITimeoutError):
        by_openai(openai, "hang", timeout=0.3)
    [line] = eventually(lambda: [line for line in fake.lines() if line["model"] == "gemini-hanging"])
    assert (line["status"], line["knob"]) == (0, "hang")


@asynchronous
async def test_drip(fake: Serving) -> None:
    """Bytes come forever: a timeout between two of them does not fire, only a total deadline."""
    options = types.HttpOptions(base_url=fake.url, timeout=1000)
    async with genai.Client(api_key="k", http_options=options).aio as theirs:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(theirs.models.generate_content(model="m@drip", contents="x"), 1.5)
    async with sdk.AsyncOpenAI(api_key="k", base_url=fake.url, timeout=1, max_retries=0) as ours:
        asked = ours.chat.completions.create(model="m@drip", messages=[{"role": "user", "content": "x"}])
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asked, 1.5)


def test_latency_comes_before_answers_and_server_errors(fake: Serving) -> None:
    """The log has at least that many seconds; a 429 comes at once."""
    generate(fake.url, "x", "late@latency=0.2")
    generate(fake.url, "x", "late-503@latency=0.2,503")
    generate(fake.url, "x", "late-429@latency=60,429")
    seconds = {line["model"]: line["seconds"] for line in fake.lines()}
    assert seconds["late"] >= 0.2
    assert seconds["late-503"] >= 0.2
    assert seconds["late-429"] < 60


def test_a_header_sets_knobs_too(fake: Serving) -> None:
    """x-fake overrides the model's name."""
    assert generate(fake.url, "x", headers={"x-fake": "503"}).status == 503
    assert chat(fake.url, "x", "m@429", {"x-fake": "429=7"}).headers["retry-after"] == "7"


def test_an_unknown_knob_is_rejected(fake: Serving) -> None:
    """With the list of known ones."""
    reply = generate(fake.url, "x", "m@slow")
    assert reply.status == 400
    assert "unknown knob 'slow'" in reply.json["error"]["message"]


def test_knobs_change_streams_too(google: genai.Client, openai: OpenAI) -> None:
    """A truncated, a blocked and a cut stream."""
    chunks = list(google.models.generate_content_stream(model="m@truncate", contents=INVOICE))
    assert chunks[-1].candidates
    assert chunks[-1].candidates[0].finish_reason == types.FinishReason.MAX_TOKENS
    blocked = list(google.models.generate_content_stream(model="m@block", contents=INVOICE))
    assert blocked[0].prompt_feedback
    assert [chunk.choices[0].finish_reason for chunk in by_openai(openai, "truncate", stream=True)][-1] == "length"
    with pytest.raises(sdk.APIConnectionError):
        list(by_openai(openai, "reset", stream=True))


def test_percent_signs_and_colons_in_a_path(fake: Serving) -> None:
    """A model's name may be percent-encoded; the method follows the last colon."""
    body = {"contents": [{"parts": [{"text": "x"}]}]}
    path = "/v1beta/models/m%40latency%3Dexp%3A0.001%2C503%3D0%25:generateContent?key=k"
    assert send(fake.url, path, body).status == 200
