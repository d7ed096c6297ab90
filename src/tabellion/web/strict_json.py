"""Strict parsing of JSON bodies: ambiguous or invalid JSON is a problem with line and column."""

from __future__ import annotations

import json
import re
from typing import Any

from tabellion.messages import Message
from tabellion.web.problems import Problem, pointer

DEEPEST = 50
#: An unterminated string is one token up to the end of the text: searching for its end again at each quote would take
#: quadratic time.
_TOKENS = re.compile(r'"(?:[^"\\]|\\.)*+"?|[\[{]|[\]}]|NaN|-?Infinity', re.DOTALL)
_LARGEST = 2**63 - 1


def loads(body: bytes) -> Any:
    """The value of a JSON body; raises a Problem if it is invalid or ambiguous."""
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        raise Problem(
            400, "json_invalid", Message("problem.not_utf8", place=str(error.start + 1)), fix=Message("fix.send_utf8")
        ) from None
    _scan(text)
    try:
        value = json.loads(text, object_pairs_hook=_object, parse_int=_integer, parse_float=_number)
    except json.JSONDecodeError as error:
        text = error.msg[0].lower() + error.msg[1:]
        detail = Message("problem.json_at", line=str(error.lineno), column=str(error.colno), text=text)
        raise Problem(400, "json_invalid", detail, line=error.lineno, column=error.colno) from None
    except RecursionError:
        raise _too_deep() from None
    _check_texts(value)
    return value


def _too_deep() -> Problem:
    return Problem(400, "json_too_deep", Message("problem.json_depth", n=DEEPEST))


def _scan(text: str) -> None:
    """Rejects NaN and Infinity, which Python's parser accepts, and deep nesting before the parser recurses."""
    depth = 0
    for match in _TOKENS.finditer(text):
        symbol = match[0]
        if symbol in "[{":
            depth += 1
            if depth > DEEPEST:
                raise _too_deep()
        elif symbol in "]}":
            depth -= 1
        elif symbol[0] != '"':
            line = text.count("\n", 0, match.start()) + 1
            column = match.start() - text.rfind("\n", 0, match.start())
            raise Problem(
                400,
                "json_invalid",
                Message("problem.not_json_at", line=str(line), column=str(column), symbol=symbol),
                line=line,
                column=column,
            )


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        names: set[str] = set()
        repeated = next(name for name, _ in pairs if name in names or names.add(name))  # type: ignore[func-returns-value]
        quoted = repeated if len(repeated) <= 60 else repeated[:60] + "…"
        raise Problem(400, "json_invalid", Message("problem.json_key_repeated", name=json.dumps(quoted)))
    return result


def _integer(text: str) -> int:
    value = int(text) if len(text) <= 20 else _LARGEST + 1
    if abs(value) > _LARGEST:
        raise Problem(422, "value_invalid", Message("problem.integer_size"), expected=Message("expected.integer_size"))
    return value


def _number(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise Problem(422, "value_invalid", Message("problem.number_size"), expected=Message("expected.number_size"))
    return value


def _check_texts(value: Any) -> None:
    pending: list[tuple[tuple[str | int, ...], Any]] = [((), value)]
    while pending:
        path, item = pending.pop()
        if isinstance(item, str):
            _check_text(item, path)
        elif isinstance(item, list):
            pending += [((*path, index), inner) for index, inner in enumerate(item)]
        elif isinstance(item, dict):
            for name, inner in item.items():
                _check_text(name, path)
                pending.append(((*path, name), inner))


def _check_text(text: str, path: tuple[str | int, ...]) -> None:
    if "\x00" in text:
        raise Problem(400, "text_nul", field=pointer(*path) or None)
    try:
        text.encode()
    except UnicodeEncodeError:
        raise Problem(400, "json_invalid", Message("problem.lone_surrogate")) from None
