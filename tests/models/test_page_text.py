"""The prompt that a page is read with."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from tabellion.models.base import Ask, Blob, Part, Reply, Schema
from tabellion.models.page_text import QUESTION, read_page, reads_pages_only


class Noting:
    """A model that records what it is asked."""

    name = "noting"

    def __init__(self, model: str) -> None:
        self.model = model
        self.asked: list[Part] = []

    async def call(self, parts: Sequence[Part], schema: Schema | None = None, ask: Ask = Ask()) -> Reply:
        """Record the question."""
        self.asked = list(parts)
        return Reply("text")

    async def close(self) -> None:
        """Do nothing."""


@pytest.mark.parametrize(("name", "words"), [("gemini-2.5-flash", [QUESTION]), ("allenai/olmOCR-2-7B-1025", [])])
def test_a_model_with_its_own_prompt_gets_no_other(name: str, words: list[str]) -> None:
    """olmOCR was trained with one; other words give worse answers."""
    model, picture = Noting(name), Blob(b"png", "image/png")
    assert asyncio.run(read_page(model, picture)).text == "text"
    assert model.asked == [picture, *words]
    assert reads_pages_only(model) == (not words)
