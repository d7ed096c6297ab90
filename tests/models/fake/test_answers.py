"""Answers: derived from the content alone, and changed by knobs."""

from __future__ import annotations

import asyncio
import json

import pytest

from tabellion.models.fake.answers import Question, build_answer, pieces
from tabellion.models.fake.content import Content, Reader, plain
from tests.models.fake.samples import INVOICE, INVOICE_SCHEMA, pdf, png

NONE: frozenset[str] = frozenset()


def sent(data: bytes, type: str) -> Content:  # noqa: A002
    return asyncio.run(Reader().read(data, type))


def test_the_answer_comes_from_the_document_not_the_prompt() -> None:
    """What the prompt says about a field is not a value of it."""
    contents = (sent(pdf(INVOICE), "application/pdf"), plain("Total: the sum of everything"))
    assert build_answer(Question("m", contents), NONE).text == INVOICE
    filled = json.loads(build_answer(Question("m", contents, schema=INVOICE_SCHEMA), NONE).text or "")
    assert filled["total"] == 1234.56


def test_without_a_document_the_text_is_the_source() -> None:
    """Text parts alone are echoed; an image is described in a line."""
    assert build_answer(Question("m", (plain("Total: 5"), plain("Paid: yes"))), NONE).text == "Total: 5\nPaid: yes"
    picture = build_answer(Question("m", (sent(png(3, 4), "image/png"), plain("Read."))), NONE).text
    assert (picture or "").startswith("Picture 3x4")


def test_the_same_content_gets_the_same_answer() -> None:
    """Another content gets another answer."""
    first, same, other = (
        build_answer(Question("m", (plain(text),), schema=INVOICE_SCHEMA), NONE) for text in ("a", "a", "b")
    )
    assert first == same
    assert first.text != other.text


def test_json_without_a_schema_has_the_labels() -> None:
    """Label: value lines become an object; without any, the text is returned."""
    contents = (plain(INVOICE),)
    assert (
        json.loads(build_answer(Question("m", contents, json=True), NONE).text or "")["invoice_number"]
        == "INV-2026-117"
    )
    assert json.loads(build_answer(Question("m", (plain("hi"),), json=True), NONE).text or "") == {"text": "hi"}


def test_the_token_limit_is_kept() -> None:
    """A longer answer is cut there, and says so."""
    answer = build_answer(Question("m", (plain("x" * 100),), max_tokens=10), NONE)
    assert (answer.text, answer.finish, answer.output) == ("x" * 40, "length", 10)


def test_olmocr_writes_front_matter() -> None:
    """With the knob it calls an upright image rotated, until it is wider than high."""
    upright, lying = sent(png(30, 40), "image/png"), sent(png(40, 30), "image/png")
    text = build_answer(Question("allenai/olmOCR-2-7B-1025", (upright,)), NONE).text or ""
    assert text.startswith(
        "---\nprimary_language: en\nis_rotation_valid: True\nrotation_correction: 0\nis_table: False\n"
    )
    knob = frozenset({"rotate90"})
    assert "is_rotation_valid: False\nrotation_correction: 90\n" in str(
        build_answer(Question("olmocr", (upright,)), knob).text
    )
    assert "is_rotation_valid: True\nrotation_correction: 0\n" in str(
        build_answer(Question("olmocr", (lying,)), knob).text
    )


@pytest.mark.parametrize("text", ["", "a", "word " * 500])
def test_the_chunks_of_a_stream_join_to_the_text(text: str) -> None:
    """A stream's chunks joined are the text."""
    assert "".join(pieces(text)) == text
    assert 1 <= len(pieces(text)) <= 13
