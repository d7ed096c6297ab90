"""Observers learn of every call of a model, and change nothing about it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from tabellion import Environment
from tabellion.engine.context import OpenContext
from tabellion.errors import GateClosed
from tabellion.models.base import Reply, Usage
from tabellion.models.errors import BadOutput, KeyRefused, Rejected, Throttled, Unavailable
from tabellion.models.gated import GatedModel
from tabellion.models.observers import ModelCall, add_observer, outcome_of, remove_observer
from tests.models.test_gated import FAST, Parrot, raises


@pytest.fixture
def calls() -> Iterator[list[ModelCall]]:
    """The calls that were observed; another observer raises."""
    seen: list[ModelCall] = []

    def broken(_call: ModelCall) -> None:
        raise RuntimeError("no disk")

    for observer in (broken, seen.append):
        add_observer(observer)
    yield seen
    for observer in (broken, seen.append):
        remove_observer(observer)


def ask(url: str, model: Parrot, *questions: str) -> None:
    async def go() -> None:
        async with OpenContext(Environment("prod", url), {"parrot": FAST}) as context:
            for question in questions:
                await GatedModel(model, context=context).call([question])

    asyncio.run(go())


def test_a_call_and_its_memo_are_observed(sqlite_url: str, calls: list[ModelCall]) -> None:
    """With tokens, cost and times; the same question again is a memo."""
    model = Parrot(lambda parts, _schema, _ask: Reply(str(parts[0]), usage=Usage(input=7, output=2), cost=0.25))
    ask(sqlite_url, model, "hello", "hello")
    first, second = calls
    assert (first.model, first.version, first.gate, first.outcome) == ("parrot", "parrot-1", "parrot", "ok")
    assert (first.usage.input, first.usage.output, first.cost) == (7, 2, 0.25)
    assert first.seconds > 0
    assert first.waited > 0
    assert (second.outcome, second.cost, second.usage) == ("memo", None, Usage())
    assert len(model.asked) == 1


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (Throttled("slow down"), "throttled"), (KeyRefused("no"), "key_refused"), (Unavailable("down"), "unavailable"),
        (BadOutput("odd", "json", usage=Usage(input=3), cost=0.1), "bad_output"), (Rejected("never"), "rejected"),
        (ValueError("a bug"), "abandoned"),
    ],
)  # fmt: skip
def test_an_error_is_observed_and_raised(
    sqlite_url: str, calls: list[ModelCall], error: Exception, outcome: str
) -> None:
    """By what kind it is; a bad answer is billed."""
    with pytest.raises(type(error)):
        ask(sqlite_url, Parrot(raises(error)), "hello")
    [call] = calls
    assert call.outcome == outcome
    assert call.cost == getattr(error, "cost", None)
    assert call.usage == getattr(error, "usage", Usage())


def test_a_failure_that_closes_the_gate_is_a_failure_of_the_model() -> None:
    """The job sees a closed gate; the call was not answered."""
    assert outcome_of(GateClosed("gemini", "down")) == "unavailable"
