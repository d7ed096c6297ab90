"""Reads the words of a file's pages: the first task of the reading child."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tabellion.messages import Message
from tabellion.reading.arrange import arrange
from tabellion.reading.child import FRAME, contents
from tabellion.reading.errors import Unreadable
from tabellion.reading.header import Header
from tabellion.reading.limits import Limits
from tabellion.reading.page import OCR, Page, Word, build_failed_page, serialize_page
from tabellion.reading.sniff import Kind, contradiction, sniff

if TYPE_CHECKING:
    from PIL.Image import Image

    from tabellion.reading.image import Picture
    from tabellion.reading.pdf import Pdf, PdfPage

#: A text layer with a lower quality is garbage, and the page is read by OCR.
RUBBISH = 0.5
#: A page with fewer characters than this and a picture over half of it is a scan with a stamp on it.
STAMP = 100
DAMAGED_PAGE = Message("unreadable.page_damaged")
#: Sharp enough for small print, and not larger than OCR uses.
DPI = 200.0
#: The most embedded files that are returned, and their bytes: as base64 they fill most of a frame.
EMBEDDED, EMBEDDED_BYTES = 5, FRAME * 5 // 8


def read(
    file: int,
    name: str = "",
    password: str | None = None,
    limits: Mapping[str, Any] | None = None,
    ocr: OCR = "auto",
    first: int = 1,
) -> Iterator[dict[str, Any]]:
    """The task: the header, then each page from `first` on, as soon as it is read."""
    header, pages = _open(contents(file), name, password, Limits.from_dict(limits or {}), ocr, first)
    yield {"document": header.as_dict()}
    for page in pages:
        yield {"page": serialize_page(page)}


def _open(
    content: bytes, name: str, password: str | None, limits: Limits, ocr: OCR, first: int
) -> tuple[Header, Iterator[Page]]:  # fmt: skip
    limits.check_bytes(len(content))
    kind = sniff(content)
    note = contradiction(name, kind)
    notes: tuple[str, ...] = (note,) if note else ()
    header = Header(kind, 1, len(content), notes)
    if kind is Kind.PDF:
        from tabellion.reading.pdf import REBUILT, Pdf

        pdf = Pdf(content, limits, password)
        embedded, left_out = _select_attachments(
            [attachment for attachment in pdf.attachments() if attachment[0].lower().endswith(".xml")], limits
        )
        damage = None if pdf.whole else REBUILT
        notes += (damage,) if damage else ()
        if actions := pdf.actions():
            notes += (Message("note.actions_ignored", text=", ".join(actions)),)
        if left_out := left_out + pdf.left_out:
            notes += (Message("note.attachments_left_out", n=left_out),)
        header = replace(header, count=len(pdf), claims=pdf.claims(), attachments=embedded, notes=notes, damage=damage)
        return header, _pdf_pages(pdf, ocr, first)
    from tabellion.reading.image import Picture

    picture = Picture(content, kind, limits)
    header = replace(header, damage=picture.notes[0] if picture.notes else None)
    start = picture.frame(0) if first == 1 else None
    header = replace(header, count=picture.count, notes=(*notes, *picture.notes))
    return header, _frames(picture, start, ocr, first)


def _select_attachments(
    files: Sequence[tuple[str, bytes]], limits: Limits
) -> tuple[tuple[tuple[str, bytes], ...], int]:
    """The embedded files that fit in a message, small ones first, as invoices are; and how many do not fit."""
    most = min(EMBEDDED_BYTES, limits.attachment_bytes)
    fitting, total = set(), 0
    for index in sorted(range(len(files)), key=lambda index: len(files[index][1]))[:EMBEDDED]:
        total += len(files[index][1])
        if total <= most:
            fitting.add(index)
    return tuple(file for index, file in enumerate(files) if index in fitting), len(files) - len(fitting)


def _pdf_pages(pdf: Pdf, ocr: OCR, first: int) -> Iterator[Page]:
    try:
        for number in range(first, len(pdf) + 1):
            try:
                with pdf.page(number - 1) as page:
                    if page.empty() and pdf.is_broken:
                        yield build_failed_page(number, DAMAGED_PAGE, page.width, page.height)
                    else:
                        yield replace(_pdf_page(page, number, ocr), damage=page.damage())
            except ValueError as error:
                yield build_failed_page(number, str(error))
            except Unreadable as error:
                yield build_failed_page(number, str(error), code=error.code)
    finally:
        pdf.close()


def _pdf_page(page: PdfPage, number: int, ocr: OCR) -> Page:
    unordered, rotation = page.upright()
    width, height = (page.width, page.height) if rotation % 180 == 0 else (page.height, page.width)
    words = arrange(unordered, width / height)
    by_text = Page(number, width, height, "text", language(words), words, rotation)
    if ocr == "never" or (ocr == "auto" and not _poor(page, by_text)):
        return by_text
    by_ocr = _read_by_ocr(page.image(DPI), number, page.width, page.height)
    # A text layer with more words than OCR finds is better: the print may be too faint or unusual.
    return (
        by_text if ocr == "auto" and len(by_ocr.words) < len(by_text.words) * (by_text.quality >= RUBBISH) else by_ocr
    )


def _poor(page: PdfPage, by_text: Page) -> bool:
    """Whether a text layer is missing, garbage, or only a stamp on a scan."""
    if not by_text.words:
        return not page.empty()
    letters = sum(len(word.text) for word in by_text.words)
    return by_text.quality < RUBBISH or (letters < STAMP and page.image_coverage() > 0.5)


def _frames(picture: Picture, start: Image | None, ocr: OCR, first: int) -> Iterator[Page]:
    try:
        for number in range(first, picture.count + 1):
            try:
                image = start if start is not None and number == 1 else picture.frame(number - 1)
                start = None
                page = Page(number, *image.size, "ocr", 0.0)
                if ocr != "never":
                    page = _read_by_ocr(image, number, *image.size)
                yield replace(page, damage=picture.damaged.get(number - 1))
            except Unreadable as error:
                yield build_failed_page(number, str(error), code=error.code)
    finally:
        picture.close()


def _read_by_ocr(image: Image, number: int, width: float, height: float) -> Page:
    """A picture read by OCR, as a page of the given size, rotated upright where needed."""
    from tabellion.reading.ocr import see

    result = see(image)
    if result.rotation in (90, 270):
        width, height = height, width
    slope = result.slope * width / height
    words = arrange(result.words, width / height, slope)
    return Page(number, width, height, "ocr", result.score, words, result.rotation, slope=slope)


def language(words: Sequence[Word]) -> float:
    """The share of a text layer that looks like language, 0..1: fonts without a proper table produce garbage."""
    total = good = letters = vowels = 0
    for word in words:
        text = word.text
        total += len(text)
        if text.startswith("(cid:") or any(unicodedata.category(c) in ("Co", "Cn", "Cc", "Cs", "So") for c in text):
            continue
        inner = text.strip(".,;:!?()[]{}\"'«»“”„‘’-–—/*#|_=<>•·+%&@€$£°§")
        alphanumeric = sum(c.isalnum() for c in inner)
        if (
            not inner
            or alphanumeric >= 0.7 * len(inner)
            or any(c.isdigit() for c in inner)
            or "@" in inner
            or "/" in inner
        ):
            good += len(text)
        plain = [c for c in unicodedata.normalize("NFD", text.lower()) if "a" <= c <= "z"]
        letters += len(plain)
        vowels += sum(c in "aeiouy" for c in plain)
    if not total:
        return 0.0
    share = good / total
    # Glyph numbers read as letters make words without vowels, or of vowels only.
    if letters >= 60 and not 0.2 <= vowels / letters <= 0.65:
        share *= 0.4
    return share
