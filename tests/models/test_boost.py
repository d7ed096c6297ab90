"""A model may correct a text, but not write another."""

from __future__ import annotations

import asyncio

from tabellion.models.base import Reply
from tabellion.models.boost import boost_text
from tests.models.test_gated import Parrot

TEXT = "The quick brown fox jumps over the lazy dog. Invoice 4711 of Acme Tools, tolal 120.00 euros, payable at once."


def saying(answer: str) -> Parrot:
    return Parrot(lambda _parts, _schema, _ask: Reply(answer))


def test_a_corrected_text_is_kept_beside_the_original() -> None:
    """One call, with the text as data; both texts are kept."""
    mended = TEXT.replace("tolal", "total")
    model = saying(mended)
    found = asyncio.run(boost_text(model, TEXT, page=2))
    assert (found.text, found.accepted) == (mended, True)
    assert found.original == TEXT
    parts, schema, _ = model.asked[0]
    assert schema is None
    assert "page 2" in str(parts[0])
    assert found.original in str(parts[1])


def test_a_different_text_is_rejected_with_the_reason() -> None:
    """Other numbers, or other content: the original stays."""
    for answer in (TEXT.replace("120.00", "999.00"), "Here is a poem about the sea instead of your page."):
        found = asyncio.run(boost_text(saying(answer), TEXT))
        assert (found.text, found.accepted) == (TEXT, False)
        assert found.reasons


def test_an_empty_text_is_not_sent() -> None:
    """A blank page costs nothing."""
    model = Parrot()
    assert asyncio.run(boost_text(model, " \n")).text == " \n"
    assert model.asked == []
