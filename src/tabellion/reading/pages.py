"""Reads the words of a file's pages: the task inside the child, and the document as seen by the parent.

with open_document("scan.pdf") as document:      # or bytes
    for page in document:
        print(page.number, page.source, page.text)
"""

from __future__ import annotations

import base64
import hashlib
import os
import threading
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from tabellion import extras
from tabellion.messages import Message, restore_text, translatable
from tabellion.reading.arrange import arrange
from tabellion.reading.child import FRAME, contents
from tabellion.reading.default_sandbox import default_sandbox
from tabellion.reading.errors import INVALID, Unreadable
from tabellion.reading.limits import Limits
from tabellion.reading.page import Page, Word
from tabellion.reading.page import parse_page as parse_page
from tabellion.reading.page import serialize_page as serialize_page
from tabellion.reading.sandbox import Sandbox
from tabellion.reading.sniff import Kind, contradiction, open_source, sniff

if TYPE_CHECKING:
    from PIL.Image import Image

    from tabellion.reading.image import Picture
    from tabellion.reading.pdf import Pdf, PdfPage

OCR = Literal["auto", "never", "always"]
DocumentSource = str | os.PathLike[str] | bytes | bytearray | memoryview  #: a document: its path, or its content
TASK = "tabellion.reading.pages:read"
#: A text layer with a lower quality is garbage, and the page is read by OCR.
RUBBISH = 0.5
#: A page with fewer characters than this and a picture over half of it is a scan with a stamp on it.
STAMP = 100
DAMAGED_PAGE = Message("unreadable.page_damaged")
#: Sharp enough for small print, and not larger than OCR uses.
DPI = 200.0
#: After this many pages that killed their child, the rest of the document is not read.
DEATHS = 3
#: The most embedded files that are returned, and their bytes: as base64 they fill most of a frame.
EMBEDDED, EMBEDDED_BYTES = 5, FRAME * 5 // 8
#: Error codes that one page of the document causes.
FATAL = ("timed_out", "resource_limit", "reader_crashed")


@dataclass(frozen=True, slots=True)
class Header:
    """The properties of a document that are known before its pages are read."""

    kind: Kind
    count: int  #: of pages
    size: int  #: in bytes
    notes: tuple[str, ...] = ()
    claims: dict[str, dict[str, str]] | None = None  #: {"facturx": {"profile", "filename", "type"}}
    attachments: tuple[tuple[str, bytes], ...] = field(default=(), repr=False)  #: embedded XML
    damage: str | None = None  #: why parts may be missing although it was read

    def as_dict(self) -> dict[str, Any]:
        """The header as JSON for the parent."""
        embedded = [[name, base64.b64encode(content).decode()] for name, content in self.attachments]
        return {
            "kind": self.kind.value, "count": self.count, "bytes": self.size, "notes": list(self.notes),
            "claims": self.claims, "attachments": embedded, "damage": self.damage,
            **translatable(notes=self.notes, damage=self.damage),
        }  # fmt: skip

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Header:
        """Restores the result of `as_dict`."""
        claims = data["claims"]
        return cls(
            Kind(data["kind"]), int(data["count"]), int(data["bytes"]), tuple(map(str, restore_text(data, "notes"))),
            {str(key): {str(k): str(v) for k, v in value.items()} for key, value in claims.items()} if claims else None,
            tuple((str(name), base64.b64decode(content)) for name, content in data["attachments"]),
            None if data.get("damage") is None else str(restore_text(data, "damage")),
        )  # fmt: skip


# --- inside the child ------------------------------------------------------------------------------------------


def read(
    file: int,
    name: str = "",
    password: str | None = None,
    limits: Mapping[str, Any] | None = None,
    ocr: OCR = "auto",
    first: int = 1,
) -> Iterator[dict[str, Any]]:
    """The task: the header, then each page as soon as it is read."""
    bounds = Limits.from_dict(limits or {})
    header, pages = document(contents(file), name=name, password=password, limits=bounds, ocr=ocr, first=first)
    yield {"document": header.as_dict()}
    for page in pages:
        yield {"page": serialize_page(page)}


def document(
    content: bytes,
    *,
    name: str = "",
    password: str | None = None,
    limits: Limits | None = None,
    ocr: OCR = "auto",
    first: int = 1,
    skip: Mapping[int, str] | None = None,
) -> tuple[Header, Iterator[Page]]:
    """Header and pages of a file, in this process: for tasks inside a child only.

    `first` is the number of the first page that is read; pages in `skip` are not read and are returned as failed.
    """
    bounds = limits or Limits()
    bounds.check_bytes(len(content))
    kind = sniff(content)
    note = contradiction(name, kind)
    notes: tuple[str, ...] = (note,) if note else ()
    header = Header(kind, 1, len(content), notes)
    if kind is Kind.PDF:
        from tabellion.reading.pdf import REBUILT, Pdf

        pdf = Pdf(content, bounds, password)
        embedded, left_out = _select_attachments(
            [attachment for attachment in pdf.attachments() if attachment[0].lower().endswith(".xml")], bounds
        )
        damage = None if pdf.whole else REBUILT
        notes += (damage,) if damage else ()
        if actions := pdf.actions():
            notes += (Message("note.actions_ignored", text=", ".join(actions)),)
        if left_out := left_out + pdf.left_out:
            notes += (Message("note.attachments_left_out", n=left_out),)
        header = replace(header, count=len(pdf), claims=pdf.claims(), attachments=embedded, notes=notes, damage=damage)
        return header, _pdf_pages(pdf, ocr, first, skip or {})
    from tabellion.reading.image import Picture

    picture = Picture(content, kind, bounds)
    header = replace(header, damage=picture.notes[0] if picture.notes else None)
    start = picture.frame(0) if first == 1 and 1 not in (skip or {}) else None
    header = replace(header, count=picture.count, notes=(*notes, *picture.notes))
    return header, _frames(picture, start, ocr, first, skip or {})


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


def _pdf_pages(pdf: Pdf, ocr: OCR, first: int, skip: Mapping[int, str]) -> Iterator[Page]:
    try:
        for number in range(first, len(pdf) + 1):
            if number in skip:
                yield build_failed_page(number, skip[number], code="reader_crashed")
                continue
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


def _frames(picture: Picture, start: Image | None, ocr: OCR, first: int, skip: Mapping[int, str]) -> Iterator[Page]:
    try:
        for number in range(first, picture.count + 1):
            if number in skip:
                yield build_failed_page(number, skip[number], code="reader_crashed")
                continue
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


def build_failed_page(
    number: int, error: str, width: float = 0.0, height: float = 0.0, *, code: str = "pdf_damaged"
) -> Page:  # fmt: skip
    """A page that could not be read, with the reason."""
    return Page(number, width, height, "failed", 0.0, error=error, error_code=code)


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


# --- outside ----------------------------------------------------------------------------------------------------


class OpenDocument:
    """An open document: its header, and its pages as they are read."""

    def __init__(
        self, run: Callable[..., Iterator[dict[str, Any]]], arguments: Mapping[str, Any], first: int = 1
    ) -> None:
        self._run, self._arguments, self._first = run, arguments, first
        self.file = -1  #: its open file
        self.closing = ExitStack()
        self._items = self._start(first)
        self.header = self._head()

    def __repr__(self) -> str:
        return f"<OpenDocument {self.header.kind.name}, {self.header.count} pages>"

    def __enter__(self) -> OpenDocument:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Stops reading and closes the file."""
        self._items.close()
        self.closing.close()

    @cached_property
    def sha256(self) -> str:
        """The digest of its bytes, computed here while the child reads; only before the document is closed."""
        digest, offset = hashlib.sha256(), 0
        # pread, because the child shares the file's position.
        while chunk := os.pread(self.file, 1 << 20, offset):
            digest.update(chunk)
            offset += len(chunk)
        return digest.hexdigest()

    def __iter__(self) -> Iterator[Page]:
        """Yields each page once, in order, as soon as it is read. A page that kills its child becomes a failed page."""
        number, deaths = self._first, 0
        while number <= self.header.count:
            try:
                for item in self._items:
                    page = _parse_item(parse_page, item, "page")
                    if page.number != number or number > self.header.count:
                        raise Unreadable("reader_crashed", INVALID)
                    number += 1
                    yield page
                return
            except Unreadable as error:
                deaths += 1
                self._items.close()
                if number > self.header.count:
                    return  # every page was read: a child that dies or goes on after that changes nothing
                if error.code not in FATAL or deaths > DEATHS:
                    raise
                yield build_failed_page(number, str(error), code=error.code)
                number += 1
                if number <= self.header.count:
                    self._items = self._start(number)
                    self._head()

    def _start(self, first: int) -> Any:
        return self._run({**self._arguments, "first": first})

    def _head(self) -> Header:
        header: Header = _parse_item(Header.from_dict, next(self._items, {}), "document")
        if not 1 <= header.count <= self._arguments["limits"]["pages"]:
            raise Unreadable("reader_crashed", INVALID)
        return header


def _parse_item(parse: Any, item: Mapping[str, Any], key: str) -> Any:
    """Parses a message from a child, which may be compromised."""
    try:
        return parse(item[key])
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        raise Unreadable("reader_crashed", INVALID) from None


def open_document(
    source: DocumentSource,
    *,
    sandbox: Sandbox | None = None,
    limits: Limits | None = None,
    password: str | None = None,
    ocr: OCR = "auto",
    task: str = TASK,
    name: str | None = None,
    stop: threading.Event | None = None,
    first: int = 1,
) -> OpenDocument:
    """Opens a path or bytes for reading in a child. Raises `Unreadable`. Close it, or use it in a `with`.

    `task` runs in the child: another generator with the arguments and the messages of `read`. `name` is the name of
    bytes. When another thread sets `stop`, reading ends with `Stopped`. Pages before `first` are not read.
    """
    if ocr not in get_args(OCR):
        raise ValueError(f"ocr is one of {', '.join(get_args(OCR))}, not {ocr!r}")
    extras.require("reading")  # a child without a package would only report that it crashed
    pool = sandbox or default_sandbox()
    bounds = limits or pool.limits
    source = plain(source)
    name = name or ("" if isinstance(source, bytes) else os.fspath(source))
    arguments = {"name": Path(name).name, "password": password, "limits": bounds.as_dict(), "ocr": ocr}
    with ExitStack() as closing:
        file, _, _ = closing.enter_context(open_source(source, bounds))
        document = OpenDocument(lambda more: pool.run(task, more, file, bounds, stop), arguments, first)
        document.file, document.closing = file, closing.pop_all()
        return document


def plain(source: DocumentSource) -> str | os.PathLike[str] | bytes:
    """A path as it is, and content as immutable bytes."""
    return bytes(source) if isinstance(source, bytearray | memoryview) else source
