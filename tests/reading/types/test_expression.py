"""The language of rules: what it reads, and what it refuses, with the character."""

from __future__ import annotations

from decimal import Decimal

import pytest

from tabellion.reading.types.expression import (
    Call,
    Comparison,
    ExpressionError,
    Literal,
    Membership,
    Name,
    Negation,
    Operation,
    names,
    parse,
)


def test_products_bind_before_sums_and_sums_before_comparisons() -> None:
    """`a + b * c <= d` is `(a + (b * c)) <= d`."""
    tree = parse("a + b * c <= d")
    assert isinstance(tree, Comparison)
    left = tree.sides[0]
    assert isinstance(left, Operation)
    assert left.sign == "+"
    assert isinstance(left.right, Operation)
    assert left.right.sign == "*"


def test_and_binds_before_or_and_not_before_both() -> None:
    """`not a or b and c` is `(not a) or (b and c)`."""
    tree = parse("not a or b and c")
    assert isinstance(tree, Operation)
    assert tree.sign == "or"
    assert isinstance(tree.left, Negation)
    assert isinstance(tree.right, Operation)
    assert tree.right.sign == "and"


def test_minus_is_left_associative() -> None:
    """`9 - 3 - 2` takes both away."""
    tree = parse("9 - 3 - 2")
    assert isinstance(tree, Operation)
    assert tree.right == Literal(Decimal(2), 8)


def test_comparisons_chain() -> None:
    """`a <= b < c` keeps three sides."""
    tree = parse("a <= b < c")
    assert isinstance(tree, Comparison)
    assert tree.signs == ("<=", "<")
    assert len(tree.sides) == 3


def test_columns_calls_texts_and_memberships() -> None:
    """Every kind of part is read, with either quote and either bracket."""
    assert parse("line_items.amount") == Name("line_items", "amount", 0)
    tree = parse("currency in (\"CAD\", 'USD')")
    assert isinstance(tree, Membership)
    assert [option.value for option in tree.options if isinstance(option, Literal)] == ["CAD", "USD"]
    assert isinstance(parse('a not in ["x"]'), Negation)
    call = parse("min(a, b, 1.5)")
    assert isinstance(call, Call)
    assert call.arguments[2] == Literal(Decimal("1.5"), 10)
    assert parse("true") == Literal(True, 0)
    assert parse("null") == Literal(None, 0)


def test_the_fields_of_a_rule_are_told_once_in_order() -> None:
    """Words of the language are not fields."""
    assert names(parse("abs(total - sum(line_items.amount)) <= tolerance and total > 0 and due <= today")) == (
        "total",
        "line_items",
        "due",
    )


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
        ("f(a b)", 4, "',' is missing"),
        ("a.b.c", 3, "nothing deeper"),
        ("a.", 2, "column of 'a' is missing"),
        ("a.and", 2, "column of 'a' is missing"),
        ("a in 3", 5, "'\\[' is missing"),
        ("and", 0, "not expected"),
    ],
)
def test_mistakes_name_their_character(text: str, at: int, what: str) -> None:
    """What people get wrong is explained where it stands."""
    with pytest.raises(ExpressionError, match=what) as caught:
        parse(text)
    assert caught.value.at == at


@pytest.mark.parametrize("text", ["(" * 31 + "a" + ")" * 31, "not " * 31 + "a", "-" * 31 + "a", "f(" * 32 + ")" * 32])
def test_depth_is_bounded(text: str) -> None:
    """Brackets, nots, signs and calls within each other end at a limit, not in a crash."""
    with pytest.raises(ExpressionError, match="more than 30 deep"):
        parse(text)


def test_length_is_bounded() -> None:
    """A rule has at most a thousand characters and three hundred words."""
    with pytest.raises(ExpressionError, match="at most 1,000"):
        parse("a" * 1001)
    with pytest.raises(ExpressionError, match="more than 300"):
        parse("a" + "+a" * 200)
