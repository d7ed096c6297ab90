"""The second pass over a page's text with a model's help: mended, checked against the original, or refused."""

from __future__ import annotations

import asyncio

from tabellion.models.base import Ask, Model
from tabellion.reading.boosting.boost import Boosted, accept_boost, boost_prompt


async def boost_text(model: Model, page_text: str, *, page: int | None = None, ask: Ask = Ask()) -> Boosted:
    """The text as a model mends it, beside the original; where it has written another text, the original and why.

    Errors of the model are raised as they are: the engine knows what to do with them.
    """
    if not page_text.strip():
        return Boosted(page_text, page_text)
    reply = await model.call(boost_prompt(page_text, page), None, ask)
    return await asyncio.to_thread(accept_boost, page_text, reply.text)
