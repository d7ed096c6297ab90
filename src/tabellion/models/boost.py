"""Repairs a page's text with a model: the result is checked against the original, and may be rejected."""

from __future__ import annotations

import asyncio

from tabellion.models.base import Ask, Model
from tabellion.reading.boosting.boost import Boosted, accept_boost, boost_prompt


async def boost_text(model: Model, page_text: str, *, page: int | None = None, ask: Ask = Ask()) -> Boosted:
    """The text repaired by a model, with the original; where the model changed too much, the original and the reasons.

    The model's errors are raised unchanged: the engine handles them.
    """
    if not page_text.strip():
        return Boosted(page_text, page_text)
    reply = await model.call(boost_prompt(page_text, page), None, ask)
    return await asyncio.to_thread(accept_boost, page_text, reply.text)
