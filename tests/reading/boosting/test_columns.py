"""Columns of prose are read one after the other, tables row by row."""

from __future__ import annotations

from tabellion.reading.boosting.columns import blocks, rows_of
from tabellion.reading.page import Word

LEFT = ["The first column begins", "here and goes on", "for a few lines", "until it ends."]
RIGHT = ["The second column is", "to be read after", "the first one has", "come to its end."]


def lay(text: str, x: float, y: float) -> list[Word]:
    words = []
    for piece in text.split():
        words.append(Word(piece, (x, y, x + len(piece) * 0.012, y + 0.012)))
        x += (len(piece) + 1) * 0.012
    return words


def said(words: list[Word]) -> list[str]:
    return [" ".join(word.text for word in row) for block in blocks(words) for row in block]


def test_two_columns_under_a_title() -> None:
    """Title, left column, right column, footer, however the words come."""
    words = lay("A title that runs over the whole width of the page and more", 0.1, 0.05)
    for number, (left, right) in enumerate(zip(LEFT, RIGHT, strict=True)):
        words += lay(right, 0.55, 0.1 + number * 0.02) + lay(left, 0.1, 0.1 + number * 0.02)
    words += lay("A footer that runs over the whole width of the page and more", 0.1, 0.9)
    result = said(words)
    assert result[1:9] == [*LEFT, *RIGHT]
    assert (result[0][:7], result[9][:8], len(result)) == ("A title", "A footer", 10)


def test_a_table_is_read_by_rows() -> None:
    """Cells are short: the white space between them is not a gutter."""
    words: list[Word] = []
    for number in range(6):
        words += lay(f"Item {number}", 0.1, 0.1 + number * 0.02) + lay(f"{number},00", 0.7, 0.1 + number * 0.02)
    assert said(words) == [f"Item {number} {number},00" for number in range(6)]


def test_a_slightly_uneven_line_is_one_line() -> None:
    """Its words need not be level."""
    words = [Word("b", (0.3, 0.102, 0.4, 0.118)), Word("a", (0.1, 0.1, 0.2, 0.116)), Word("c", (0.1, 0.13, 0.2, 0.146))]
    assert [[word.text for word in row] for row in rows_of(words)] == [["a", "b"], ["c"]]


def test_an_empty_page_has_no_blocks() -> None:
    """Nor do words made of white space."""
    assert blocks([]) == []
    assert blocks([Word(" ", (0, 0, 1, 1))]) == []
