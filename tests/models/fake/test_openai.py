"""OpenAI's protocol, checked with OpenAI's own client, and by hand where it cannot go."""

from __future__ import annotations

import base64
from typing import Any, Literal

import openai as sdk
import pytest
from openai import OpenAI
from pydantic import BaseModel

from tabellion.testing import Serving
from tests.models.fake.samples import BEARER, GOOGLE, INVOICE, chat, pdf, png, send

MODEL = "gpt-4o-mini"
OLMOCR = "allenai/olmOCR-2-7B-1025"


class Invoice(BaseModel):
    """A schema as people write it."""

    vendor_name: str
    total: float
    currency: Literal["USD", "CAD"]
    iban: str | None


def picture(width: int, height: int) -> dict[str, Any]:
    url = "data:image/png;base64," + base64.b64encode(png(width, height)).decode()
    return {"type": "image_url", "image_url": {"url": url}}


def test_a_text_becomes_an_object(openai: OpenAI) -> None:
    """`parse` with a pydantic model: the parsed object, usage, finish, id."""
    reply = openai.chat.completions.parse(
        model=MODEL,
        messages=[{"role": "system", "content": "Total: 7"}, {"role": "user", "content": INVOICE}],
        response_format=Invoice,
    )
    assert reply.choices[0].message.parsed == Invoice(
        vendor_name="Acme Widgets", total=1234.56, currency="CAD", iban=None
    )
    assert (reply.choices[0].finish_reason, reply.model) == ("stop", MODEL)
    assert reply._request_id
    assert reply._request_id.startswith("req_")
    assert reply.usage
    assert reply.usage.total_tokens == reply.usage.prompt_tokens + reply.usage.completion_tokens > 0


def test_a_pdf_as_a_file_part(openai: OpenAI) -> None:
    """A data URL in file_data."""
    data = "data:application/pdf;base64," + base64.b64encode(pdf(INVOICE)).decode()
    reply = openai.chat.completions.create(
        model=MODEL,
        messages=[{"role": "user", "content": [{"type": "file", "file": {"filename": "i.pdf", "file_data": data}}]}],
    )
    assert reply.choices[0].message.content == INVOICE
    assert reply.usage
    assert reply.usage.prompt_tokens == 258


def test_olmocr_reads_an_image(openai: OpenAI) -> None:
    """Markdown after front matter, and DeepInfra's estimated cost; rotate90 asks for a rotation."""

    def read(model: str, width: int, height: int) -> Any:
        content: Any = [{"type": "text", "text": "Read."}, picture(width, height)]
        return openai.chat.completions.create(model=model, messages=[{"role": "user", "content": content}])

    reply = read(OLMOCR, 30, 40)
    assert reply.choices[0].message.content.startswith("---\nprimary_language: en\nis_rotation_valid: True\n")
    assert "Picture 30x40" in reply.choices[0].message.content
    assert reply.usage.estimated_cost > 0
    assert "rotation_correction: 90" in read(f"{OLMOCR}@rotate90", 30, 40).choices[0].message.content
    assert "rotation_correction: 0" in read(f"{OLMOCR}@rotate90", 40, 30).choices[0].message.content


def test_json_object(openai: OpenAI) -> None:
    """The weaker response format gives an object too."""
    reply = openai.chat.completions.create(
        model=MODEL, messages=[{"role": "user", "content": INVOICE}], response_format={"type": "json_object"}
    )
    assert '"invoice_number": "INV-2026-117"' in (reply.choices[0].message.content or "")


def test_a_stream_has_the_same_text(openai: OpenAI) -> None:
    """Several chunks, the finish with the last, usage after it on request."""
    stream = openai.chat.completions.create(
        model=MODEL,
        messages=[{"role": "user", "content": INVOICE}],
        stream=True,
        stream_options={"include_usage": True},
    )
    chunks = list(stream)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == INVOICE
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] == "stop"
    assert chunks[-1].usage


@pytest.mark.parametrize("base", ["", "/v1", "/v1/openai", "/v1beta/openai"])
def test_every_base_url(fake: Serving, base: str) -> None:
    """OpenAI's, DeepInfra's and Gemini's compatible one; models are listed under each."""
    with OpenAI(api_key="k", base_url=f"{fake.url}{base}", max_retries=0) as client:
        reply = client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": "hello"}])
        assert reply.choices[0].message.content == "hello"
        assert OLMOCR in [model.id for model in client.models.list()]


def test_one_path_for_two_protocols(fake: Serving, openai: OpenAI) -> None:
    """GET /v1/models is OpenAI's with a bearer token and Gemini's with a Google key; so is one model."""
    assert "data" in send(fake.url, "/v1/models", None, BEARER, "GET").json
    assert "models" in send(fake.url, "/v1/models", None, GOOGLE, "GET").json
    assert openai.models.retrieve(MODEL).id == MODEL


def test_keys(fake: Serving) -> None:
    """A wrong key and none at all are both 401, with different messages."""
    wrong = OpenAI(api_key="bad-key", base_url=f"{fake.url}/v1", max_retries=0)
    with wrong as client, pytest.raises(sdk.AuthenticationError) as raised:
        client.models.list()
    assert raised.value.code == "invalid_api_key"
    reply = send(fake.url, "/v1/chat/completions", {})
    assert (reply.status, reply.json["error"]["code"]) == (401, None)
    assert "didn't provide an API key" in reply.json["error"]["message"]


def test_the_same_content_gets_the_same_bytes(fake: Serving) -> None:
    """Only the request id in the header differs."""
    first, second = chat(fake.url, "hello"), chat(fake.url, "hello")
    assert first.body == second.body
    assert first.headers["x-request-id"] != second.headers["x-request-id"]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"{", "could not parse"),
        ({"messages": []}, "provide a model"),
        ({"model": MODEL, "messages": []}, "nothing from a user"),
        ({"model": MODEL, "messages": ["hello"]}, "expected an object"),
        ({"model": MODEL, "messages": [{"role": "user", "content": "x"}], "response_format": {"type": "json_schema"}},
         "response_format.json_schema"),
        ({"model": MODEL, "messages": [{"role": "user", "content": [
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,§"}}]}]}, "base64"),
    ],
)  # fmt: skip
def test_an_invalid_request(fake: Serving, body: object, said: str) -> None:
    """Rejected in OpenAI's way, never a server error."""
    reply = send(fake.url, "/v1/chat/completions", body, BEARER)
    assert reply.status == 400
    assert said in reply.json["error"]["message"]


def test_nothing_is_fetched(fake: Serving) -> None:
    """An image by URL is answered from the URL itself: this server calls nobody."""
    content = [{"type": "image_url", "image_url": {"url": "http://127.0.0.1:1/x.png"}}]
    reply = send(fake.url, "/v1/chat/completions", {"model": MODEL, "messages": [{"content": content}]}, BEARER)
    assert "Picture of unknown size" in reply.json["choices"][0]["message"]["content"]
