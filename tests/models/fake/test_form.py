"""Schemas of both dialects are filled from text, typed, and completed from the hash."""

from __future__ import annotations

from typing import Any

import pytest

from tabellion.models.fake.form import FormFiller
from tests.models.fake.samples import INVOICE, INVOICE_SCHEMA


def fill(schema: dict[str, Any], text: str = INVOICE, digest: str = "d") -> Any:
    return FormFiller(schema, text, digest).fill()


def test_an_invoice_is_read() -> None:
    """Strings, numbers, dates, enums, booleans and lists; null where nothing is found and null is allowed."""
    filled = fill(INVOICE_SCHEMA)
    assert filled.pop("reference").startswith("reference ")
    assert filled == {
        "vendor_name": "Acme Widgets",
        "total": 1234.56,
        "due_date": "2026-11-30",
        "currency": "CAD",
        "paid": False,
        "tags": ["office", "paper"],
        "iban": None,
    }


def test_geminis_dialect_is_the_same_schema() -> None:
    """Upper-case types, nullable, property_ordering in either spelling."""
    schema = {
        "type": "OBJECT",
        "properties": {
            "vendor_name": {"type": "STRING"},
            "total": {"type": "NUMBER", "nullable": True},
            "iban": {"type": "STRING", "nullable": True},
        },
        "property_ordering": ["iban", "total", "vendor_name"],
    }
    expected = {"iban": None, "total": 1234.56, "vendor_name": "Acme Widgets"}
    assert list(fill(schema).items()) == list(expected.items())
    schema["propertyOrdering"] = schema.pop("property_ordering")
    assert list(fill(schema)) == list(expected)


def test_missing_required_values_come_from_the_hash() -> None:
    """The same for the same content, different for another, and within bounds."""
    schema = {
        "type": "object",
        "properties": {
            "reference": {"type": "string", "maxLength": 12},
            "pages": {"type": "integer", "minimum": 3, "maximum": 4},
            "seen_on": {"type": "string", "format": "date"},
            "kind": {"enum": ["alpha", "beta"]},
            "rows": {"type": "array", "items": {"type": "boolean"}, "minItems": 2},
            "optional": {"type": "string"},
        },
        "required": ["reference", "pages", "seen_on", "kind", "rows"],
    }
    filled = fill(schema, "nothing of use")
    assert filled == fill(schema, "nothing of use")
    assert filled != fill(schema, "nothing of use", digest="other")
    assert set(filled) == {"reference", "pages", "seen_on", "kind", "rows"}
    assert len(filled["reference"]) <= 12
    assert filled["pages"] in (3, 4)
    assert filled["kind"] in ("alpha", "beta")
    assert len(filled["rows"]) == 2


def test_nested_objects_and_references() -> None:
    """vendor.name is the vendor's name; $ref, allOf and anyOf are followed."""
    schema = {
        "type": "object",
        "$defs": {"Vendor": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}},
        "properties": {
            "vendor": {"allOf": [{"$ref": "#/$defs/Vendor"}]},
            "buyer": {"anyOf": [{"$ref": "#/$defs/Vendor"}, {"type": "null"}]},
        },
        "required": ["vendor", "buyer"],
    }
    assert fill(schema) == {"vendor": {"name": "Acme Widgets"}, "buyer": None}


def test_a_list_of_objects_takes_the_mentions_in_order() -> None:
    """The n-th item has the n-th mention of each property."""
    items = {
        "type": "object",
        "properties": {"item": {"type": "string"}, "amount": {"type": "number"}},
        "required": ["item", "amount"],
    }
    schema = {"type": "object", "properties": {"lines": {"type": "array", "items": items}}}
    text = "Item: paper\nAmount: 5.00\nItem: pens\nAmount: 7.50\nAmount due: 12.50"
    assert fill(schema, text) == {"lines": [{"item": "paper", "amount": 5.0}, {"item": "pens", "amount": 7.5}]}


def test_a_description_is_used_where_the_name_is_not_found() -> None:
    """The words of its description may be in the text."""
    schema = {"type": "object", "properties": {"seller": {"type": "string", "description": "Vendor name"}}}
    assert fill(schema) == {"seller": "Acme Widgets"}


def test_a_recursive_schema_ends() -> None:
    """A required tree of trees is cut off."""
    schema = {
        "$ref": "#/$defs/Node",
        "$defs": {
            "Node": {
                "type": "object",
                "properties": {"left": {"$ref": "#/$defs/Node"}, "right": {"$ref": "#/$defs/Node"}},
                "required": ["left", "right"],
            }
        },
    }
    assert set(fill(schema)) == {"left", "right"}


@pytest.mark.parametrize("schema", [{}, {"type": "string"}, {"type": "array"}, {"$ref": "#/nowhere"}, {"anyOf": [{}]}])
def test_unusual_schemas_are_filled_too(schema: dict[str, Any]) -> None:
    """No schema is too unusual to be answered."""
    assert fill(schema) == fill(schema)


def test_a_value_with_its_evidence_is_one_field() -> None:
    """`{value, quote, page}` is looked up by the name of its parent."""
    evidence = {name: {"type": ["string", "null"]} for name in ("value", "quote", "page")}
    schema = {
        "type": "object",
        "properties": {name: {"type": "object", "properties": evidence} for name in ("total", "iban")},
        "required": ["total", "iban"],
    }
    assert fill(schema, "Total: 12.50") == {
        "total": {"value": "12.50", "quote": "12.50", "page": None},
        "iban": {"value": None, "quote": None, "page": None},
    }
