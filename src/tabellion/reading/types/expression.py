"""The language of cross-field rules: a text becomes a small tree, and every mistake names its character.

    abs(total - (subtotal + tax)) <= tolerance
    act_date == null or registration_date >= act_date
    sum(line_items.amount) == subtotal and currency in ("CAD", "USD")

There are no attributes, no loops, no powers and no functions but those of `evaluation.FUNCTIONS`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import NamedTuple

LONGEST = 1000  # characters of one rule
DEEPEST = 30  # brackets within brackets
MOST_TOKENS = 300

TOKEN = re.compile(
    r"(?P<space>\s+)|(?P<number>\d{1,20}(?:\.\d{1,10})?(?![\w.]))|(?P<text>\"[^\"\\]*\"|'[^'\\]*')"
    r"|(?P<name>[A-Za-z_]\w*)|(?P<sign><=|>=|==|!=|[-+*/<>(),.\[\]])"
)
COMPARISONS = ("==", "!=", "<=", ">=", "<", ">")
#: Words with a meaning of their own; no field may be called so.
RESERVED = ("and", "or", "not", "in", "true", "false", "null", "today", "tolerance")
#: What people write who come from other languages, and what it is here.
ELSEWHERE = {
    "=": "==", "&&": "and", "||": "or", "!": "not", "**": "x * x", "<>": "!=", "≤": "<=", "≥": ">=", "≠": "!=",
    "×": "*", "÷": "/", "−": "-", "–": "-", "%": "/ 100", "=<": "<=", "=>": ">=",
}  # fmt: skip


class ExpressionError(ValueError):
    """A rule cannot be understood; `at` is the character, counted from 0."""

    def __init__(self, what: str, at: int) -> None:
        self.what, self.at = what, at
        super().__init__(f"{what} (character {at + 1})")


@dataclass(frozen=True, slots=True)
class Literal:
    """A number, a text, true, false or null."""

    value: Decimal | str | bool | None
    at: int


@dataclass(frozen=True, slots=True)
class Name:
    """A field, a column of a list, `today` or `tolerance`."""

    name: str
    column: str | None
    at: int


@dataclass(frozen=True, slots=True)
class Call:
    """A function and what it is given."""

    function: str
    arguments: tuple[Expression, ...]
    at: int


@dataclass(frozen=True, slots=True)
class Negation:
    """`not x` or `-x`."""

    sign: str
    of: Expression
    at: int


@dataclass(frozen=True, slots=True)
class Operation:
    """`a + b`, `a and b`: two sides and the sign between them."""

    sign: str
    left: Expression
    right: Expression
    at: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """`a <= b < c`: sides and the signs between them."""

    sides: tuple[Expression, ...]
    signs: tuple[str, ...]
    at: int


@dataclass(frozen=True, slots=True)
class Membership:
    """`a in ("x", "y")`."""

    of: Expression
    options: tuple[Expression, ...]
    at: int


Expression = Literal | Name | Call | Negation | Operation | Comparison | Membership


class Token(NamedTuple):
    """A word of the rule and where it stands."""

    kind: str
    text: str
    at: int


def parse(text: str) -> Expression:
    """The tree of a rule."""
    return _Parser(text).whole()


def parts(expression: Expression) -> Iterator[Expression]:
    """The expression and everything within it."""
    yield expression
    inner: tuple[Expression, ...] = ()
    if isinstance(expression, Call):
        inner = expression.arguments
    elif isinstance(expression, Negation):
        inner = (expression.of,)
    elif isinstance(expression, Operation):
        inner = (expression.left, expression.right)
    elif isinstance(expression, Comparison):
        inner = expression.sides
    elif isinstance(expression, Membership):
        inner = (expression.of, *expression.options)
    for one in inner:
        yield from parts(one)


def names(expression: Expression) -> tuple[str, ...]:
    """The fields it speaks of, in the order it does."""
    found = [one.name for one in parts(expression) if isinstance(one, Name)]
    return tuple(dict.fromkeys(name for name in found if name not in RESERVED))


def tokens(text: str) -> list[Token]:
    """The words of a rule, closed by an empty one."""
    if len(text) > LONGEST:
        raise ExpressionError(f"the rule has {len(text):,} characters; at most {LONGEST:,} are read", LONGEST)
    found, at = [], 0
    while at < len(text):
        match = TOKEN.match(text, at)
        if match is None or match[0] == "":
            raise ExpressionError(_stranger(text, at), at)
        kind = str(match.lastgroup)
        if match[0] in "*<" and text[at : at + 2] in ELSEWHERE:
            raise ExpressionError(_stranger(text, at), at)
        if kind != "space":
            found.append(Token(kind, match[0], at))
        at = match.end()
    if len(found) > MOST_TOKENS:
        raise ExpressionError(f"the rule has more than {MOST_TOKENS} words and signs", found[MOST_TOKENS].at)
    return [*found, Token("end", "", len(text))]


def _stranger(text: str, at: int) -> str:
    for length in (2, 1):
        if instead := ELSEWHERE.get(text[at : at + length]):
            return f"{text[at : at + length]!r} is not a sign of rules; write {instead!r}"
    if text[at] in "\"'":
        return "this text is not closed, or has a backslash in it"
    if text[at].isdigit():
        return "a number is written like 12 or 0.02, with at most 20 digits before the point and 10 after it"
    return f"{text[at]!r} means nothing in a rule"


class _Parser:
    def __init__(self, text: str) -> None:
        self.tokens = tokens(text)
        self.place = 0
        self.depth = 0

    def whole(self) -> Expression:
        if self.next.kind == "end":
            raise ExpressionError("the rule is empty", 0)
        made = self.alternative()
        if self.next.kind != "end":
            raise ExpressionError(
                f"{self.next.text!r} was not expected here; is a sign missing before it?", self.next.at
            )
        return made

    @property
    def next(self) -> Token:
        return self.tokens[self.place]

    def takes(self, *texts: str) -> Token | None:
        token = self.next
        if token.kind in ("sign", "name") and token.text in texts:
            self.place += 1
            return token
        return None

    def needs(self, text: str, where: str) -> None:
        if not self.takes(text):
            found = repr(self.next.text) if self.next.text else "the end"
            raise ExpressionError(f"{text!r} is missing {where}; found {found}", self.next.at)

    def alternative(self) -> Expression:
        made = self.conjunction()
        while token := self.takes("or"):
            made = Operation("or", made, self.conjunction(), token.at)
        return made

    def conjunction(self) -> Expression:
        made = self.denial()
        while token := self.takes("and"):
            made = Operation("and", made, self.denial(), token.at)
        return made

    def denial(self) -> Expression:
        if token := self.takes("not"):
            return self.deeper(lambda: Negation("not", self.denial(), token.at), token.at)
        return self.comparison()

    def comparison(self) -> Expression:
        sides, signs, start = [self.sum()], [], self.next.at
        if (token := self.takes("in")) is not None:
            return Membership(sides[0], self.options(), token.at)
        if self.next.text == "not" and self.tokens[self.place + 1].text == "in":
            at = self.next.at
            self.place += 2
            return Negation("not", Membership(sides[0], self.options(), at), at)
        while token := self.takes(*COMPARISONS):
            signs.append(token.text)
            sides.append(self.sum())
        return Comparison(tuple(sides), tuple(signs), start) if signs else sides[0]

    def options(self) -> tuple[Expression, ...]:
        closing = ")" if self.takes("(") else "]"
        if closing == "]":
            self.needs("[", 'after "in", as in: currency in ("CAD", "USD")')
        return self.listed(closing)

    def sum(self) -> Expression:
        made = self.product()
        while token := self.takes("+", "-"):
            made = Operation(token.text, made, self.product(), token.at)
        return made

    def product(self) -> Expression:
        made = self.signed()
        while token := self.takes("*", "/"):
            made = Operation(token.text, made, self.signed(), token.at)
        return made

    def signed(self) -> Expression:
        if token := self.takes("-"):
            return self.deeper(lambda: Negation("-", self.signed(), token.at), token.at)
        return self.single()

    def single(self) -> Expression:
        token = self.next
        self.place += 1
        if token.kind == "number":
            return Literal(Decimal(token.text), token.at)
        if token.kind == "text":
            return Literal(token.text[1:-1], token.at)
        if token.text == "(":
            made = self.deeper(self.alternative, token.at)
            self.needs(")", "to close the bracket")
            return made
        if token.kind == "name":
            return self.named(token)
        self.place -= 1
        found = repr(token.text) if token.text else "the rule ends"
        raise ExpressionError(f"a field, a number, a text or a bracket was expected here, but {found}", token.at)

    def named(self, token: Token) -> Expression:
        constants = {"true": True, "false": False, "null": None}
        if token.text in constants:
            return Literal(constants[token.text], token.at)
        if token.text in ("and", "or", "not", "in"):
            raise ExpressionError(f"{token.text!r} was not expected here", token.at)
        if self.takes("("):
            return Call(token.text, self.listed(")"), token.at)
        column = None
        if self.takes("."):
            if self.next.kind != "name" or self.next.text in RESERVED:
                raise ExpressionError(f"the column of {token.text!r} is missing after the point", self.next.at)
            column = self.next.text
            self.place += 1
            if self.next.text == ".":
                raise ExpressionError("a list has columns and nothing deeper", self.next.at)
        return Name(token.text, column, token.at)

    def listed(self, closing: str) -> tuple[Expression, ...]:
        found: list[Expression] = []
        while not self.takes(closing):
            if found:
                self.needs(",", f"or {closing!r}")
            found.append(self.deeper(self.alternative, self.next.at))
        return tuple(found)

    def deeper(self, read: Callable[[], Expression], at: int) -> Expression:
        self.depth += 1
        if self.depth > DEEPEST:
            raise ExpressionError(f"brackets within brackets, more than {DEEPEST} deep", at)
        made = read()
        self.depth -= 1
        return made
