"""What people type is converted to the form of its field, or rejected with what to do."""

from __future__ import annotations

from typing import Any

import pytest

from tabellion.pipelines.documents.review.values import LONGEST, MOST_ROWS, parse_value
from tabellion.reading.types.typefile import compile_type
from tests.pipelines.documents.review.items import BILL


@pytest.mark.parametrize(
    ("name", "typed", "kept"),
    [
        ("total", "1 234,50 €", "1234.50"),
        ("total", "1,234.50", "1234.50"),
        ("total", 12, "12.00"),
        ("total", 12.5, "12.50"),
        ("total", "-3", "-3.00"),
        ("total", "0,125", "0.125"),
        ("total", "-0,500 €", "-0.50"),
        ("total", "1.2340", "1.234"),
        ("total", "1234", "1234.00"),
        ("total", "1,234,567", "1234567.00"),
        ("total", "12,345.60", "12345.60"),
        ("total", 1.234, "1.234"),
        ("total", "-0", "0.00"),
        ("lines", [{"amount": "0.125"}], [{"description": None, "amount": "0.125"}]),
        ("date", "31/12/2024", "2024-12-31"),
        ("date", "31 décembre 2024", "2024-12-31"),
        ("date", "2024-02-29", "2024-02-29"),
        ("currency", "€", "EUR"),
        ("currency", "usd", "USD"),
        ("paid", "yes", True),
        ("paid", "Non", False),
        ("paid", True, True),
        ("kind", "GOODS", "goods"),
        ("vendor", "  A   b ", "A b"),
        ("vendor", "N/A", "N/A"),
        ("vendor", "none", "none"),
        ("vendor", "<script>alert(1)</script>", "<script>alert(1)</script>"),
        ("vendor", "a\x00b", "a\\x00b"),
        ("vendor", " ", None),
        ("total", "", None),
        ("total", None, None),
        ("lines", [{"amount": "3,5"}, {"amount": "", "description": None}], [{"description": None, "amount": "3.50"}]),
        ("lines", [], None),
        ("lines", [{}], None),
    ],
)  # fmt: skip
def test_values_are_normalised(name: str, typed: Any, kept: Any) -> None:
    """As people write them in three countries."""
    assert parse_value(BILL, BILL.field(name), typed) == (kept, None)


def test_unknown_columns_of_the_reading_are_dropped() -> None:
    """Rows read before the type lost a column, or with one too many, can be sent back as they came."""
    lines = BILL.field("lines")
    row = {"description": "bolt", "amount": "1.00"}
    assert parse_value(BILL, lines, [row | {"tax_rate": None}]) == ([row], None)
    read = [row | {"tax_rate": "20"}]
    assert parse_value(BILL, lines, read, [read]) == ([row], None)
    assert parse_value(BILL, lines, read)[1] == "lines[0] has no column 'tax_rate'; known: description, amount"


@pytest.mark.parametrize(
    ("name", "typed", "said"),
    [
        ("total", "a lot", "total: 'a lot' is not an amount such as 1234.50"),
        ("total", "1e400", "total: '1e400' is not an amount"),
        ("total", ["1"], "total must be a single value"),
        ("total", True, "total: 'True' is not an amount"),
        ("total", "1,234", "total: '1,234' is ambiguous: write 1234 or 1.2340"),
        ("total", "-12.345 €", "is ambiguous: write 12345 or 12.3450"),
        ("vendor", True, "vendor: 'True' is not the name of a person or company"),
        ("lines", [{"amount": "1.234"}], "lines[0].amount: '1.234' is ambiguous"),
        ("date", "03/04/2024", "write 2024-12-31"),
        ("date", "2024-02-30", "date: '2024-02-30' is not a date"),
        ("currency", "$", "currency: '$' is not an ISO 4217 currency code, such as EUR"),
        ("paid", "maybe", "paid: 'maybe' is not true or false"),
        ("kind", "gifts", "kind: 'gifts' is not one of goods, services"),
        ("vendor", "x" * (LONGEST + 1), "shorten it"),
        ("vendor", {"a": 1}, "vendor must be a single value"),
        ("lines", "two bolts", "lines must be a list of rows"),
        ("lines", ["bolt"], "lines must be a list of rows"),
        ("lines", [{"price": "1"}], "lines[0] has no column 'price'; known: description, amount"),
        ("lines", [{"amount": "1"}, {"amount": "x"}], "lines[1].amount: 'x' is not an amount"),
        ("lines", [{}] * (MOST_ROWS + 1), "more than 1,000 rows"),
    ],
)
def test_invalid_values_are_explained(name: str, typed: Any, said: str) -> None:
    """The field, the value, and what to write instead."""
    problem = parse_value(BILL, BILL.field(name), typed)[1]
    assert problem is not None
    assert said in problem


def test_an_already_normalised_value_is_unchanged() -> None:
    """A page sends back what it was given: three decimals in the form of the field are not thousands."""
    total, lines = BILL.field("total"), BILL.field("lines")
    assert parse_value(BILL, total, "1.234", ["1.234"]) == ("1.234", None)
    assert parse_value(BILL, total, "1,234", ["1.234"])[1] is not None
    rows = [{"description": "bolt", "amount": "1.234"}]
    assert parse_value(BILL, lines, [{"amount": "3"}, *rows], [None, rows])[1] is None
    assert parse_value(BILL, lines, [{"amount": "1.235"}], [rows])[1] is not None


def test_a_percentage_has_no_thousands() -> None:
    """In 9,975 % the comma is a decimal separator, without a question."""
    rate = compile_type("name: note\nversion: '1'\nfields: {rate: {type: percent}, count: {type: number}}")
    assert parse_value(rate, rate.field("rate"), "9,975 %") == ("9.975", None)
    assert "is ambiguous" in str(parse_value(rate, rate.field("count"), "1.234")[1])


def test_the_type_decides_between_day_and_month_first() -> None:
    """Where it says which comes first, there is no question."""
    american = compile_type("name: note\nversion: '1'\nlocale: {dates: mdy}\nfields: {date: {type: date}}")
    assert parse_value(american, american.field("date"), "03/04/2024") == ("2024-03-04", None)
