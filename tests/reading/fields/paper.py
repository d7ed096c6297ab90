"""Pages drawn as text: columns and rows of characters become words with boxes."""

from __future__ import annotations

import re
import textwrap

from tabellion.reading.field import Field
from tabellion.reading.fields.labelled_text import LabelledText, label_text
from tabellion.reading.fields.reader import lexicon_of, read_fields
from tabellion.reading.page import Page, TextSource, Word
from tabellion.reading.types import typefile

COLUMNS, ROWS = 80, 60


def paper(*drawings: str, source: TextSource = "text", score: float = 1.0) -> list[Page]:
    """Return a page per drawing; two or more spaces start a new segment, as on real paper."""
    return [_page(number, drawing, source, score) for number, drawing in enumerate(drawings, 1)]


def sheet(*drawings: str, kind: str = "invoice", source: TextSource = "text") -> LabelledText:
    """Return the drawings laid out with the labels of a type."""
    return label_text(paper(*drawings, source=source), lexicon_of(typefile.load(kind, ())))


def fields(*drawings: str, kind: str = "invoice", source: TextSource = "text") -> dict[str, Field]:
    """Return what the local reader finds in the drawings."""
    return read_fields(paper(*drawings, source=source), typefile.load(kind, ()))


def values(*drawings: str, kind: str = "invoice", source: TextSource = "text") -> dict[str, object]:
    """Return only the values."""
    return {name: field.value for name, field in fields(*drawings, kind=kind, source=source).items()}


def _page(number: int, drawing: str, source: TextSource, score: float) -> Page:
    words: list[Word] = []
    line = 0
    rows = textwrap.dedent(drawing).strip("\n").split("\n")
    height = max(ROWS, len(rows) + 2)
    for row, text in enumerate(rows):
        for segment in re.finditer(r"\S+(?: \S+)*", text):
            for word in re.finditer(r"\S+", segment.group()):
                start = segment.start() + word.start()
                box = (
                    start / COLUMNS,
                    (row + 0.1) / height,
                    (start + len(word.group())) / COLUMNS,
                    (row + 0.8) / height,
                )
                words.append(Word(word.group(), box, score, line))
            line += 1
    return Page(number, 595, 842, source, 1.0, tuple(words))
