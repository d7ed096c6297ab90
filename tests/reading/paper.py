"""Pages that tests write: lines of text become words with boxes."""

from __future__ import annotations

from tabellion.reading.page import Page, Word

CHARACTER, LINE, SPACE = 0.008, 0.02, 0.008


def page(*lines: str, number: int = 1) -> Page:
    """Return a page of lines; two spaces are a gap between columns, one is a space."""
    words = []
    for row, line in enumerate(lines):
        x, y = 0.05, 0.05 + row * LINE
        for piece in line.split(" "):
            if piece:
                words.append(Word(piece, (x, y, x + len(piece) * CHARACTER, y + 0.014), line=row))
            x += len(piece) * CHARACTER + SPACE
    return Page(number, 595, 842, "text", words=tuple(words))
