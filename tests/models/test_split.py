"""A request in parts: divided fields, merged objects, summed costs."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from tabellion.models.base import Ask, Part, Reply, Schema, Usage
from tabellion.models.errors import BadOutput, Unavailable
from tabellion.models.split import divide, in_parts

SCHEMA: dict[str, Any] = {
    "type": "object",
    "title": "invoice",
    "properties": {
        "a": {"type": "string"}, "b": {"type": "string"}, "c": {"type": "string"}, "d": {"type": "string"},
        "lines": {"type": "array", "items": {"$ref": "#/$defs/x"}},
    },
    "required": ["a", "lines"],
    "minProperties": 4,
    "$defs": {"x": {"type": "string"}},
}  # fmt: skip


class Recorder:
    """A `call` that answers every field with its own name, and records what it was asked."""

    def __init__(self, fail_at: int = 0, error: Exception | None = None, cost: float | None = 0.5) -> None:
        self.asked: list[tuple[Schema | None, Ask]] = []
        self.fail_at, self.error, self.cost = fail_at, error, cost

    async def call(self, parts: Sequence[Part], schema: Schema | None, ask: Ask) -> Reply:
        """Answer one part."""
        self.asked.append((schema, ask))
        if len(self.asked) == self.fail_at and self.error:
            raise self.error
        found = {name: name for name in (schema or {}).get("properties", {})}
        return Reply("", found, Usage(10, 2, 1, 3), self.cost, "m", 0.5, request_id=f"r{len(self.asked)}")


def test_fields_are_divided_by_weight() -> None:
    """A table counts as much as four plain fields; neighbours stay together, nothing is lost."""
    first, second = divide(SCHEMA, 2)
    assert (list(first["properties"]), first["required"]) == (["a", "b", "c", "d"], ["a"])
    assert (list(second["properties"]), second["required"]) == (["lines"], ["lines"])
    assert second["$defs"] == SCHEMA["$defs"]
    assert "minProperties" not in first


@pytest.mark.parametrize("count", [2, 3, 5, 100])
def test_every_field_is_in_exactly_one_group(count: int) -> None:
    """Whatever the number of groups."""
    groups = divide(SCHEMA, count)
    assert [name for group in groups for name in group["properties"]] == list(SCHEMA["properties"])


def test_parts_make_one_reply() -> None:
    """Each part is one call without the hint; objects are merged, tokens and dollars add up."""
    call = Recorder()
    reply = asyncio.run(in_parts(call.call, ["text"], SCHEMA, Ask(hint={"split": 2, "rotate": 90})))
    assert reply.object == {name: name for name in SCHEMA["properties"]}
    assert (reply.usage, reply.cost, reply.seconds) == (Usage(20, 4, 2, 6), 1.0, 1.0)
    assert reply.request_id == "r1,r2"
    assert [ask.hint for _, ask in call.asked] == [{"rotate": 90}] * 2


def test_one_unknown_price_makes_the_sum_unknown() -> None:
    """Half a sum would be a lie."""
    assert asyncio.run(in_parts(Recorder(cost=None).call, ["text"], SCHEMA, Ask(hint={"split": 2}))).cost is None


@pytest.mark.parametrize(("schema", "hint"), [(None, {"split": 2}), (SCHEMA, {}), (SCHEMA, {"split": 1})])
def test_nothing_to_divide_is_one_call(schema: Schema | None, hint: dict[str, int]) -> None:
    """Without a schema or a hint the call goes through as it is."""
    call = Recorder()
    asyncio.run(in_parts(call.call, ["text"], schema, Ask(hint=hint)))
    assert len(call.asked) == 1


def test_a_part_that_fails_has_the_others_on_its_bill() -> None:
    """What was paid before the failure is not forgotten."""
    call = Recorder(2, Unavailable("down"))
    with pytest.raises(Unavailable) as caught:
        asyncio.run(in_parts(call.call, ["text"], SCHEMA, Ask(hint={"split": 2})))
    assert (caught.value.cost, caught.value.usage.input) == (0.5, 10)


def test_a_part_that_is_cut_again_is_split_further() -> None:
    """The next try makes smaller parts."""
    call = Recorder(1, BadOutput("cut", "truncated", hint={"split": 2}))
    with pytest.raises(BadOutput) as caught:
        asyncio.run(in_parts(call.call, ["text"], SCHEMA, Ask(hint={"split": 2})))
    assert caught.value.hint == {"split": 4}
