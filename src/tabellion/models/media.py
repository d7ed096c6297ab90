"""Builds the parts of a document for a model: the file where it takes it, else pictures of pages, else words."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from tabellion.messages import Message
from tabellion.models.base import Blob, Part
from tabellion.models.errors import Rejected
from tabellion.reading.child import contents
from tabellion.reading.errors import Unreadable
from tabellion.reading.limits import Limits
from tabellion.reading.page import Page
from tabellion.reading.reader import Reading
from tabellion.reading.sandbox import Sandbox
from tabellion.reading.sniff import Kind, open_source

PlainSource = str | os.PathLike[str] | bytes
Render = Callable[[Page], Blob]  #: draws a page


PDF, PNG, JPEG = "application/pdf", "image/png", "image/jpeg"
TYPES = {
    Kind.PDF: PDF, Kind.PNG: PNG, Kind.JPEG: JPEG, Kind.WEBP: "image/webp", Kind.GIF: "image/gif",
    Kind.TIFF: "image/tiff", Kind.BMP: "image/bmp",
}  # fmt: skip
MOST_PAGES = 10
LAST = 2  #: how many of the sent pages are the document's last, which have the sums
WIDTH = 1536  #: pixels of a picture: small print stays legible, and no provider uses more
LONGEST_TEXT = 20_000  #: characters of one page


def parts_of(
    reading: Reading, source: PlainSource, taken: frozenset[str], *, render: Render, most: int = MOST_PAGES,
    text: bool | None = None, password: str | None = None, limits: Limits | None = None,
) -> tuple[list[Part], list[str]]:  # fmt: skip
    """The parts of a question about this document, and notes on what was omitted.

    Words are added with `text`; with None only where the model cannot see the pages: an answer based on our words is
    not independent of them.
    """
    parts: list[Part] = []
    notes: list[str] = []
    numbers = choose_pages(len(reading.pages), most)
    if len(numbers) < len(reading.pages):
        notes.append(Message("note.pages_sent", n=len(numbers), total=len(reading.pages)))
    if _whole(reading, taken, most, password):
        parts.append(Blob(_contents(source, limits), TYPES[Kind(reading.kind or "pdf")], Path(reading.file).name))
    elif {PNG, JPEG} <= taken:
        parts += _pictures([page for page in reading.pages if page.number in numbers], render, notes)
    if text or (text is None and not parts):
        parts += [_words(page, notes) for page in reading.pages if page.number in numbers and page.words]
    if not parts:
        raise Rejected(Message("model.nothing_to_send"))
    return parts, notes


def _whole(reading: Reading, taken: frozenset[str], most: int, password: str | None) -> bool:
    """Whether the file itself is sent: the model takes its kind, it is not too long, and it has no password."""
    if reading.kind is None or TYPES[Kind(reading.kind)] not in taken:
        return False
    if reading.kind == Kind.PDF:
        return password is None and len(reading.pages) <= most
    return len(reading.pages) == 1


def choose_pages(count: int, most: int) -> list[int]:
    """The numbers of the pages to send: all, or the first and last of a long document."""
    if count <= most:
        return list(range(1, count + 1))
    last = LAST if most > LAST else 0
    return [*range(1, most - last + 1), *range(count - last + 1, count + 1)]


def _pictures(pages: Sequence[Page], render: Render, notes: list[str]) -> list[Part]:
    parts: list[Part] = []
    for page in pages:
        try:
            picture = render(page)
        except Unreadable as error:
            notes.append(Message("note.page_not_drawn", n=page.number, detail=error))
            continue
        parts += [f"Page {page.number}:", picture]
    return parts


def _words(page: Page, notes: list[str]) -> str:
    # A document with our marker could end its own page and add text of its own outside of it.
    text = page.text.replace("<<<", "‹‹‹").replace(">>>", "›››")
    if len(text) > LONGEST_TEXT:
        notes.append(Message("note.page_cut", n=page.number, characters=LONGEST_TEXT))
    return f"<<<PAGE {page.number}\n{text[:LONGEST_TEXT]}\nPAGE>>>"


def _contents(source: PlainSource, limits: Limits | None) -> bytes:
    with open_source(source, limits or Limits()) as (file, _, _):
        return contents(file)


def renderer(source: PlainSource, *, password: str | None, sandbox: Sandbox | None, limits: Limits | None) -> Render:
    """A function that draws pages upright in a child: print as PNG, scans as JPEG, which is smaller."""

    def render(page: Page) -> Blob:
        from tabellion.reading.draw import draw

        scan = page.source != "text"
        data = draw(
            source, page.number, rotation=page.rotation, width=WIDTH, format="JPEG" if scan else "PNG",
            sandbox=sandbox, limits=limits, password=password,
        )  # fmt: skip
        return Blob(data, JPEG if scan else PNG, f"page-{page.number}.{'jpg' if scan else 'png'}")

    return render
