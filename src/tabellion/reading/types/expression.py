"""Parses cross-field rules: a text becomes a small tree, and every error has a character position.

    abs(total - (subtotal + tax)) <= tolerance
    empty(act_date) or registration_date >= act_date
    sum(line_items.amount) == subtotal and currency in ("CAD", "USD")

Python's own parser decides operator precedence. It sees placeholders instead of our words, so fields may have the
names of Python's keywords and numbers stay decimals; `_resolve` accepts only the syntax of rules.
"""

from __future__ import annotations

import ast
import bisect
import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, NamedTuple

LONGEST = 1000  # characters of one rule
DEEPEST = 30  # brackets within brackets
MOST_TOKENS = 300

TOKEN = re.compile(
    r"(?P<space>\s+)|(?P<number>\d{1,20}(?:\.\d{1,10})?(?![\w.]))|(?P<text>\"[^\"\\]*\"|'[^'\\]*')"
    r"|(?P<word>(?:and|or|not|in)\b)|(?P<constant>(?:true|false|null)\b)|(?P<name>[A-Za-z_]\w*)"
    r"|(?P<sign><=|>=|==|!=|[-+*/<>(),.\[\]])"
)
#: What Python's parser sees for a token; for other kinds it sees the text itself.
PLACEHOLDERS = {"number": "0", "text": "0", "constant": "0", "name": "x"}
CONSTANTS = {"true": True, "false": False, "null": None}
#: Reserved words; a field cannot have such a name.
RESERVED = ("and", "or", "not", "in", "true", "false", "null", "today", "tolerance")
#: Operators of other languages, and the equivalent in rules.
ELSEWHERE = {
    "=": "==", "&&": "and", "||": "or", "!": "not", "**": "x * x", "<>": "!=", "≤": "<=", "≥": ">=", "≠": "!=",
    "×": "*", "÷": "/", "−": "-", "–": "-", "%": "/ 100", "=<": "<=", "=>": ">=",
}  # fmt: skip

AFTER_IN = '\'[\' is missing after "in", as in: currency in ("CAD", "USD")'


class ExpressionError(ValueError):
    """A rule cannot be parsed; `at` is the character, counted from 0."""

    def __init__(self, what: str, at: int | ast.expr) -> None:
        self.what, self.at = what, at if isinstance(at, int) else at.col_offset
        super().__init__(f"{what} (character {self.at + 1})")


class Token(NamedTuple):
    """A word of the rule and its position."""

    kind: str
    text: str
    at: int


def parse(text: str) -> ast.expr:
    """The tree of a rule; `col_offset` of a node is the character of the text where it begins."""
    words = tokens(text)
    if len(words) == 1:
        raise ExpressionError("the rule is empty", 0)
    tree = _python(words[:-1])
    if tree is None:
        raise _mistake(words)
    _resolve(tree, words)
    return tree


def names(expression: ast.expr) -> tuple[str, ...]:
    """The fields that the expression uses, in order of appearance."""
    functions = [node.func for node in ast.walk(expression) if isinstance(node, ast.Call)]
    found = [node for node in ast.walk(expression) if isinstance(node, ast.Name) and node not in functions]
    found.sort(key=lambda node: node.col_offset)
    return tuple(dict.fromkeys(node.id for node in found if node.id not in RESERVED))


def tokens(text: str) -> list[Token]:
    """The tokens of a rule, with an empty one at the end."""
    if len(text) > LONGEST:
        raise ExpressionError(f"the rule has {len(text):,} characters; at most {LONGEST:,} are allowed", LONGEST)
    found, at = [], 0
    while at < len(text):
        match = TOKEN.match(text, at)
        if match is None or (match[0] in "*<" and text[at : at + 2] in ELSEWHERE):
            raise ExpressionError(_explain_unknown_sign(text, at), at)
        if match.lastgroup != "space":
            found.append(Token(str(match.lastgroup), match[0], at))
        at = match.end()
    if len(found) > MOST_TOKENS:
        raise ExpressionError(f"the rule has more than {MOST_TOKENS} words and signs", found[MOST_TOKENS].at)
    brackets = prefixes = 0
    for token in found:
        brackets += (token.text in ("(", "[")) - (token.text in (")", "]"))
        prefixes = prefixes + 1 if token.text in ("not", "-") else 0
        if max(brackets, prefixes) > DEEPEST:
            raise ExpressionError(f"brackets are nested more than {DEEPEST} levels deep", token.at)
    return [*found, Token("end", "", len(text))]


def _explain_unknown_sign(text: str, at: int) -> str:
    for length in (2, 1):
        if instead := ELSEWHERE.get(text[at : at + length]):
            return f"{text[at : at + length]!r} is not an operator; write {instead!r}"
    if text[at] in "\"'":
        return "this text is not closed, or has a backslash in it"
    if text[at].isdigit():
        return "a number is written like 12 or 0.02, with at most 20 digits before the point and 10 after it"
    return f"{text[at]!r} means nothing in a rule"


def _python(words: Sequence[Token], closing: str = "") -> ast.expr | None:
    """Python's tree of the words, each at twice its position so that no two touch; None for a syntax error."""
    text = ""
    for word in words:
        text = text.ljust(2 * (word.at - words[0].at)) + PLACEHOLDERS.get(word.kind, word.text)
    try:
        return ast.parse(text + closing, mode="eval").body
    except SyntaxError:
        return None


def _mistake(words: Sequence[Token]) -> ExpressionError:
    """The error for the first word that cannot follow those before it.

    Python's own error position is not used: it differs between versions.
    """

    def cannot_continue(count: int) -> bool:
        closing = _find_missing_brackets(words[:count])
        return _python(words[:count], closing) is None and _python(words[:count], " x" + closing) is None

    index = bisect.bisect_left(range(1, len(words)), True, key=cannot_continue)
    wrong, before = words[index], words[:index]
    found = repr(wrong.text) if wrong.text else "the end"
    last = before[-1] if before else Token("start", "", 0)
    closing = _find_missing_brackets(before)
    if last.text == ".":
        problem = f"the column of {before[-2].text!r} is missing after the point"
    elif last.text == "in":
        problem = f"{AFTER_IN}; found {found}"
    elif last.kind in PLACEHOLDERS or last.text in (")", "]"):
        problem = f"{wrong.text!r} was not expected here; is an operator missing before it?"
        if closing:
            problem = f"{closing[1]!r} is missing here, or ',' in a list; found {found}"
    elif wrong.kind == "word":
        problem = f"{wrong.text!r} was not expected here"
    else:
        found = found if wrong.text else "the rule ends"
        problem = f"a field, a number, a text or a bracket was expected here, but {found}"
    return ExpressionError(problem, wrong.at)


def _find_missing_brackets(words: Sequence[Token]) -> str:
    """The missing closing brackets, the innermost first."""
    closing = ""
    for word in words:
        if word.text in ("(", "["):
            closing = " " + {"(": ")", "[": "]"}[word.text] + closing
        elif word.text in (")", "]"):
            closing = closing[2:]
    return closing


def _resolve(node: ast.expr, words: Sequence[Token]) -> None:
    """Replaces a node's placeholder and position by those of its word; rejects syntax that rules do not have."""
    index = _number(words, node.col_offset)
    word = words[index]
    match node:
        case ast.Constant():
            value: Any = Decimal(word.text) if word.kind == "number" else word.text[1:-1]
            node.value = CONSTANTS[word.text] if word.kind == "constant" else value
        case ast.Name():
            node.id = word.text
        case ast.Attribute(value=ast.Name()):
            column = words[_number(words, node.end_col_offset) - 1]
            if column.text in RESERVED:
                raise ExpressionError(f"the column of {word.text!r} is missing after the point", column.at)
            node.attr = column.text
        case ast.Compare(ops=[ast.In() | ast.NotIn()], comparators=[options]):
            opening = _number(words, options.col_offset)
            if isinstance(options, ast.Tuple | ast.List):
                node.comparators = options.elts
            elif words[opening - 1].text != "(":  # Python drops the brackets around a single option
                raise ExpressionError(f"{AFTER_IN}; found {words[opening].text!r}", words[opening].at)
        case ast.Compare(ops=ops) if any(isinstance(sign, ast.In | ast.NotIn) for sign in ops):
            raise ExpressionError(
                "`in` does not chain with other comparisons; put brackets around one of them", word.at
            )
        case ast.UnaryOp(op=ast.Not() | ast.USub()) | ast.BoolOp() | ast.BinOp() | ast.Compare():
            pass
        case ast.Call(func=ast.Name()):
            pass
        case _:
            raise _build_unexpected(node, words)
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):
            _resolve(child, words)
    node.col_offset = words[index].at


def _build_unexpected(node: ast.expr, words: Sequence[Token]) -> ExpressionError:
    """The error for Python syntax that rules do not have: `f(a)(b)`, `a[b]`, `a.b.c`, `(a, b)`, `+a`, `*a`."""
    child = next(ast.iter_child_nodes(node))
    offset: int | None = node.col_offset
    if isinstance(node, ast.Call | ast.Attribute | ast.Subscript | ast.Tuple) and isinstance(child, ast.expr):
        offset = child.end_col_offset
    word = words[_number(words, offset)]
    if isinstance(node, ast.Attribute) and isinstance(child, ast.Attribute):
        return ExpressionError("a list has only columns, nothing deeper", word.at)
    return ExpressionError(f"{word.text!r} was not expected here; is an operator missing before it?", word.at)


def _number(words: Sequence[Token], offset: int | None) -> int:
    """The index of the first word at or after this offset in the text that Python parsed."""
    return bisect.bisect_left(words, words[0].at + (offset or 0) / 2, key=lambda word: word.at)
