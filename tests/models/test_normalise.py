"""What models write is converted to the form of its field, or stays as it was written."""

from __future__ import annotations

from typing import Any

import pytest

from tabellion.models.normalise import is_well_formed, normalise_value, same
from tabellion.reading.types.field_spec import FieldSpec


def spec(kind: str, **more: Any) -> FieldSpec:
    return FieldSpec("it", kind, "It", **more)


@pytest.mark.parametrize(
    ("kind", "written", "value"),
    [
        ("money", "1234.5", "1234.50"),
        ("money", "€ 1.234,56", "1234.56"),
        ("money", "(12.00)", "-12.00"),
        ("money", "-0", "0.00"),
        ("number", "0,125", "0.125"),
        ("number", "-0.500 kg", "-0.500 kg"),
        ("money", "a dozen", "a dozen"),
        ("percent", "9.975 %", "9.975"),
        ("percent", "9,975 %", "9.975"),
        ("number", "2.0", "2"),
        ("date", "2026-03-14", "2026-03-14"),
        ("date", "14 March 2026", "2026-03-14"),
        ("date", "03/04/2026", "03/04/2026"),
        ("date", "2026-02-30", "2026-02-30"),
        ("currency", "eur", "EUR"),
        ("currency", "£", "GBP"),
        ("currency", "$", "$"),
        ("name", " Acme\n Tools ", "Acme Tools"),
        ("address", "12 High Street,\nLeeds", "12 High Street, Leeds"),
        ("text", "N/A", None),
        ("text", None, None),
        ("text", {"a": 1}, None),
        ("bool", True, True),
        ("bool", "false", False),
    ],
)
def test_a_value_is_converted_to_its_kind(kind: str, written: Any, value: Any) -> None:
    """Dates, amounts, currencies; an ambiguous or impossible one is not guessed."""
    assert normalise_value(spec(kind), written) == value


def test_a_type_resolves_choices_and_ambiguous_dates() -> None:
    """An option is found whatever its case; a type with a date order resolves an ambiguous date."""
    assert normalise_value(spec("choice", options=("cash", "card")), "Card") == "card"
    assert normalise_value(spec("choice", options=("cash", "card")), "barter") == "barter"
    assert normalise_value(spec("date"), "03/04/2026", "mdy") == "2026-03-04"


@pytest.mark.parametrize("kind", ["text", "address", "date"])
def test_a_long_value_is_kept_up_to_two_thousand_characters(kind: str) -> None:
    """A long text is a value, more than 2,000 characters are cut."""
    assert normalise_value(spec(kind), "x" * 1999) == "x" * 1999
    assert normalise_value(spec(kind), "x" * 2001) == "x" * 2000


def test_rows_have_the_columns_and_no_more() -> None:
    """Each cell by its column's kind; empty rows are dropped."""
    rows = spec("list", items=(spec("money"),))
    assert normalise_value(rows, [{"it": "3", "quote": "3"}, {"it": None}, "no row"]) == [{"it": "3.00"}]
    assert normalise_value(rows, []) is None


def test_comparing_values() -> None:
    """Numbers are compared by value, texts by their letters, rows by what both have."""
    assert not is_well_formed(spec("date"), "2026-02-30")
    assert is_well_formed(spec("money"), "12.00")
    assert same(spec("money"), "12", "12.00")
    assert same(spec("name"), "ACME Tools, Ltd.", "Acme Tools Ltd")
    assert not same(spec("id"), "A-77", "A-78")
    rows = spec("list", items=(FieldSpec("what", "text", ""), FieldSpec("amount", "money", "")))
    assert same(rows, [{"what": "Ink", "amount": "1.00"}], [{"what": None, "amount": "1"}])
    assert not same(rows, [{"what": "Ink", "amount": "1.00"}], [{"what": None, "amount": "2"}])
