"""The language of rules: what it accepts, and what it rejects, with the character."""

from __future__ import annotations

import ast
from decimal import Decimal

import pytest

from tabellion.reading.types.expression import ExpressionError, names, parse


def test_products_bind_before_sums_and_sums_before_comparisons() -> None:
    """`a + b * c <= d` is `(a + (b * c)) <= d`."""
    assert ast.dump(parse("a + b * c <= d")) == ast.dump(parse("(a + (b * c)) <= d"))
    assert ast.dump(parse("a + b * c <= d")) != ast.dump(parse("(a + b) * c <= d"))


def test_and_binds_before_or_and_not_before_both() -> None:
    """`not a or b and c` is `(not a) or (b and c)`."""
    assert ast.dump(parse("not a or b and c")) == ast.dump(parse("(not a) or (b and c)"))


def test_minus_is_left_associative() -> None:
    """`9 - 3 - 2` is 4."""
    assert ast.dump(parse("9 - 3 - 2")) == ast.dump(parse("(9 - 3) - 2"))


def test_comparisons_chain() -> None:
    """`a <= b < c` keeps three sides."""
    tree = parse("a <= b < c")
    assert isinstance(tree, ast.Compare)
    assert [type(sign) for sign in tree.ops] == [ast.LtE, ast.Lt]


def test_columns_calls_texts_and_memberships() -> None:
    """Every kind of node is parsed, with either quote and either bracket, and knows its position."""
    column = parse("  line_items.amount")
    assert isinstance(column, ast.Attribute)
    assert (ast.unparse(column), column.col_offset) == ("line_items.amount", 2)
    for text in ("currency in (\"CAD\", 'USD')", "currency not in ['CAD', 'USD']"):
        tree = parse(text)
        assert isinstance(tree, ast.Compare)
        assert [option.value for option in tree.comparators if isinstance(option, ast.Constant)] == ["CAD", "USD"]
    [one] = parse('a in ("x")').comparators  # type: ignore[attr-defined]
    assert one.value == "x"
    call = parse("min(a, b, 1.50)")
    assert isinstance(call, ast.Call)
    number = call.args[2]
    assert isinstance(number, ast.Constant)
    assert isinstance(number.value, Decimal)
    assert (str(number.value), number.col_offset) == ("1.50", 10)
    for text, value in (("true", True), ("null", None)):
        assert parse(text).value is value


def test_python_keywords_are_ordinary_names() -> None:
    """Fields may be called like Python's keywords; numbers may begin with zeros, and rules may span lines."""
    assert names(parse("class + from.lambda\n- dû == 007.50 and None")) == ("class", "from", "dû", "None")


@pytest.mark.parametrize(
    ("text", "at", "what"),
    [
        ("", 0, "empty"),
        ("total = subtotal", 6, "write '=='"),
        ("a && b", 2, "write 'and'"),
        ("a ** b", 2, "write 'x \\* x'"),
        ("a <> b", 2, "write '!='"),
        ("10 %", 3, "write '/ 100'"),
        ("a $ b", 2, "means nothing"),
        ("'open", 0, "not closed"),
        ('"a\\"b"', 0, "not closed"),
        ("1e5", 0, "a number is written"),
        ("1.2.3", 0, "a number is written"),
        ("9" * 21, 0, "at most 20 digits"),
        ("a b", 2, "not expected"),
        ("a +", 3, "the rule ends"),
        ("(a", 2, "'\\)' is missing"),
        ("f(a b)", 4, "',' in a list"),
        ("f(a, , b)", 5, "was expected here, but ','"),
        ("a.b.c", 3, "nothing deeper"),
        ("a.", 2, "column of 'a' is missing"),
        ("a.and", 2, "column of 'a' is missing"),
        ("a in 3", 5, "'\\[' is missing"),
        ("a in", 4, "'\\[' is missing"),
        ("a in (1) == b", 0, "does not chain"),
        ("and", 0, "not expected"),
        ("a + ", 4, "the rule ends"),
        (")", 0, "expected here, but '\\)'"),
        (".a", 0, "expected here, but '.'"),
        ("a)(b", 1, "'\\)' was not expected"),
        ("f(a)(b)", 4, "'\\(' was not expected"),
        ("a.f(b)", 3, "'\\(' was not expected"),
        ("a[0]", 1, "'\\[' was not expected"),
        ("'a'.b", 3, "'.' was not expected"),
        ("(a, b) == c", 2, "',' was not expected"),
        ("a == [b]", 5, "'\\[' was not expected"),
        ("a == +b", 5, "'\\+' was not expected"),
        ("f(*a)", 2, "'\\*' was not expected"),
        ("'a' 'b'", 4, "not expected"),
        ("a.today", 2, "column of 'a' is missing"),
    ],
)
def test_errors_name_their_character(text: str, at: int, what: str) -> None:
    """Common mistakes are explained where they are."""
    with pytest.raises(ExpressionError, match=what) as caught:
        parse(text)
    assert caught.value.at == at


@pytest.mark.parametrize("text", ["(" * 31 + "a" + ")" * 31, "not " * 31 + "a", "-" * 31 + "a", "f(" * 32 + ")" * 32])
def test_depth_is_limited(text: str) -> None:
    """Nested brackets, nots, signs and calls end at a limit, not in a crash."""
    with pytest.raises(ExpressionError, match="more than 30 levels deep"):
        parse(text)


def test_length_is_limited() -> None:
    """A rule has at most a thousand characters and three hundred words."""
    with pytest.raises(ExpressionError, match="at most 1,000"):
        parse("a" * 1001)
    with pytest.raises(ExpressionError, match="more than 300"):
        parse("a" + "+a" * 200)
