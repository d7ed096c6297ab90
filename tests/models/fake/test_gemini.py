"""Gemini's protocol, checked with Google's own client, and by hand where it cannot go."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any, Literal

import pytest
from google import genai
from google.genai import errors, types
from pydantic import BaseModel

from tabellion.testing import Serving
from tests.models.fake.samples import GOOGLE, INVOICE, INVOICE_SCHEMA, generate, pdf, png, send

MODEL = "gemini-2.5-flash"


class Invoice(BaseModel):
    """A schema as people write it."""

    vendor_name: str
    total: float
    currency: Literal["USD", "CAD"]
    iban: str | None
    tags: list[str] = []


def test_a_pdf_becomes_an_object(google: genai.Client) -> None:
    """Inline bytes and a response schema: the parsed object, usage, finish, version and id."""
    part: Any = types.Part.from_bytes(data=pdf(INVOICE), mime_type="application/pdf")
    config = types.GenerateContentConfig(response_mime_type="application/json", response_schema=Invoice)
    reply = google.models.generate_content(model=MODEL, contents=[part, "Extract."], config=config)
    assert reply.parsed == Invoice(
        vendor_name="Acme Widgets", total=1234.56, currency="CAD", iban=None, tags=["office", "paper"]
    )
    assert reply.candidates
    assert reply.candidates[0].finish_reason == types.FinishReason.STOP
    assert (reply.model_version, bool(reply.response_id)) == (MODEL, True)
    usage = reply.usage_metadata
    assert usage
    assert usage.prompt_token_count == 258 + 2
    counted = (usage.prompt_token_count, usage.candidates_token_count or 0, usage.thoughts_token_count or 0)
    assert all(counted)
    assert usage.total_token_count == sum(counted)
    assert {detail.modality for detail in usage.prompt_tokens_details or []} == {
        types.MediaModality.DOCUMENT,
        types.MediaModality.TEXT,
    }


def test_a_plain_json_schema(google: genai.Client) -> None:
    """response_json_schema works too."""
    config = types.GenerateContentConfig(response_mime_type="application/json", response_json_schema=INVOICE_SCHEMA)
    reply = google.models.generate_content(model=MODEL, contents=INVOICE, config=config)
    assert isinstance(reply.parsed, dict)
    assert reply.parsed["due_date"] == "2026-11-30"


def test_without_thinking_there_are_no_thoughts(google: genai.Client) -> None:
    """A thinking budget of zero costs nothing; include_thoughts shows a thought that `text` leaves out."""
    none = types.GenerateContentConfig(thinking_config=types.ThinkingConfig(thinking_budget=0))
    reply = google.models.generate_content(model=MODEL, contents="hello", config=none)
    assert reply.usage_metadata
    assert reply.usage_metadata.thoughts_token_count is None
    shown = types.GenerateContentConfig(thinking_config=types.ThinkingConfig(include_thoughts=True))
    reply = google.models.generate_content(model=MODEL, contents="hello", config=shown)
    assert reply.parts
    assert reply.parts[0].thought
    assert reply.text == "hello"


def test_a_stream_has_the_same_text(google: genai.Client) -> None:
    """Several chunks, the finish and the usage with the last, here and with the async client."""
    chunks = list(google.models.generate_content_stream(model=MODEL, contents=INVOICE))
    assert len(chunks) > 3
    assert "".join(chunk.text or "" for chunk in chunks) == INVOICE
    assert chunks[-1].usage_metadata
    assert chunks[0].usage_metadata is None
    assert chunks[-1].candidates
    assert chunks[-1].candidates[0].finish_reason == types.FinishReason.STOP

    async def gather() -> str:
        async with google.aio as client:
            stream = await client.models.generate_content_stream(model=MODEL, contents=INVOICE)
            return "".join([chunk.text or "" async for chunk in stream])

    assert asyncio.run(gather()) == INVOICE


def test_tokens_and_models(google: genai.Client) -> None:
    """countTokens, the list of models, and a model by name."""
    part: Any = types.Part.from_bytes(data=pdf("a", "b"), mime_type="application/pdf")
    assert google.models.count_tokens(model=MODEL, contents=[part, "12345678"]).total_tokens == 2 * 258 + 2
    assert f"models/{MODEL}" in [model.name for model in google.models.list()]
    assert google.models.get(model=MODEL).output_token_limit == 65_536


@pytest.mark.parametrize(
    ("key", "code", "said"), [("bad-key", 400, "API_KEY_INVALID"), ("", 403, "unregistered callers")]
)
def test_an_invalid_key(fake: Serving, key: str, code: int, said: str) -> None:
    """A wrong key is a 400 with API_KEY_INVALID, none at all a 403."""
    reply = send(fake.url, f"/v1beta/models/{MODEL}:generateContent", {}, {"x-goog-api-key": key})
    assert reply.status == code
    assert said in json.dumps(reply.json)


def test_the_client_sees_a_wrong_key(fake: Serving) -> None:
    """ClientError with the reason in its details."""
    client = genai.Client(api_key="bad-key", http_options=types.HttpOptions(base_url=fake.url))
    with pytest.raises(errors.ClientError) as raised:
        client.models.generate_content(model=MODEL, contents="hello")
    client.close()
    assert (raised.value.code, raised.value.status) == (400, "INVALID_ARGUMENT")
    assert raised.value.details["error"]["details"][0]["reason"] == "API_KEY_INVALID"


@pytest.mark.parametrize("version", ["v1", "v1beta"])
@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode])
def test_every_spelling_by_hand(fake: Serving, version: str, encode: object) -> None:
    """Both versions, both cases, both base64 alphabets, and the key in the URL."""
    data = encode(pdf(INVOICE)).decode()  # type: ignore[operator]
    camel = {
        "contents": [{"role": "user", "parts": [{"inlineData": {"mimeType": "application/pdf", "data": data}}]}],
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "generationConfig": {"responseMimeType": "application/json", "responseSchema": INVOICE_SCHEMA},
    }
    snake = {
        "contents": {"parts": {"inline_data": {"mime_type": "application/pdf", "data": data}}},
        "system_instruction": {"parts": [{"text": "Be brief."}]},
        "generation_config": {"response_mime_type": "application/json", "response_schema": INVOICE_SCHEMA},
    }
    path = f"/{version}/models/{MODEL}:generateContent?key=k"
    first, second = send(fake.url, path, camel), send(fake.url, path, snake)
    assert first.body == second.body
    assert json.loads(first.json["candidates"][0]["content"]["parts"][0]["text"])["total"] == 1234.56


def test_the_same_content_gets_the_same_bytes(fake: Serving) -> None:
    """The same request twice gives the same body, byte for byte."""
    assert generate(fake.url, "hello").body == generate(fake.url, "hello").body


def test_a_stream_without_sse_is_a_list(fake: Serving) -> None:
    """Without alt=sse the chunks are one JSON list."""
    body = {"contents": [{"parts": [{"text": INVOICE}]}]}
    reply = send(fake.url, f"/v1beta/models/{MODEL}:streamGenerateContent", body, GOOGLE)
    texts = [chunk["candidates"][0]["content"]["parts"][0]["text"] for chunk in reply.json]
    assert "".join(texts) == INVOICE


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"{", "Invalid JSON payload"),
        (b"[1]", "Expected an object"),
        ({"contents": []}, "contents is not specified"),
        ({"contents": [7]}, "Expected an object, found 7"),
        ({"contents": [{"parts": [{"inlineData": {"data": "§"}}]}]}, "base64 decoding failed"),
        ({"contents": [{"parts": [{"inlineData": {"data": "AAAA", "mimeType": "application/pdf"}}]}]}, "has no pages"),
        ({"contents": [{"parts": [{"fileData": {"fileUri": "files/nope"}}]}]}, "it may not exist"),
        ({"contents": "x", "generationConfig": {"maxOutputTokens": "many"}}, "TYPE_INT32"),
        ({"contents": "x", "generationConfig": {"responseSchema": {"enum": {"a": 1}}}}, "Invalid schema"),
    ],
)
def test_an_invalid_request(fake: Serving, body: object, said: str) -> None:
    """Rejected in Google's way, never a server error; a file that does not exist is a forbidden one."""
    reply = send(fake.url, f"/v1beta/models/{MODEL}:generateContent", body, GOOGLE)
    assert reply.status == (403 if said == "it may not exist" else 400)
    assert said in reply.json["error"]["message"]


def test_an_unknown_method_is_not_found(fake: Serving) -> None:
    """404, with the known ones."""
    reply = send(fake.url, f"/v1beta/models/{MODEL}:dance", {}, GOOGLE)
    assert reply.status == 404
    assert "generateContent" in reply.json["error"]["message"]


def test_an_image_counts_as_a_page(google: genai.Client) -> None:
    """258 tokens, and its size in the answer."""
    part: Any = types.Part.from_bytes(data=png(30, 40), mime_type="image/png")
    reply = google.models.generate_content(model=MODEL, contents=[part])
    assert "30x40" in (reply.text or "")
    assert reply.usage_metadata
    assert reply.usage_metadata.prompt_token_count == 258
