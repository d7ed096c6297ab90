"""The model with no network says what it can and what it cannot."""

from __future__ import annotations

import asyncio

import pytest

from tabellion.models.base import Blob
from tabellion.models.errors import Rejected
from tabellion.models.local import Local


def test_text_comes_back_for_nothing() -> None:
    """Text parts are joined; it costs no money and no tokens."""
    reply = asyncio.run(Local().call(["a", "b"]))
    assert (reply.text, reply.cost, reply.usage.input) == ("a\nb", 0.0, 0)


def test_what_it_cannot_do_it_says() -> None:
    """Pages and fields are rejected with what to configure instead."""
    with pytest.raises(Rejected, match="configure gemini"):
        asyncio.run(Local().call(["a"], {"type": "object"}))
    with pytest.raises(Rejected, match="configure gemini"):
        asyncio.run(Local().call([Blob(b"", "image/png")]))
    asyncio.run(Local().close())
