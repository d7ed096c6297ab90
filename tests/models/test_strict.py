"""Schemas as OpenAI's strict mode wants them."""

from __future__ import annotations

from typing import Any

import pytest

from tabellion.models.base import Ask
from tabellion.models.output import judge
from tabellion.models.strict import make_strict

INVOICE: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "properties": {
        "vendor": {"type": "string", "minLength": 1, "description": "the seller"},
        "kind": {"enum": ["invoice", "credit"], "type": "string"},
        "due": {"type": "string", "format": "date"},
        "site": {"type": "string", "format": "uri"},
        "tax": {"anyOf": [{"type": "number"}, {"type": "string"}]},
        "lines": {"type": "array", "items": {"$ref": "#/$defs/line"}},
        "first": {"$ref": "#/$defs/line"},
    },
    "required": ["vendor"],
    "$defs": {"line": {"type": "object", "properties": {"what": {"type": "string"}}, "required": ["what"]}},
}


def test_every_field_is_required_and_the_optional_ones_nullable() -> None:
    """At every depth, with what strict mode refuses left out."""
    assert make_strict(INVOICE) == {
        "type": "object",
        "properties": {
            "vendor": {"type": "string", "description": "the seller"},
            "kind": {"enum": ["invoice", "credit", None], "type": ["string", "null"]},
            "due": {"type": ["string", "null"], "format": "date"},
            "site": {"type": ["string", "null"]},
            "tax": {"anyOf": [{"anyOf": [{"type": "number"}, {"type": "string"}]}, {"type": "null"}]},
            "lines": {"type": ["array", "null"], "items": {"$ref": "#/$defs/line"}},
            "first": {"anyOf": [{"$ref": "#/$defs/line"}, {"type": "null"}]},
        },
        "required": ["vendor", "kind", "due", "site", "tax", "lines", "first"],
        "additionalProperties": False,
        "$defs": {
            "line": {
                "type": "object",
                "properties": {"what": {"type": "string"}},
                "required": ["what"],
                "additionalProperties": False,
            }
        },
    }


def test_what_strict_mode_answers_fits_the_original() -> None:
    """Nulls that it forces on the model are left out again."""
    answer = '{"vendor":"A","kind":null,"due":null,"site":null,"tax":null,"lines":[{"what":"x"}],"first":null}'
    assert judge(answer, INVOICE, Ask()) == {"vendor": "A", "lines": [{"what": "x"}]}


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object"},
        {"type": "object", "properties": {"a": {"type": "object", "additionalProperties": {"type": "string"}}}},
        {"type": "object", "properties": {"a": {"allOf": [{"type": "string"}]}}},
        {"type": "object", "properties": {"a": True}},
    ],
)
def test_what_cannot_be_strict_says_so(schema: dict[str, Any]) -> None:
    """Free maps and combined schemas are sent without strict."""
    assert make_strict(schema) is None


def test_the_original_is_left_alone() -> None:
    """A caller's schema is not written to."""
    before = repr(INVOICE)
    make_strict(INVOICE)
    assert repr(INVOICE) == before
