"""olmOCR: the page in its format, the front matter, rotation and the ladder of temperatures."""

from __future__ import annotations

import asyncio
import base64
import io
from typing import Any

import pytest
from PIL import Image

from tabellion.messages import Message
from tabellion.models.base import Ask, Blob
from tabellion.models.deepinfra import PROMPT, TEMPERATURES, DeepInfra, front_matter, page_image
from tabellion.models.errors import BadOutput, ModelError, Rejected
from tabellion.models.fake.serving import Serving
from tests.models.asking import KEY, PAGE, SCHEMA, TEXT, ask, failing
from tests.models.scripted import Answer, RecordedRequest, scripted

FRONT = (
    "---\nprimary_language: en\nis_rotation_valid: True\nrotation_correction: 0\nis_table: False\n"
    "is_diagram: False\n---\n"
)


def olmocr(fake: Serving, knobs: str = "") -> DeepInfra:
    model = "allenai/olmOCR-2-7B-1025"
    return DeepInfra(KEY, f"{fake.url}/v1/openai", f"{model}@{knobs}" if knobs else model)


def test_a_page_is_read(fake: Serving) -> None:
    """The text without its front matter, what that contained, and the provider's own cost."""
    reply = ask(olmocr(fake), [PAGE])
    assert reply.text.startswith("Picture")
    assert reply.object == {
        "primary_language": "en", "is_rotation_valid": True, "rotation_correction": 0, "is_table": False,
        "is_diagram": False,
    }  # fmt: skip
    assert reply.cost == pytest.approx((reply.usage.input * 0.09 + reply.usage.output * 0.19) / 1e6)


def test_a_sideways_page_is_rotated(fake: Serving) -> None:
    """The hint of the first attempt makes the second one right."""
    model = olmocr(fake, "rotate90")
    error = failing(BadOutput, model, [PAGE])
    assert (error.fault, error.hint) == ("rotation", {"rotate": 90})
    assert ask(model, [PAGE], None, Ask().again(error.hint)).object["is_rotation_valid"]


@pytest.mark.parametrize(("knob", "fault"), [("truncate", "truncated"), ("repeat", "repetition"), ("html", "html")])
def test_bad_pages_have_their_fault(fake: Serving, knob: str, fault: str) -> None:
    """As with any model."""
    assert failing(BadOutput, olmocr(fake, knob), [PAGE]).fault == fault


def exchange(text: str, asked: Ask = Ask(), parts: Any = (PAGE,), **more: Any) -> tuple[Any, RecordedRequest]:
    async def story() -> tuple[Any, RecordedRequest]:
        body = {"choices": [{"message": {"content": text}, "finish_reason": "stop"}], **more}
        async with scripted([Answer(body)]) as server:
            model = DeepInfra(KEY, server.url)
            try:
                return await model.call(parts, None, asked), server.asked[0]
            except ModelError as error:
                return error, server.asked[0]
            finally:
                await model.close()

    return asyncio.run(story())


@pytest.mark.parametrize(("attempt", "temperature"), [(1, 0.1), (2, 0.1), (3, 0.2), (8, 1.0), (50, 1.0)])
def test_later_attempts_are_warmer(attempt: int, temperature: float) -> None:
    """The temperatures that olmOCR's authors use."""
    _, request = exchange(FRONT, Ask(attempt=attempt))
    assert request.json["temperature"] == temperature
    assert temperature in TEMPERATURES


def test_headers_for_openai_are_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """They may contain secrets, and DeepInfra is another company."""
    monkeypatch.setenv("OPENAI_ORG_ID", "org-1")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-Gateway: secret\nAuthorization: secret")
    _, request = exchange(FRONT)
    assert not {"openai-organization", "x-gateway"} & set(request.headers)
    assert request.headers["authorization"] == f"Bearer {KEY}"


def test_a_request_is_one_question_and_one_image() -> None:
    """The question it was trained with, then a PNG whose longest side is 1288 pixels."""
    _, request = exchange(FRONT)
    text, picture = request.json["messages"][0]["content"]
    assert text["text"] == PROMPT
    data = base64.b64decode(picture["image_url"]["url"].partition(",")[2])
    assert Image.open(io.BytesIO(data)).size == (966, 1288)


def test_an_empty_page_is_a_valid_answer() -> None:
    """Front matter and nothing else is a fine answer."""
    reply, _ = exchange(FRONT)
    assert (reply.text, reply.object["is_table"]) == ("", False)


def test_too_many_tokens_are_rejected() -> None:
    """Beyond its training limit the answer is not trustworthy."""
    error, _ = exchange(FRONT, usage={"prompt_tokens": 16_000, "completion_tokens": 385})
    assert isinstance(error, BadOutput)
    assert (error.fault, error.hint) == ("truncated", {"temperature": 0.2})


def test_rotations_add_up() -> None:
    """A page rotated by 90 that needs 270 more is upright as it came."""
    sideways = FRONT.replace("valid: True", "valid: False").replace("correction: 0", "correction: 270")
    error, _ = exchange(sideways, Ask(hint={"rotate": 90}))
    assert isinstance(error, BadOutput)
    assert error.hint == {"rotate": 0}


@pytest.mark.parametrize(
    "text",
    [
        "no front matter",
        "---\nprimary_language: en\n---\ntext",
        FRONT.replace("is_table: False", "is_table: maybe"),
        FRONT.replace("correction: 0", "correction: 45"),
        FRONT.replace("is_table", "is_chair"),
        FRONT.replace("is_diagram: False", "is_table: False"),
        FRONT.replace("\n---\n", "\n"),
        "---\n" + "x\n" * 100,
    ],
    ids=lambda text: text[-40:],
)
def test_wrong_front_matter_is_bad_output(text: str) -> None:
    """Missing, unknown, duplicate and impossible values, and front matter without an end."""
    error, _ = exchange(text)
    assert isinstance(error, BadOutput)
    assert (error.fault, error.hint) == ("schema", {"temperature": 0.2})
    message = str(error)
    assert isinstance(message, Message)
    assert message.params["text"].code.startswith("front_matter.")


@pytest.mark.parametrize("value", ["null", "None", "", '""', "~"])
def test_a_page_without_words_has_no_language(value: str) -> None:
    """It is null."""
    about, text = front_matter(FRONT.replace("language: en", f"language: {value}") + "a\n\nb\n")
    assert about["primary_language"] is None
    assert text == "a\n\nb"


def test_only_one_image_is_accepted() -> None:
    """PDFs, several images and schemas are rejected."""
    model = DeepInfra(KEY, "http://127.0.0.1:9")
    for parts in ([TEXT], [PAGE, PAGE], [Blob(b"%PDF", "application/pdf")]):
        failing(Rejected, model, parts)
    failing(Rejected, model, [PAGE], SCHEMA)
    failing(Rejected, model, [Blob(b"not a picture", "image/png")])


def test_another_model_of_the_provider_is_called_plainly(fake: Serving) -> None:
    """The preset is olmOCR's; the key is shared."""
    reply = ask(DeepInfra(KEY, f"{fake.url}/v1/openai", "Qwen/Qwen3-VL"), [TEXT], SCHEMA)
    assert reply.object["vendor"] == "Acme Ltd"


@pytest.mark.parametrize("mode", ["1", "L", "P", "RGBA", "CMYK", "I;16"])
def test_every_image_format_becomes_a_png(mode: str) -> None:
    """Whatever scanners and phones produce."""
    image = Image.new(mode, (40, 20))
    buffer = io.BytesIO()
    image.save(buffer, "TIFF" if mode in ("CMYK", "I;16") else "PNG")
    page = Image.open(io.BytesIO(page_image(buffer.getvalue())))
    assert (page.format, page.size, page.mode) == ("PNG", (1288, 644), "RGB")


def test_a_rotation_is_clockwise() -> None:
    """The top left is at the top right after a quarter turn."""
    image = Image.new("RGB", (100, 50), "white")
    image.paste((0, 0, 0), (0, 0, 50, 25))
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    page = Image.open(io.BytesIO(page_image(buffer.getvalue(), 90)))
    assert page.size == (644, 1288)
    assert page.getpixel((600, 40)) == (0, 0, 0)
    assert page.getpixel((40, 40)) == (255, 255, 255)


def test_an_image_bomb_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its size is read before its pixels."""
    monkeypatch.setattr("tabellion.models.deepinfra.MOST_PIXELS", 1000)
    with pytest.raises(Rejected, match="too large"):
        page_image(PAGE.data)
