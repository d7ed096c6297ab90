"""JSON bodies, strictly: one reading of every text, or a problem that says line and column."""

from __future__ import annotations

import json
import re
from typing import Any

from tabellion.web.problems import Problem, pointer

DEEPEST = 50
#: A string that never ends is one token up to the end of the text: looking for the end anew at each of its quotes takes
#: time with the square of its length.
_TOKENS = re.compile(r'"(?:[^"\\]|\\.)*+"?|[\[{]|[\]}]|NaN|-?Infinity', re.DOTALL)
_LARGEST = 2**63 - 1


def loads(body: bytes) -> Any:
    """The value that a body stands for; raises a Problem for what has no reading, or two."""
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        raise Problem(400, "json_invalid", f"byte {error.start + 1} is not UTF-8", fix="send UTF-8") from None
    _scan(text)
    try:
        value = json.loads(text, object_pairs_hook=_object, parse_int=_integer, parse_float=_number)
    except json.JSONDecodeError as error:
        detail = f"line {error.lineno}, column {error.colno}: {error.msg[0].lower()}{error.msg[1:]}"
        raise Problem(400, "json_invalid", detail, line=error.lineno, column=error.colno) from None
    except RecursionError:
        raise _too_deep() from None
    _check_texts(value)
    return value


def _too_deep() -> Problem:
    return Problem(400, "json_too_deep", f"lists and objects are nested more than {DEEPEST} levels deep")


def _scan(text: str) -> None:
    """Refuses what Python's reader would take, and depth before it recurses."""
    depth = 0
    for match in _TOKENS.finditer(text):
        mark = match[0]
        if mark in "[{":
            depth += 1
            if depth > DEEPEST:
                raise _too_deep()
        elif mark in "]}":
            depth -= 1
        elif mark[0] != '"':
            line = text.count("\n", 0, match.start()) + 1
            column = match.start() - text.rfind("\n", 0, match.start())
            raise Problem(
                400, "json_invalid", f"line {line}, column {column}: {mark} is not JSON", line=line, column=column
            )


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise Problem(400, "json_invalid", f"the key {_quote_name(twice)} is repeated")
    return made


def _integer(text: str) -> int:
    value = int(text) if len(text) <= 20 else _LARGEST + 1
    if abs(value) > _LARGEST:
        raise Problem(422, "value_invalid", "an integer has more than 64 bits", expected="an integer below 2^63")
    return value


def _number(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise Problem(422, "value_invalid", "a number is too large for 64 bits", expected="a number below 1.8e308")
    return value


def _check_texts(value: Any) -> None:
    waiting: list[tuple[tuple[str | int, ...], Any]] = [((), value)]
    while waiting:
        path, one = waiting.pop()
        if isinstance(one, str):
            _check_text(one, path)
        elif isinstance(one, list):
            waiting += [((*path, place), inner) for place, inner in enumerate(one)]
        elif isinstance(one, dict):
            for name, inner in one.items():
                _check_text(name, path)
                waiting.append(((*path, name), inner))


def _check_text(text: str, path: tuple[str | int, ...]) -> None:
    if "\x00" in text:
        raise Problem(400, "text_nul", field=pointer(*path) or None)
    try:
        text.encode()
    except UnicodeEncodeError:
        raise Problem(400, "json_invalid", "a text contains a lone surrogate") from None


def _quote_name(name: str) -> str:
    return json.dumps(name if len(name) <= 60 else name[:60] + "…")
