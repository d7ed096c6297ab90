"""One fake model for the whole folder, and the official clients that check it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tabellion.testing import Serving, serving

if TYPE_CHECKING:
    from google import genai
    from openai import OpenAI


@pytest.fixture(scope="session")
def fake() -> Iterator[Serving]:
    """A fake model without any knob set."""
    with serving() as running:
        yield running


@pytest.fixture
def google(fake: Serving) -> Iterator[genai.Client]:
    """Google's own client, pointed at the fake."""
    from google import genai

    client = genai.Client(api_key="k", http_options=genai.types.HttpOptions(base_url=fake.url, timeout=10_000))
    yield client
    client.close()


@pytest.fixture
def openai(fake: Serving) -> Iterator[OpenAI]:
    """OpenAI's own client, pointed at the fake."""
    from openai import OpenAI

    with OpenAI(api_key="k", base_url=f"{fake.url}/v1", timeout=10, max_retries=0) as client:
        yield client
