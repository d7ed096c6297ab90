"""The functions of rules: their arguments, results and implementations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

from tabellion.reading.types import identifiers, pattern

MOST_ROWS = 10_000


@dataclass(frozen=True, slots=True)
class Function:
    """One function: its arguments' kinds, its result's kind, and its implementation."""

    takes: tuple[str, ...]  #: number, text, date, bool, any (one kind throughout), field, column; the last may repeat
    gives: str  #: a kind, or "same" as its arguments
    work: Callable[..., Any]
    says: str  #: for the docs
    least: int = -1  #: number of required arguments; -1: all
    repeats: bool = False
    literal: tuple[int, ...] = ()  #: arguments that must be literals, as they are checked when the file is read
    whole: bool = False  #: works on whole columns; the others work row by row

    @property
    def fewest(self) -> int:
        """The number of required arguments."""
        return len(self.takes) if self.least < 0 else self.least


def _sum(column: Sequence[Any]) -> Any:
    return sum(column, Decimal(0)) if column and None not in column else None


def _average(column: Sequence[Any]) -> Any:
    total = _sum(column)
    return None if total is None else total / len(column)


def _count(column: Sequence[Any] | None) -> Decimal:
    return Decimal(sum(1 for value in column or () if value is not None))


def _extreme(choose: Callable[..., Any]) -> Callable[..., Any]:
    def work(*values: Any) -> Any:
        candidates = values[0] if len(values) == 1 and isinstance(values[0], list) else values
        return choose(candidates) if candidates and None not in candidates else None

    return work


def _all(column: Sequence[bool | None]) -> bool | None:
    known = [value for value in column if value is not None]
    return all(known) if known else None


def _any(column: Sequence[bool | None]) -> bool | None:
    known = [value for value in column if value is not None]
    return any(known) if known else None


def _where(column: Sequence[Any], names: Sequence[Any], *texts: str) -> list[Any]:
    keys = {_key(text) for text in texts}
    return [value for value, name in zip(column, names, strict=True) if name is not None and _key(name) in keys]


def _key(text: str) -> str:
    return "".join(sign for sign in str(text).casefold() if sign.isalnum())


def _round(value: Decimal, places: Decimal = Decimal(0)) -> Decimal:
    return value.quantize(Decimal(1).scaleb(-int(places)), rounding=ROUND_HALF_UP)


def _is_there(value: Any) -> bool:
    return value not in (None, "", [])


FUNCTIONS: dict[str, Function] = {
    "abs": Function(("number",), "number", abs, "the absolute value"),
    "round": Function(("number", "number"), "number", _round, "rounded to that many places (0), half away from zero", 1,
                      literal=(1,)),
    "min": Function(("any",), "same", _extreme(min), "the minimum of its arguments or of a column", repeats=True,
                    whole=True),
    "max": Function(("any",), "same", _extreme(max), "the maximum of its arguments or of a column", repeats=True,
                    whole=True),
    "sum": Function(("column number",), "number", _sum,
                    "the sum of a column; null if the list is empty or a cell is missing", whole=True),
    "average": Function(("column number",), "number", _average, "the average of a column; null like sum()", whole=True),
    "count": Function(("column",), "number", _count, "the number of rows of a list, or of non-empty cells of a column",
                      whole=True),
    "all": Function(("column bool",), "bool", _all, "true in every row that can be evaluated", whole=True),
    "any": Function(("column bool",), "bool", _any, "true in some row that can be evaluated", whole=True),
    "where": Function(("column", "column text", "text"), "same", _where,
                      "the cells of the first column whose second column is one of the texts, ignoring case and "
                      "punctuation", repeats=True, literal=(2,), whole=True),
    "coalesce": Function(("any", "any"), "same",
                         lambda *values: next((value for value in values if value is not None), None),
                         "the first argument that has a value", repeats=True),
    "len": Function(("text",), "number", lambda text: Decimal(len(text)), "the number of characters of a text"),
    "lower": Function(("text",), "text", str.lower, "in lower case"),
    "upper": Function(("text",), "text", str.upper, "in upper case"),
    "present": Function(("field",), "bool", _is_there, "the field has a value; never null", whole=True),
    "empty": Function(("field",), "bool", lambda value: not _is_there(value), "it has none; never null", whole=True),
    "date": Function(("text",), "date", date.fromisoformat, 'a literal date: date("2013-01-01")',
                     literal=(0,)),
    "days": Function(("date", "date"), "number", lambda first, last: Decimal((last - first).days),
                     "from the first date to the second"),
    "matches": Function(("text", "text"), "bool", lambda text, expected: pattern.fits(expected, text),
                        "the whole text matches the pattern", literal=(1,)),
    "valid_vat": Function(("text",), "bool", identifiers.valid_vat,
                          "the check digits of a VAT number (AT, BE, DE, FR, IT, LU; null for others)"),
    "valid_tax_id": Function(("text",), "bool", identifiers.valid_tax_id,
                             "a VAT number, a SIRET or a Canadian RT account; null for others"),
    "valid_iban": Function(("text",), "bool", identifiers.valid_iban, "the check digits of an IBAN"),
    "valid_siren": Function(("text",), "bool", identifiers.valid_siren, "nine digits, by Luhn"),
    "valid_siret": Function(("text",), "bool", identifiers.valid_siret, "fourteen digits, by Luhn"),
    "valid_gst": Function(("text",), "bool", identifiers.valid_gst, "a Canadian business number, by Luhn"),
}  # fmt: skip
#: Functions that handle a missing value instead of returning null.
SEE_NULL = ("coalesce", "present", "empty", "count")
