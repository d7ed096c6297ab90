"""Validates a model's answer: only an answer that fits the request becomes a result."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from tabellion import extras
from tabellion.messages import Message
from tabellion.models.base import Ask, Schema, Usage
from tabellion.models.errors import BadOutput, Fault, Rejected

#: Temperatures of retries, where the same request would get the same answer.
TEMPERATURES = (0.0, 0.2, 0.5, 0.8, 1.0)
CUT_SHORT = {"MAX_TOKENS", "length", "max_tokens", "max_output_tokens"}
LONGEST_TAIL = 6000  # characters at the end that are searched for a loop
SHORTEST_LOOP = 400  # in an answer that was cut off: loops run until the limit
LONGEST_TABLE = 2000  # in an answer that ended by itself: some tables repeat themselves

_HTML = re.compile(r"\s*<(?:!doctype\s+html|html|head|body)\b", re.IGNORECASE)
_FENCE = re.compile(r"```[a-zA-Z]*\s*\n(.*?)(?:\n\s*```|\Z)", re.DOTALL)


def judge(
    text: str, schema: Schema | None, ask: Ask, *, finish: str = "stop", usage: Usage | None = None,
    cost: float | None = None,
) -> Any:  # fmt: skip
    """The parsed object (None without a schema); raises a BadOutput with a hint for the next attempt."""

    def bad(fault: Fault, message: str, hint: Mapping[str, Any] | None = None) -> BadOutput:
        return BadOutput(message, fault, raw=text, usage=usage, cost=cost, hint=hint)

    warmer = {"temperature": next_temperature(ask.temperature)}
    cut = finish in CUT_SHORT
    if loops(text, cut):
        raise bad("repetition", Message("model.repeats_itself"), warmer)
    if cut and not text.strip():
        raise bad("empty", Message("model.nothing_answered", n=ask.max_tokens), more_room(schema, ask))
    if cut:
        raise bad("truncated", Message("model.cut_off", n=ask.max_tokens), more_room(schema, ask))
    if not text.strip():
        raise bad("empty", Message("model.empty"), warmer)
    if schema is None:
        return None
    if _HTML.match(text):
        raise bad("html", Message("model.web_page"), warmer)
    try:
        parsed = parse(text)
    except _Unfinished:
        raise bad("truncated", Message("model.json_cut_off"), more_room(schema, ask)) from None
    except ValueError as error:
        raise bad("json", Message("model.not_json", text=str(error)), warmer) from None
    parsed = without_nulls(parsed, schema)
    if complaint := complaint_of(parsed, schema):
        raise bad("schema", Message("model.wrong_schema", text=complaint), warmer)
    return parsed


def parse_response(name: str, body: str) -> dict[str, Any]:
    """The body of a response with status 200, as an object."""
    if _HTML.match(body):
        message = Message("model.web_page_instead", model=name)
        raise BadOutput(message, "html", raw=body)
    try:
        data = json.loads(body)
    except (ValueError, RecursionError):
        raise BadOutput(Message("model.not_json_instead", model=name), "json", raw=body) from None
    if not isinstance(data, dict):
        raise BadOutput(Message("model.not_an_object", model=name), "json", raw=body)
    return data


def more_room(schema: Schema | None, ask: Ask) -> dict[str, Any]:
    """The hint for an answer that was cut off: fewer fields at once, else more tokens."""
    if schema is not None and len(schema.get("properties") or ()) > 1:
        return {"split": 2}
    return {"max_tokens": min(2 * ask.max_tokens, 65_536)}


def next_temperature(current: float, ladder: tuple[float, ...] = TEMPERATURES) -> float:
    """The next higher temperature."""
    return next((step for step in ladder if step > current), ladder[-1])


class _Unfinished(ValueError):  # noqa: N818 - a state
    """JSON that ends too early."""


def parse(text: str) -> Any:
    """Parses JSON, also in a code fence with text around it; strict in everything else."""
    body = text.strip().removeprefix("\ufeff")
    if not body.startswith(("{", "[")) and (fence := _FENCE.search(body)):
        body = fence[1].strip()
    try:
        data = json.loads(body, parse_constant=_refuse)
        json.dumps(data, ensure_ascii=False).encode()  # lone surrogates can be parsed but not encoded
    except json.JSONDecodeError as error:
        if body.startswith(("{", "[")) and _open(body):
            raise _Unfinished(str(error)) from None
        raise ValueError(Message("json.not_valid_at", n=error.pos)) from None
    except UnicodeEncodeError:
        raise ValueError(Message("json.lone_surrogate")) from None
    except RecursionError:
        raise ValueError(Message("json.too_deep")) from None
    return data


def _refuse(constant: str) -> Any:
    raise ValueError(Message("json.constant", name=constant))


def _open(body: str) -> bool:
    """Whether brackets or a string are still open at the end."""
    depth = 0
    quoted = False
    for piece in re.finditer(r'\\.|["{}\[\]]', body):
        mark = piece[0]
        if mark == '"':
            quoted = not quoted
        elif not quoted and mark in "{[":
            depth += 1
        elif not quoted and mark in "}]":
            depth -= 1
    return quoted or depth > 0


def loops(text: str, cut: bool) -> bool:
    """Whether the answer ends in a repetition loop.

    Only the end counts, and only when it is long: dotted leaders, rulers and tables repeat themselves too, but then
    something else follows, or the answer ends by itself.
    """
    tail = text[-LONGEST_TAIL:].rstrip().rstrip('"]}').rstrip()
    shortest, times = (SHORTEST_LOOP, 6) if cut else (LONGEST_TABLE, 20)
    if len(tail) < shortest or len(zlib.compress(tail[-shortest:].encode("utf-8", "replace"), 1)) > shortest // 4:
        return False  # repetition compresses well; this test takes microseconds, the next one milliseconds
    unit, span = _period(tail[::-1])
    if span < shortest or span < times * unit:
        return False
    return cut or any(mark.isalnum() for mark in tail[-unit:])


def _period(text: str) -> tuple[int, int]:
    """The length of the unit whose repetition covers the longest prefix of a text, and of the prefix (Z function)."""
    best = (len(text), 0)
    left = right = 0
    reach = [0] * len(text)
    for start in range(1, len(text)):
        length = min(right - start, reach[start - left]) if start < right else 0
        while start + length < len(text) and text[length] == text[start + length]:
            length += 1
        reach[start] = length
        if start + length > right:
            left, right = start, start + length
        if length >= start and start + length > best[1]:
            best = (start, start + length)
    return best


def without_nulls(found: Any, schema: Any, root: Schema | None = None) -> Any:
    """The object without nulls for absent optional fields: models write them where schemas forbid them."""
    root = schema if root is None else root
    schema = resolve_ref(schema, root)
    if isinstance(found, list):
        items = schema.get("items")
        return [without_nulls(item, items, root) for item in found] if isinstance(items, Mapping) else found
    properties = schema.get("properties")
    if not isinstance(found, dict) or not isinstance(properties, Mapping):
        return found
    required = schema.get("required") or ()
    result = {}
    for key, value in found.items():
        inner = properties.get(key)
        if value is None and key not in required and inner is not None and complaint_of(None, inner, root):
            continue
        result[key] = without_nulls(value, inner, root) if isinstance(inner, Mapping) else value
    return result


def resolve_ref(schema: Any, root: Schema) -> Mapping[str, Any]:
    """The schema, or the target of its local `$ref`."""
    for _ in range(20):
        if not isinstance(schema, Mapping):
            return {}
        target = schema.get("$ref")
        if not isinstance(target, str) or not target.startswith("#/"):
            return schema
        schema = root
        for step in target[2:].split("/"):
            schema = schema.get(step, {}) if isinstance(schema, Mapping) else {}
    return {}


def complaint_of(found: Any, schema: Any, root: Schema | None = None) -> str:
    """The first violation of the schema, without quoting the document; empty when there is none."""
    if root is not None and isinstance(schema, Mapping) and "$defs" in root:
        schema = {**schema, "$defs": root["$defs"]}
    validator = _validator(json.dumps(schema, sort_keys=True))
    error = next(iter(validator.iter_errors(found)), None)
    if error is None:
        return ""
    path = "/".join(str(step) for step in error.instance_path)
    rule = "/".join(str(step) for step in error.schema_path)
    return Message("schema.broken", place=path or Message("schema.whole"), rule=rule)


@lru_cache(maxsize=256)
def _validator(schema: str) -> Any:
    with extras.explain_missing():
        import jsonschema_rs
    try:
        return jsonschema_rs.validator_for(json.loads(schema), retriever=_refuse_fetching)
    except ValueError as error:
        raise Rejected(Message("model.schema_invalid", text=str(error).splitlines()[0][:200])) from None


def _refuse_fetching(uri: str) -> Any:
    raise ValueError(f"a schema may not fetch {uri}")
