"""Normalises values from a model to the form of their fields; a value that cannot be normalised stays as it is."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tabellion.reading.fields.values import DateOrder, currency, days, money
from tabellion.reading.grounding.variants import decimal_of, fold
from tabellion.reading.types import rules
from tabellion.reading.types.field_spec import FieldSpec
from tabellion.reading.types.kinds import NUMERIC

LONGEST = 2000  #: characters of a value; more is not a field but a page
#: What models write for a missing value.
NOTHING = {"", "null", "none", "n/a", "not found", "not specified"}
AMBIGUOUS = {"$", "¥"}  #: signs of several currencies
LONGEST_DATE = 200  #: characters of a value that can be a date


def normalise_value(spec: FieldSpec, value: Any, order: DateOrder | None = None) -> Any:
    """The value in the form of its kind; as text where that fails; None where the model returned no value."""
    if spec.kind == "list":
        rows = value if isinstance(value, list) else []
        normalised = (_row(spec, row, order) for row in rows if isinstance(row, Mapping))
        return [row for row in normalised if any(cell is not None for cell in row.values())] or None
    if isinstance(value, bool) and spec.kind == "bool":
        return value
    if value is None or isinstance(value, Mapping | list):
        return None
    text = " ".join(str(value).split())[:LONGEST]
    if fold(text) in NOTHING:
        return None
    if spec.kind == "address":
        text = ", ".join(line.strip(" ,") for line in str(value)[:LONGEST].splitlines() if line.strip(" ,"))
    return _normalise_text(spec, text, order)


def _row(spec: FieldSpec, row: Mapping[str, Any], order: DateOrder | None) -> dict[str, Any]:
    return {column.name: normalise_value(column, row.get(column.name), order) for column in spec.items}


def _normalise_text(spec: FieldSpec, text: str, order: DateOrder | None) -> Any:
    if spec.kind in NUMERIC:
        # No percentage has thousands: in 9,975 % the comma is a decimal mark.
        number = decimal_of(text.rstrip("% ").replace(",", ".") if spec.kind == "percent" else text)
        if number is None or abs(number.adjusted()) > 20:
            return text
        number = number if number else abs(number)  # no negative zero
        return money(number) if spec.kind == "money" else format(number.normalize(), "f")
    if spec.kind == "date":
        return _date(text, order)
    if spec.kind == "currency":
        code = text.upper()
        return code if re.fullmatch("[A-Z]{3}", code) else (None if text in AMBIGUOUS else currency(text)) or text
    if spec.options:
        return next((option for option in spec.options if fold(option) == fold(text)), text)
    if spec.kind == "bool":
        return {"true": True, "false": False}.get(text.lower(), text)
    return text


def _date(text: str, order: DateOrder | None) -> str:
    if len(text) > LONGEST_DATE:
        return text
    found = days(text, order or "dmy")
    # A date whose day and month could be swapped stays as it is: a guess would look like a fact.
    return found[0].value.isoformat() if len(found) == 1 and (found[0].sure or order) else text


def is_well_formed(spec: FieldSpec, value: Any) -> bool:
    """Whether a value has the form of its kind."""
    if spec.kind == "list":
        rows = value if isinstance(value, list) else []
        return all(is_well_formed(column, row.get(column.name)) for row in rows for column in spec.items)
    try:
        rules.convert_value(spec, value)
    except ValueError:
        return False
    return not spec.options or value is None or value in spec.options


def same(spec: FieldSpec, first: Any, second: Any) -> bool:
    """Whether two values are equal: numbers by value, texts by letters and digits."""
    if spec.kind == "list":
        return (
            isinstance(first, list) and isinstance(second, list) and len(first) == len(second)
            and all(_same_row(spec, *pair) for pair in zip(first, second, strict=True))
        )  # fmt: skip
    if spec.kind in NUMERIC and is_well_formed(spec, first) and is_well_formed(spec, second):
        return bool(rules.convert_value(spec, first) == rules.convert_value(spec, second))
    return _letters(first) == _letters(second)


def _same_row(spec: FieldSpec, first: Mapping[str, Any], second: Mapping[str, Any]) -> bool:
    """Whether the cells that both rows have are equal."""
    both = [
        column for column in spec.items if first.get(column.name) is not None and second.get(column.name) is not None
    ]
    return bool(both) and all(same(column, first[column.name], second[column.name]) for column in both)


def _letters(value: Any) -> str:
    return "".join(mark for mark in fold(str(value)) if mark.isalnum())
