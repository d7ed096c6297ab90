"""What a type compiles to: schemas for every provider, the Pydantic model, the prompt and the form."""

from __future__ import annotations

import datetime
import json
from decimal import Decimal
from typing import Any

import pytest
from pydantic import ValidationError

from tabellion.models.base import Ask
from tabellion.models.output import judge
from tabellion.models.strict import make_strict
from tabellion.reading.types.typefile import compile_type, load

SMALL = compile_type("""\
name: small_bill
version: "1"
description: A bill.
fields:
  total:
    {type: money, required: true, range: {min: 0}, description: All of it., labels: {en: [total], fr: [montant total]}}
  day: {type: date, range: {min: 2000-01-01}}
  kind: {type: choice, enum: [credit, debit]}
  money: currency
  code: {type: id, pattern: "[A-Z]{2}[0-9]+"}
  paid: bool
  rows:
    {type: list, description: The lines., range: {max: 2}, items: {what: {type: text, required: true}, amount: money}}
""")
SHIPPED = ("invoice", "receipt", "deed")


def every_object(schema: Any) -> list[dict[str, Any]]:
    found = []
    if isinstance(schema, dict):
        found += [schema] if schema.get("type") == "object" else []
        for value in schema.values():
            found += every_object(value)
    elif isinstance(schema, list):
        for value in schema:
            found += every_object(value)
    return found


def test_the_plain_schema() -> None:
    """Everything is required and may be null; decimals and dates are strings."""
    schema = SMALL.json_schema()
    assert schema["required"] == ["total", "day", "kind", "money", "code", "paid", "rows"]
    properties = schema["properties"]
    assert properties["total"] == {
        "type": ["string", "null"],
        "description": "All of it. Written as an amount such as 1234.50, without currency.",
    }
    assert properties["day"]["type"] == ["string", "null"]
    assert properties["paid"]["type"] == ["boolean", "null"]
    assert properties["kind"]["anyOf"] == [{"type": "string", "enum": ["credit", "debit"]}, {"type": "null"}]
    rows = properties["rows"]
    assert (rows["type"], rows["description"]) == ("array", "The lines.")
    assert list(rows["items"]["properties"]) == ["what", "amount"]


def test_the_schema_with_quotes() -> None:
    """A field is its value, its quote and its page; a row has its own quote and page."""
    properties = SMALL.json_schema(quotes=True)["properties"]
    assert list(properties["total"]["properties"]) == ["value", "quote", "page"]
    assert properties["total"]["properties"]["page"]["type"] == ["integer", "null"]
    assert list(properties["rows"]["items"]["properties"]) == ["what", "amount", "quote", "page"]


@pytest.mark.parametrize("name", SHIPPED)
@pytest.mark.parametrize("quotes", [True, False])
def test_openai_accepts_the_schema_unchanged(name: str, quotes: bool) -> None:
    """Strict mode: no field is optional, no object is open, no keyword is unsupported."""
    schema = load(name, ()).json_schema(quotes=quotes)
    assert make_strict(schema) == schema


@pytest.mark.parametrize("name", SHIPPED)
def test_gemini_accepts_the_schema_unchanged(name: str) -> None:
    """Only keywords that its API documents, and no references."""
    known = {"title", "type", "description", "properties", "required", "additionalProperties", "items", "anyOf", "enum"}
    schema = load(name, ()).json_schema(quotes=True)
    for one in every_object(schema):
        assert set(one) <= known
        assert one["additionalProperties"] is False
        for inner in one["properties"].values():
            assert set(inner) <= known
    assert "$ref" not in json.dumps(schema)


def test_a_reply_is_validated_by_the_schema() -> None:
    """What a model would answer passes the check of models/."""
    reply: dict[str, Any] = {
        name: [] if name == "rows" else {"value": None, "quote": None, "page": None}
        for name in SMALL.json_schema()["required"]
    }
    reply["total"] = {"value": "12.50", "quote": "Total 12,50", "page": 1}
    reply["kind"] = {"value": "debit", "quote": "Debit", "page": 1}
    reply["rows"] = [{"what": "Ink", "amount": "12.50", "quote": "Ink 12,50", "page": 1}]
    found = judge(json.dumps(reply), SMALL.json_schema(quotes=True), Ask())
    assert found["total"]["value"] == "12.50"
    assert found["rows"][0]["what"] == "Ink"


def test_the_pydantic_model_has_dates_and_decimals() -> None:
    """Normalised values in, Python types out, and back."""
    model = SMALL.pydantic_model()
    assert model.__name__ == "SmallBill"
    validated: Any = model.model_validate(
        {"total": "12.50", "day": "2024-02-29", "kind": "debit", "money": "CAD", "code": "AB1", "paid": True,
         "rows": [{"what": "Ink", "amount": "12.50"}]}
    )  # fmt: skip
    assert (validated.total, validated.day, validated.kind) == (Decimal("12.50"), datetime.date(2024, 2, 29), "debit")
    assert validated.rows[0].amount == Decimal("12.50")
    assert validated.model_dump(mode="json")["total"] == "12.50"
    assert validated.model_dump(mode="json")["day"] == "2024-02-29"
    assert model.model_validate({"total": "1"}).model_dump()["day"] is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"total": None},
        {},
        {"total": "-1"},
        {"total": "NaN"},
        {"total": "1,5"},
        {"total": "1", "day": "2024-02-30"},
        {"total": "1", "day": "1999-12-31"},
        {"total": "1", "day": 1700000000},
        {"total": "1", "day": "2024-01-01T00:00"},
        {"total": "1", "kind": "barter"},
        {"total": "1", "money": "cad"},
        {"total": "1", "code": "A1"},
        {"total": "1", "rows": [{"amount": "1"}]},
        {"total": "1", "rows": [{"what": "x"}] * 3},
        {"total": "1", "nonsense": 1},
    ],
)
def test_the_pydantic_model_rejects_invalid_values(wrong: dict[str, Any]) -> None:
    """Missing, malformed, out of range, unknown."""
    with pytest.raises(ValidationError):
        SMALL.pydantic_model().model_validate(wrong)


@pytest.mark.parametrize("name", SHIPPED)
def test_every_shipped_type_compiles_to_everything(name: str) -> None:
    """Model, prompt, form and hints name every field."""
    doctype = load(name, ())
    names = [one.name for one in doctype]
    assert list(doctype.pydantic_model().model_fields) == names
    assert [entry["name"] for entry in doctype.form()] == names
    assert list(doctype.hints()) == names
    for one in names:
        assert f"- {one}" in doctype.prompt()
    json.dumps(doctype.form())


def test_the_prompt_asks_for_quotes_and_forbids_invention() -> None:
    """Exact words, nulls, no coordinates; descriptions and columns are in it."""
    text = SMALL.prompt()
    for wanted in ("exactly as they are printed", "null", "Never give coordinates", "not an instruction", "All of it.",
                   "- total (required):", "    - amount:"):  # fmt: skip
        assert wanted in text


def test_the_form() -> None:
    """Each field has its widget; a list has columns."""
    entries = {entry["name"]: entry for entry in SMALL.form()}
    assert {name: entry["widget"] for name, entry in entries.items()} == {
        "total": "money", "day": "date", "kind": "select", "money": "currency", "code": "text", "paid": "checkbox",
        "rows": "table",
    }  # fmt: skip
    assert entries["total"]["required"] is True
    assert (entries["total"]["help"], entries["total"]["min"], entries["total"]["threshold"]) == (
        "All of it.",
        "0",
        0.8,
    )
    assert entries["kind"]["options"] == ["credit", "debit"]
    assert [column["name"] for column in entries["rows"]["columns"]] == ["what", "amount"]


def test_hints_are_the_labels_of_all_languages_longest_first() -> None:
    """So that `montant total` is found before `total`."""
    assert SMALL.hints()["total"].labels == ("montant total", "total")
    assert [column.kind for column in SMALL.hints()["rows"].columns] == ["text", "money"]
