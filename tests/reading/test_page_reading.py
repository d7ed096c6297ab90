"""A text layer is judged before it is used."""

from __future__ import annotations

import pytest

from tabellion.reading.page import Word
from tabellion.reading.page_reading import language


@pytest.mark.parametrize(
    "text", ["Rechnung Nr. 2026-118 vom 14.03.2026, Gesamtbetrag 99,93 €", "Общая сумма 12,00", "合計 1,200"]
)
def test_real_text_has_quality(text: str) -> None:
    """Words and numbers of several languages count as text."""
    assert language([Word(piece, (0, 0, 1, 1)) for piece in text.split()]) > 0.9


@pytest.mark.parametrize(
    "text",
    [
        "(cid:12)(cid:44) (cid:3)",
        "\ue001\ue002\ue003 \uf020",
        "\ufffd\ufffd\ufffd",
        "5HFKQXQJ 1U YRP JHVDPWEHWUDJ QHWWR PZVW VNRQWR " * 3,
    ],
)
def test_text_of_fonts_without_a_table_has_no_quality(text: str) -> None:
    """Glyph numbers, private use and replacement characters are garbage."""
    assert language([Word(piece, (0, 0, 1, 1)) for piece in text.split()]) < 0.5


def test_no_words_have_no_quality() -> None:
    """An empty text layer is worth nothing."""
    assert language([]) == 0.0
