"""What all models over HTTP have in common."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from tabellion.models.catalog import make
from tabellion.models.fake.serving import Serving
from tests.models.asking import CANARY, KEY, PAGE, SCHEMA, TEXT, ask

PATHS = {"gemini": "", "openai": "/v1"}


@pytest.mark.parametrize("name", PATHS)
def test_keys_and_documents_stay_out_of_logs(name: str, fake: Serving, caplog: pytest.LogCaptureFixture) -> None:
    """Not even in the SDKs' own debug lines."""
    caplog.set_level(logging.DEBUG)
    model = make(name, {"key": KEY, "base_url": fake.url + PATHS[name]}, {})
    ask(model, [PAGE, TEXT], SCHEMA)
    assert KEY not in caplog.text
    assert CANARY not in caplog.text


@pytest.mark.parametrize("name", PATHS)
def test_a_closed_model_can_be_called_again(name: str, fake: Serving) -> None:
    """Closing releases the connections, not the model."""
    model = make(name, {"key": KEY, "base_url": fake.url + PATHS[name]}, {})
    assert ask(model).text == ask(model).text


def test_headers_and_prices_are_settings(fake: Serving) -> None:
    """A gateway's header reaches the server (the fake's own knob), and a custom price is used."""
    settings = {"key": KEY, "base_url": fake.url, "model": "mine", "prices": {"mine": {"input": 1e6, "output": 0}}}
    reply = ask(make("gemini", settings | {"headers": {"x-fake": "thought"}}, {}))
    assert reply.usage.thoughts > 0
    assert reply.cost == reply.usage.input


@pytest.mark.parametrize("name", PATHS)
def test_of_many_first_calls_one_imports(name: str, fake: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    """The others wait without a thread: a hundred would leave none for files."""
    model: Any = make(name, {"key": KEY, "base_url": fake.url + PATHS[name]}, {})
    load, loads = model._load, []
    monkeypatch.setattr(model, "_load", lambda: loads.append(load()))

    async def call() -> None:
        await asyncio.gather(*(model.call([TEXT]) for _ in range(20)))
        await model.close()

    asyncio.run(call())
    assert len(loads) == 1
