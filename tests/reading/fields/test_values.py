"""Typed values in printed text."""

from __future__ import annotations

import datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabellion.reading.fields.values import (
    amounts,
    currency,
    date_order,
    days,
    decimal_mark,
    fold_in_place,
    money,
    number,
)


@pytest.mark.parametrize(
    ("text", "mark", "value"),
    [
        ("1.234,50", ",", "1234.50"), ("1,234.50", ".", "1234.50"), ("1 234,50", ",", "1234.50"),
        ("1'234.50", ".", "1234.50"),
        ("1\u202f234,50", ",", "1234.50"), ("1234.5", ".", "1234.5"), ("12,5", ",", "12.5"), ("1.234", ",", "1234"),
        ("1.234", ".", "1.234"), ("1,234", ".", "1234"), ("12.345.678", ".", "12345678"), ("86,5500", ",", "86.5500"),
        ("0,125", ".", "0.125"), ("0.500", ",", "0.500"),
    ],
)  # fmt: skip
def test_a_number_is_read_in_its_notation(text: str, mark: str, value: str) -> None:
    """Both notations are read; where a separator is ambiguous, the rest of the document decides."""
    assert number(text, mark)[0] == Decimal(value)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("RM39.00", ["39.00"]), ("75.00SR", ["75.00"]), ("Total 1,005.55 €", ["1005.55"]), ("(12.50)", ["-12.50"]),
        ("-3.10", ["-3.10"]),
        ("5.00-", ["-5.00"]), ("TOTAL:RM12.00", ["12.00"]), ("8. 20", ["8.20"]), ("2018-03-23", []), ("10:35", []),
        ("Tel. 07-8263254", []), ("CR 1803/0064", []), ("TPS 4.35 $ TVQ 8.67 $", ["4.35", "8.67"]), ("A1.50", []),
    ],
)  # fmt: skip
def test_amounts_are_found_and_other_numbers_are_not(text: str, found: list[str]) -> None:
    """Money is found with its sign; dates, times, phone numbers and codes are left alone."""
    assert [str(one.value) for one in amounts(text)] == found


@pytest.mark.parametrize(
    ("text", "value", "code"),
    [("SFr. 1'200.50", "1200.50", "CHF"), ("SFR 12.50", "12.50", "CHF"), ("12,50 Kč", "12.50", "CZK"),
     ("12,50zł", "12.50", "PLN"), ("złoty 12,50", "12.50", None)],
)  # fmt: skip
def test_an_amount_has_the_currency_that_is_printed_beside_it(text: str, value: str, code: str | None) -> None:
    """Signs made of letters count only as whole words."""
    assert [(str(one.value), one.currency) for one in amounts(text)] == [(value, code)]


def test_a_percentage_is_not_an_amount() -> None:
    """A number before a percent sign is a rate."""
    assert [(one.percent, str(one.value)) for one in amounts("19 % 37.62")] == [(True, "19"), (False, "37.62")]


@pytest.mark.parametrize(
    ("mark", "code"),
    [
        ("€", "EUR"),
        ("RM", "MYR"),
        ("CA$", "CAD"),
        ("chf", "CHF"),
        ("Fr.", "CHF"),
        ("SFr.", "CHF"),
        ("Kč", "CZK"),
        ("zł", "PLN"),
        ("XYZ", None),
        ("", None),
    ],
)
def test_a_currency_is_named_by_its_sign_or_code(mark: str, code: str | None) -> None:
    """Signs and codes give the ISO code; other texts give none."""
    assert currency(mark) == code


@pytest.mark.parametrize(
    ("text", "iso"),
    [
        ("23-01-2019 13:14:15", "2019-01-23"), ("18/03/18 15:17", "2018-03-18"), ("03 MAR 2018", "2018-03-03"),
        ("OCT 3, 2016", "2016-10-03"), ("14/JUN/2017", "2017-06-14"), ("11. Juli 2014", "2014-07-11"),
        ("le 1er août 2020", "2020-08-01"), ("2018/02/22", "2018-02-22"), ("vom 05.03.2018", "2018-03-05"),
        ("28 MAR 18", "2018-03-28"), ("14 mars 2026", "2026-03-14"), ("13. März 2019", "2019-03-13"),
        ("25MAR2018", "2018-03-25"),
        ("Date:9/3/201820:54:50", "2018-03-09"), ("2018/02/2213:34", "2018-02-22"), ("0ct 3, 201612:16", "2016-10-03"),
        ("2 février 2021", "2021-02-02"), ("May 5, 2020", "2020-05-05"), ("31. Dez. 2019", "2019-12-31"),
        ("4. Mrz. 2019", "2019-03-04"),
    ],
)  # fmt: skip
def test_a_date_is_read_in_its_notation(text: str, iso: str) -> None:
    """Dates of three languages are read, even with a time attached."""
    assert [day.value.isoformat() for day in days(text)] == [iso]


@pytest.mark.parametrize("text", ["30/02/2018", "03-40212008", "12.50", "99/99/2020", "IBAN DE88 2008"])
def test_invalid_dates_are_left_alone(text: str) -> None:
    """Impossible days and other numbers are not dates."""
    assert days(text) == []


def test_the_order_decides_day_and_month() -> None:
    """An ambiguous date follows the given order, and is marked as ambiguous."""
    (european,), (american,) = days("03/04/2024", "dmy"), days("03/04/2024", "mdy")
    assert (european.value, american.value) == (datetime.date(2024, 4, 3), datetime.date(2024, 3, 4))
    assert not european.sure
    assert days("13/04/2024", "mdy")[0].sure


def test_a_document_determines_its_order_and_separator() -> None:
    """Unambiguous dates and cents decide for the others."""
    assert date_order(["01/02/2020", "01/25/2020"]) == "mdy"
    assert date_order(["01/02/2020", "25/01/2020"], "mdy") == "dmy"
    assert decimal_mark(["1.234,50", "3,20", "1.00"]) == ","


def test_money_has_at_least_two_decimals() -> None:
    """Fields have money with cents, and more where more are printed."""
    assert [money(Decimal(text)) for text in ("5", "5.5", "5.500", "0.0250")] == ["5.00", "5.50", "5.50", "0.025"]


@given(st.decimals(min_value=0, max_value=10**9, places=2), st.sampled_from([",", "."]))
def test_every_printed_amount_is_read_back(value: Decimal, mark: str) -> None:
    """An amount printed with groups and cents in either notation is read back."""
    text = f"{value:,.2f}"
    if mark == ",":
        text = text.translate(str.maketrans(",.", ".,"))
    assert [one.value for one in amounts(text, mark)] == [value]


@given(st.dates(min_value=datetime.date(1970, 1, 1), max_value=datetime.date(2069, 12, 31)))
def test_every_printed_date_is_read_back(day: datetime.date) -> None:
    """A date printed in the usual forms is read back."""
    for form in ("%Y-%m-%d", "%d.%m.%Y", "%d/%m/%y", "%d %B %Y", "%B %d, %Y", "%d-%b-%Y"):
        assert [one.value for one in days(day.strftime(form), "dmy")] == [day], form


@given(st.text())
def test_folding_keeps_every_position(text: str) -> None:
    """Folded text has its characters at the same positions."""
    assert len(fold_in_place(text)) == len(text)
