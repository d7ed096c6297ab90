"""What rules mean: kinds when a type is compiled, values when a document is judged."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabellion.reading.types.evaluation import Scope, ValueKind, check, holds
from tabellion.reading.types.expression import ExpressionError, parse
from tabellion.reading.types.functions import FUNCTIONS

KINDS: dict[str, Any] = {
    "a": ValueKind("number"), "b": ValueKind("number"), "gone": ValueKind("number"), "day": ValueKind("date"),
    "later": ValueKind("date"),
    "word": ValueKind("text"), "flag": ValueKind("bool"), "missing_flag": ValueKind("bool"),
    "rows": {"n": ValueKind("number"), "m": ValueKind("number"), "t": ValueKind("text")},
    "none": {"n": ValueKind("number")},
    "gaps": {"n": ValueKind("number")},
}  # fmt: skip
VALUES: dict[str, Any] = {
    "a": Decimal("0.1"), "b": Decimal("0.2"), "gone": None, "day": date(2024, 2, 28), "later": date(2024, 3, 1),
    "word": "Ünit", "flag": True, "missing_flag": None,
    "rows": [{"n": Decimal(1), "m": Decimal(2), "t": "T.P.S."}, {"n": Decimal(3), "m": Decimal(6), "t": "tvq"}],
    "none": [], "gaps": [{"n": Decimal(1)}, {"n": None}],
}  # fmt: skip


def result(text: str, tolerance: str | None = None) -> bool | None:
    tree = parse(text)
    check(tree, KINDS, tolerance=tolerance is not None)
    return holds(tree, Scope(VALUES, Decimal(tolerance) if tolerance else None, date(2024, 3, 10)))


@pytest.mark.parametrize(
    "text",
    [
        "a + b == 0.3",  # decimals, not floats
        "a * 3 - b == 0.1",
        "-a < 0 and 2 / 4 == 0.5 and -(-a) == a",
        "0 < a < b <= 0.2",
        "abs(-3) == 3 and round(2.345, 2) == 2.35 and round(-2.5) == -3",
        "min(3, a, 2) == a and max(day, later) == later",
        "min(rows.n) == 1 and max(rows.n) == 3",
        "sum(rows.n) == 4 and average(rows.m) == 4",
        "count(rows) == 2 and count(gaps) == 2 and count(gaps.n) == 1 and count(none) == 0",
        "all(rows.n * 2 == rows.m) and any(rows.n > 2) and not all(rows.n > 2)",
        "all(gaps.n > 0)",
        'sum(where(rows.n, rows.t, "TPS")) == 1 and count(where(rows.n, rows.t, "TPS", "TVQ")) == 2',
        'count(where(rows.n, rows.t, "VAT")) == 0',
        'sum(where(rows.n - sum(gaps.n) * 0 + a, lower(rows.t), "TPS")) == 1.1 or empty(gone)',
        "coalesce(gone, 7) == 7 and coalesce(a, 7) == a",
        "coalesce(gone, gone, 1) == 1",
        "len(word) == 4",
        'lower(word) == "ünit" and upper(word) == "ÜNIT"',
        "present(a) and empty(gone) and present(rows) and empty(none) and present(flag) and not empty(word)",
        "later - day == 2 and day + 2 == later and later - 2 == day",
        'days(day, later) == 2 and day < date("2024-03-01")',
        "today - 9 == later",
        'word in ("Ünit", "x") and word not in ["y"] and a in (0.1, 0.5)',
        'matches(word, "[A-ZÜ][a-z]+") and not matches(word, "[a-z]+")',
        "flag and flag == true and flag != false",
        'valid_iban("DE89370400440532013000") and not valid_siren("552081318")',
        'valid_vat("DE136695976") and valid_tax_id("DE136695976")',
        'valid_siret("55208131766522") and valid_gst("123456782")',
    ],
)
def test_rules_that_hold(text: str) -> None:
    """Arithmetic is decimal, dates count days, columns are evaluated row by row."""
    assert result(text) is True


@pytest.mark.parametrize(
    "text",
    [
        "gone > 0",
        "gone + 1 == 1",
        "not missing_flag",
        "flag and missing_flag",
        "a > 5 or missing_flag",
        "sum(none.n) == 0",
        "sum(gaps.n) == 1",
        "min(a, gone) > 0",
        "min(none.n) > 0",
        "all(none.n > 0)",
        "a / 0 > 1",
        "a / (b - b) == 1",
        "day + 99999999999 > day",
        "day + 4000000 > day",
        "day - 900000 < day",
        "gone in (1, 2)",
        "0 < gone < 1",
        'valid_vat("ES1234567") == true',
        'sum(where(rows.n, rows.t, "VAT")) == 0',
        "all(rows.n + gaps.n > 0) and null",
        "all(rows.n + where(rows.n, rows.t, 'tvq') > 0)",
        f"{'9' * 20} * {' * '.join(['9' * 20] * 12)} * a < 0 and gone == 1 or gone == 1",
    ],
)
def test_a_rule_without_a_result_is_null(text: str) -> None:
    """A missing value, a division by zero, a day beyond the calendar: the rule says nothing."""
    assert result(text) is None


def test_and_and_or_decide_without_what_is_missing() -> None:
    """False and null is false; true or null is true."""
    assert result("a > 5 and gone > 0") is False
    assert result("gone > 0 and a > 5") is False
    assert result("gone > 0 or a < 5") is True
    assert result("a < 5 or gone > 0") is True
    assert result("0 < gone < a and a > 5") is False


def test_the_tolerance_belongs_to_the_rule() -> None:
    """It is a number like any other."""
    assert result("abs(a - b) <= tolerance", "0.1") is True
    assert result("abs(a - b) <= tolerance", "0.09") is False


@pytest.mark.parametrize(
    ("text", "at", "what"),
    [
        ("nothing > 0", 0, "unknown field 'nothing'"),
        ("wrd == 'x'", 0, "did you mean 'word'?"),
        ("rows.q > 0", 0, "no column 'q'"),
        ("rows.__class__ > 0", 0, "no column"),
        ("a.real > 0", 0, "is not a list"),
        ("tolerance > 0", 0, "defines none"),
        ("day > a", 6, "a date and a number cannot be compared"),
        ("word == 3", 8, "a text and a number"),
        ("rows == 3", 8, "a list cannot be compared"),
        ("a == null", 0, "present\\(x\\) or empty\\(x\\)"),
        ("flag < true", 0, "cannot be ordered"),
        ("word + 'x' == 'y'", 0, "'\\+' needs numbers; this is a text"),
        ("day + later > day", 0, "needs numbers; this is a date"),
        ("not a", 4, "true or false was expected"),
        ("a and flag", 0, "true or false was expected"),
        ("-word == 'x'", 1, "a number was expected"),
        ("a + b", 0, "this is a number"),
        ("rows.n > 1", 0, "put all\\(…\\) around it"),
        ("pow(a, 2) > 1", 0, "unknown function 'pow'"),
        ("eval('1')", 0, "unknown function"),
        ("absolute(a) > 1", 0, "unknown function 'absolute'"),
        ("abs() > 1", 0, "takes 1 arguments, not 0"),
        ("abs(a, b) > 1", 0, "takes 1 arguments, not 2"),
        ("min() > 1", 0, "takes 1 or more arguments"),
        ("abs(word) > 1", 4, "takes a number here; this is a text"),
        ("sum(a) > 1", 4, "takes a column, each a number; this is a number"),
        ("sum(rows) > 1", 4, "takes a column"),
        ("sum(rows.t) > 1", 4, "takes a column, each a number"),
        ("count(a) > 1", 6, "takes a column, as in"),
        ("present(rows.n)", 8, "the name of a field"),
        ("present(a + b)", 8, "the name of a field"),
        ("min(a, day) > a", 7, "cannot be compared"),
        ("min(rows.n, a) > 1", 4, "one column, or several"),
        ("coalesce(a, word) > 1", 12, "cannot be compared"),
        ("a in (b)", 6, "literal texts"),
        ("a in ('x')", 6, "cannot be compared"),
        ("date(word) < day", 5, "must be a literal value"),
        ("date('1.2.2024') < day", 5, "must be written as date"),
        ("matches(word, word)", 14, "must be a literal value"),
        ("matches(word, '(?=a)')", 14, "no look-around"),
        ("round(a, b) > 1", 9, "must be a literal value"),
        ("round(a, 99) > 1", 9, "0 to 10 places"),
        ("round(a, null) > 1", 9, "0 to 10 places"),
        ("count(where(rows.n, rows.t, word)) > 1", 28, "must be a literal value"),
        ("sum(where(gaps.n, rows.t, 'gst')) > 1", 18, "must come from one list"),
        ("sum(where(rows.n + gaps.n, rows.t, 'gst')) > 1", 27, "must come from one list"),
        ("sum(where(where(rows.n, rows.t, 'gst'), rows.t, 'tvq')) > 1", 40, "must come from one list"),
        ("sum(where(where(rows.n, rows.t, 'a'), where(rows.t, rows.t, 'b'), 'b')) > 1", 38, "must come from one list"),
    ],
)
def test_a_rule_that_could_never_be_evaluated_is_rejected(text: str, at: int, what: str) -> None:
    """Unknown names and incompatible kinds are reported when the type is compiled."""
    with pytest.raises(ExpressionError, match=what) as caught:
        check(parse(text), KINDS)
    assert caught.value.at == at


def test_every_function_is_explained() -> None:
    """Each has a line for the docs."""
    assert all(function.says for function in FUNCTIONS.values())


NUMBERS = st.one_of(
    st.none(), st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**30), max_value=10**30)
)


@given(NUMBERS, NUMBERS, st.sampled_from(["+", "-", "*", "/"]), st.sampled_from(["==", "<", ">=", "!="]))
def test_arithmetic_never_raises(a: Decimal | None, b: Decimal | None, sign: str, comparison: str) -> None:
    """Whatever the amounts, a rule gives true, false or null."""
    tree = parse(f"round(a {sign} b, 10) {comparison} a")
    assert holds(tree, Scope({"a": a, "b": b}, None, date(2024, 1, 1))) in (True, False, None)
