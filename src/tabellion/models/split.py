"""Splits a question that is too large for one answer: the fields are divided, the objects merged."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tabellion.models.base import Ask, Part, Reply, Schema, Usage
from tabellion.models.errors import BadOutput, ModelError

CallModel = Callable[[Sequence[Part], Schema | None, Ask], Awaitable[Reply]]

HEAVY = 4  # a table or a nested object writes about as much as four plain fields
#: Rules about several fields at once, which do not apply to a part of the fields.
ACROSS = {"minProperties", "maxProperties", "dependentRequired", "dependentSchemas", "if", "then", "else"}


async def in_parts(call: CallModel, parts: Sequence[Part], schema: Schema | None = None, ask: Ask = Ask()) -> Reply:
    """One reply, merged from as many calls as `ask.hint["split"]` says.

    `call` makes one call: a model's own method, or the gate before it, so that every part is counted, paid and
    throttled like any other call.
    """
    groups = divide(schema, int(ask.hint.get("split", 1))) if schema is not None else []
    if len(groups) < 2:
        return await call(parts, schema, ask)
    ask = replace(ask, hint={key: value for key, value in ask.hint.items() if key != "split"})
    merged: dict[str, Any] = {}
    usage, cost, seconds, replies = Usage(), 0.0, 0.0, list[Reply]()
    for group in groups:
        try:
            reply = await call(parts, group, ask)
        except ModelError as error:
            _charge(error, usage, cost, replies)
            if isinstance(error, BadOutput) and error.fault == "truncated":
                error.hint = {"split": 2 * len(groups)}
            raise
        if isinstance(reply.object, Mapping):
            merged |= reply.object
        replies.append(reply)
        usage, cost, seconds = usage + reply.usage, cost + (reply.cost or 0.0), seconds + reply.seconds
    return Reply(
        text=json.dumps(merged, ensure_ascii=False), object=merged, usage=usage, seconds=seconds,
        cost=None if any(reply.cost is None for reply in replies) else cost,
        model=replies[-1].model, request_id=",".join(reply.request_id for reply in replies if reply.request_id),
    )  # fmt: skip


def divide(schema: Schema, count: int) -> list[dict[str, Any]]:
    """Up to `count` schemas that together have all fields, in their order."""
    properties = schema.get("properties") or {}
    count = min(count, len(properties))
    if count < 2:
        return [dict(schema)]
    weights = [HEAVY if _is_heavy(inner) else 1 for inner in properties.values()]
    total, before = sum(weights), 0
    groups: list[list[str]] = [[] for _ in range(count)]
    for name, weight in zip(properties, weights, strict=True):
        groups[min(count - 1, int((before + weight / 2) * count / total))].append(name)
        before += weight
    return [_only(schema, group) for group in groups if group]


def _only(schema: Schema, names: list[str]) -> dict[str, Any]:
    part = {key: value for key, value in schema.items() if key not in ACROSS}
    part["properties"] = {name: schema["properties"][name] for name in names}
    if "required" in schema:
        part["required"] = [name for name in schema["required"] if name in names]
    return part


def _is_heavy(schema: Any) -> bool:
    return isinstance(schema, Mapping) and (schema.get("type") in ("array", "object") or "$ref" in schema)


def _charge(error: ModelError, usage: Usage, cost: float, replies: list[Reply]) -> None:
    """Adds the usage and cost of the parts before the one that failed."""
    if replies:
        error.usage = error.usage + usage
        error.cost = (error.cost or 0.0) + cost
