"""Words are in reading order, with the number of their printed line."""

from __future__ import annotations

import random

from tabellion.reading.arrange import arrange
from tabellion.reading.page import Page, Word


def row(text: str, x: float, y: float, height: float = 0.02) -> list[Word]:
    """Words side by side, each letter half as wide as high."""
    words = []
    for piece in text.split():
        width = len(piece) * height / 2
        words.append(Word(piece, (x, y, x + width, y + height)))
        x += width + height / 2
    return words


def text_of(words: list[Word], aspect: float = 1.0) -> str:
    shuffled = list(words)
    random.Random(4).shuffle(shuffled)
    return Page(1, 1, 1, "text", words=arrange(shuffled, aspect)).text


def test_words_are_ordered_from_top_left() -> None:
    """Whatever order they come in."""
    assert text_of(row("two words", 0.1, 0.1) + row("then more", 0.1, 0.13)) == "two words\nthen more"


def test_a_wide_gap_ends_a_line() -> None:
    """A label and a distant amount at one height are two lines."""
    assert text_of(row("net total", 0.1, 0.1) + row("12.00", 0.7, 0.1)) == "net total\n12.00"
    assert text_of(row("net total", 0.1, 0.1) + row("12.00", 0.23, 0.1)) == "net total 12.00"


def test_gaps_are_measured_in_real_proportions() -> None:
    """On a wide page the same share of its width is a wider gap."""
    words = row("a", 0.1, 0.1) + row("b", 0.15, 0.1)
    assert text_of(words) == "a b"
    assert text_of(words, aspect=2.0) == "a\nb"


def test_a_slanting_row_stays_one_row() -> None:
    """A row that falls by more than its height across the page is still followed."""
    words = [Word(f"w{n}", (0.05 + 0.06 * n, 0.3 + 0.004 * n, 0.1 + 0.06 * n, 0.32 + 0.004 * n)) for n in range(12)]
    below = [Word(f"v{n}", (0.05 + 0.06 * n, 0.33 + 0.004 * n, 0.1 + 0.06 * n, 0.35 + 0.004 * n)) for n in range(12)]
    assert text_of(words + below).split("\n") == [" ".join(f"{c}{n}" for n in range(12)) for c in "wv"]


def test_large_print_beside_small_print_shares_its_row() -> None:
    """Overlap is measured against the smaller height."""
    assert text_of(row("BIG", 0.1, 0.1, 0.04) + row("small", 0.2, 0.115)) == "BIG small"


def test_a_blank_page_has_no_words() -> None:
    """A blank page has no words."""
    assert arrange([], 1.0) == ()


def test_a_word_without_height_is_harmless() -> None:
    """Degenerate boxes are placed without a division by zero."""
    assert len(arrange([Word("a", (0.1, 0.1, 0.1, 0.1)), Word("b", (0.1, 0.1, 0.1, 0.1))], 1.0)) == 2


def test_thousands_of_words_in_one_row_are_arranged() -> None:
    """A hostile page with a row of very many words is arranged in order."""
    words = [Word(str(n), (n / 30_000, 0.5, n / 30_000, 0.51)) for n in range(30_000)]
    random.Random(4).shuffle(words)
    arranged = arrange(words, 1.0)
    assert [word.text for word in arranged[:3]] == ["0", "1", "2"]
    assert {word.line for word in arranged} == {0}


def test_rows_of_a_skewed_page_are_levelled() -> None:
    """With its slope known, a word far to the right belongs to its own row; boxes stay as they are."""
    seen = [
        Word(f"{row}{side}", (x, y + 0.06 * x, x + 0.1, y + 0.06 * x + 0.02))
        for row, y in enumerate((0.1, 0.13, 0.16))
        for side, x in (("left", 0.05), ("right", 0.85))
    ]
    assert [word.text for word in arrange(seen, 0.7)] != [word.text for word in seen]
    arranged = arrange(seen, 0.7, 0.06)
    assert [(word.text, word.box) for word in arranged] == [(word.text, word.box) for word in seen]
    assert [word.line for word in arranged] == [0, 1, 2, 3, 4, 5]
