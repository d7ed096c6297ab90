"""A bill that tests send to models, and the answers they give about it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from tabellion.models.base import Ask, Part, Reply, Schema
from tabellion.models.output import judge
from tabellion.reading.page import Page
from tabellion.reading.types.doctype import DocumentType
from tabellion.reading.types.typefile import compile_type
from tests.models.scripted import Answer
from tests.reading import papers

LINES = (
    "Acme Tools Ltd", "12 High Street, Leeds LS1 4AB", "Invoice number: A-77", "Invoice date: 2026-03-14",
    "Subtotal: 100.00", "Tax: 20.00", "Total: 120.00", "Currency: EUR",
)  # fmt: skip
SMALL: DocumentType = compile_type("""\
name: small
version: "1"
fields:
  vendor: {type: name, required: true}
  number: {type: id}
  day: {type: date}
  currency: currency
  subtotal: money
  tax: money
  total: {type: money, required: true}
  paid: bool
  line_items: {type: list, items: {description: text, amount: money}}
validation:
  - {name: adds up, rule: total == subtotal + tax}
""")


@cache
def bill(*lines: str) -> bytes:
    """Return the bill as a PDF, the same bytes each time: memos identify documents by them."""
    return papers.pdf(lines or LINES)


def reply_about(doctype: DocumentType = SMALL, **values: Any) -> dict[str, Any]:
    """Return a model's answer: a value, or a value and its quote; everything else is null."""
    reply: dict[str, Any] = {}
    for spec in doctype.fields:
        given = values.get(spec.name)
        if spec.kind == "list":
            reply[spec.name] = [{"quote": None, "page": None, **row} for row in given or ()]
        else:
            value, quote = given if isinstance(given, tuple) else (given, None)
            reply[spec.name] = {"value": value, "quote": quote, "page": 1 if quote else None}
    return reply


class FixedModel:
    """A model that gives one answer, and records what it was asked."""

    name, model = "saying", "saying-1"

    def __init__(
        self, answer: Mapping[str, Any] | str, takes: Sequence[str] = ("application/pdf", "image/png", "image/jpeg")
    ) -> None:
        self.takes = takes
        self.asked: list[list[Part]] = []
        self.system_texts: list[str] = []
        self._answer = answer if isinstance(answer, str) else json.dumps(answer)

    async def call(self, parts: Sequence[Part], schema: Schema | None = None, ask: Ask = Ask()) -> Reply:
        """Return the answer, validated as every model's is."""
        self.asked.append(list(parts))
        self.system_texts.append(ask.system or "")
        return Reply(self._answer, judge(self._answer, schema, ask), cost=0.25, model=self.model)

    async def close(self) -> None:
        """Do nothing."""


def gemini_says(answer: Mapping[str, Any]) -> Answer:
    """Return the answer as Gemini sends it."""
    parts = [{"text": json.dumps(answer)}]
    return Answer({"candidates": [{"content": {"parts": parts}, "finishReason": "STOP"}], "usageMetadata": {}})


def openai_says(answer: Mapping[str, Any]) -> Answer:
    """Return the answer as OpenAI sends it."""
    message = {"role": "assistant", "content": json.dumps(answer)}
    return Answer({"choices": [{"message": message, "finish_reason": "stop"}], "usage": {}, "model": "gpt"})


def pages_of(*lines: str) -> tuple[Page, ...]:
    """One page with these lines."""
    from tests.reading.paper import page

    return (page(*(lines or LINES)),)
