"""From a file to its pages of words: the task inside the child, and the document as seen from outside.

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
Source = str | os.PathLike[str] | bytes | bytearray | memoryview  #: a document: its path, or its content
TASK = "tabellion.reading.pages:read"
#: A text layer below this is rubbish, and the page is read by OCR.
RUBBISH = 0.5
#: A page with fewer characters than this and a picture over half of it is a scan with a stamp on it.
STAMP = 100
DAMAGED_PAGE = Message("unreadable.page_damaged")
#: Sharp enough for small print, and no larger than OCR looks at.
DPI = 200.0
#: After so many pages that killed their child the rest of the document is given up.
DEATHS = 3
#: Embedded files that are handed on together: written as text they fill most of a frame.
EMBEDDED, EMBEDDED_BYTES = 5, FRAME * 5 // 8
#: What a child may do to its document that is that page's fault.
FATAL = ("timed_out", "resource_limit", "reader_crashed")


@dataclass(frozen=True, slots=True)
class Header:
    """What is known of a document before its pages are read."""

    kind: Kind
    count: int  #: of pages
    size: int  #: in bytes
    notes: tuple[str, ...] = ()
    claims: dict[str, dict[str, str]] | None = None  #: {"facturx": {"profile", "filename", "version"}}
    attachments: tuple[tuple[str, bytes], ...] = field(default=(), repr=False)  #: embedded XML
    damage: str | None = None  #: why something of it may be missing although it was read

    def as_dict(self) -> dict[str, Any]:
        """As JSON tells it to the parent."""
        embedded = [[name, base64.b64encode(content).decode()] for name, content in self.attachments]
        return {
            "kind": self.kind.value, "count": self.count, "bytes": self.size, "notes": list(self.notes),
            "claims": self.claims, "attachments": embedded, "damage": self.damage,
            **translatable(notes=self.notes, damage=self.damage),
        }  # fmt: skip

    @classmethod
    def from_dict(cls, told: Mapping[str, Any]) -> Header:
        """Made from what `as_dict` gave."""
        claims = told["claims"]
        return cls(
            Kind(told["kind"]), int(told["count"]), int(told["bytes"]), tuple(map(str, restore_text(told, "notes"))),
            {str(key): {str(k): str(v) for k, v in value.items()} for key, value in claims.items()} if claims else None,
            tuple((str(name), base64.b64decode(content)) for name, content in told["attachments"]),
            None if told.get("damage") is None else str(restore_text(told, "damage")),
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

    `first` is the number of the first page that is read; pages in `skip` are not looked at and come as failed.
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
        embedded, left_out = _fitting([one for one in pdf.attachments() if one[0].lower().endswith(".xml")], bounds)
        damage = None if pdf.whole else REBUILT
        notes += (damage,) if damage else ()
        if acts := pdf.actions():
            notes += (Message("note.actions_ignored", text=", ".join(acts)),)
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


def _fitting(files: Sequence[tuple[str, bytes]], limits: Limits) -> tuple[tuple[tuple[str, bytes], ...], int]:
    """The embedded files that can be handed on together, small ones first: invoices are; and how many cannot."""
    most = min(EMBEDDED_BYTES, limits.attachment_bytes)
    taken, total = set(), 0
    for place in sorted(range(len(files)), key=lambda place: len(files[place][1]))[:EMBEDDED]:
        total += len(files[place][1])
        if total <= most:
            taken.add(place)
    return tuple(one for place, one in enumerate(files) if place in taken), len(files) - len(taken)


def _pdf_pages(pdf: Pdf, ocr: OCR, first: int, skip: Mapping[int, str]) -> Iterator[Page]:
    try:
        for number in range(first, len(pdf) + 1):
            if number in skip:
                yield build_failed_page(number, skip[number], code="reader_crashed")
                continue
            try:
                with pdf.page(number - 1) as page:
                    if page.empty() and pdf.broken:
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
    found, rotation = page.upright()
    width, height = (page.width, page.height) if rotation % 180 == 0 else (page.height, page.width)
    words = arrange(found, width / height)
    read = Page(number, width, height, "text", language(words), words, rotation)
    if ocr == "never" or (ocr == "auto" and not _poor(page, read)):
        return read
    seen = _read_by_ocr(page.image(DPI), number, page.width, page.height)
    # A text layer that says more than can be seen is better than nothing: print may be too faint or too odd.
    return read if ocr == "auto" and len(seen.words) < len(read.words) * (read.quality >= RUBBISH) else seen


def _poor(page: PdfPage, read: Page) -> bool:
    """Whether a text layer is missing, rubbish, or only a stamp on a scan."""
    if not read.words:
        return not page.empty()
    letters = sum(len(word.text) for word in read.words)
    return read.quality < RUBBISH or (letters < STAMP and page.image_coverage() > 0.5)


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
    """A picture read by OCR, as a page of the size given; turned upright if it was not."""
    from tabellion.reading.ocr import see

    seen = see(image)
    if seen.rotation in (90, 270):
        width, height = height, width
    slope = seen.slope * width / height
    words = arrange(seen.words, width / height, slope)
    return Page(number, width, height, "ocr", seen.score, words, seen.rotation, slope=slope)


def build_failed_page(
    number: int, error: str, width: float = 0.0, height: float = 0.0, *, code: str = "pdf_damaged"
) -> Page:  # fmt: skip
    """A page that could not be read, and why."""
    return Page(number, width, height, "failed", 0.0, error=error, error_code=code)


def language(words: Sequence[Word]) -> float:
    """How much of a text layer looks like what people write, 0..1: fonts without a proper table give rubbish."""
    total = good = letters = vowels = 0
    for word in words:
        text = word.text
        total += len(text)
        if text.startswith("(cid:") or any(unicodedata.category(c) in ("Co", "Cn", "Cc", "Cs", "So") for c in text):
            continue
        inner = text.strip(".,;:!?()[]{}\"'«»“”„‘’-–—/*#|_=<>•·+%&@€$£°§")
        known = sum(c.isalnum() for c in inner)
        if not inner or known >= 0.7 * len(inner) or any(c.isdigit() for c in inner) or "@" in inner or "/" in inner:
            good += len(text)
        plain = [c for c in unicodedata.normalize("NFD", text.lower()) if "a" <= c <= "z"]
        letters += len(plain)
        vowels += sum(c in "aeiouy" for c in plain)
    if not total:
        return 0.0
    share = good / total
    # Glyph numbers taken for letters make words without vowels, or of nothing else.
    if letters >= 60 and not 0.2 <= vowels / letters <= 0.65:
        share *= 0.4
    return share


# --- outside ----------------------------------------------------------------------------------------------------


class Document:
    """An open document: what is known of it, and its pages as they are read."""

    def __init__(
        self, run: Callable[..., Iterator[dict[str, Any]]], arguments: Mapping[str, Any], first: int = 1
    ) -> None:
        self._run, self._arguments, self._first = run, arguments, first
        self.file = -1  #: its open file
        self.closing = ExitStack()
        self._items = self._start(first)
        self.header = self._head()

    def __repr__(self) -> str:
        return f"<Document {self.header.kind.name}, {self.header.count} pages>"

    def __enter__(self) -> Document:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop reading and let go of the file."""
        self._items.close()
        self.closing.close()

    @cached_property
    def sha256(self) -> str:
        """Of its bytes, reckoned here and while the child reads; ask before the document is closed."""
        digest, place = hashlib.sha256(), 0
        # Not by reading on: the child shares the place in the file.
        while chunk := os.pread(self.file, 1 << 20, place):
            digest.update(chunk)
            place += len(chunk)
        return digest.hexdigest()

    def __iter__(self) -> Iterator[Page]:
        """Each page, once, as soon as it is read. A page that kills its child is a failed page; reading goes on."""
        number, deaths = self._first, 0
        while number <= self.header.count:
            try:
                for item in self._items:
                    page = _parse_item(parse_page, item, "page")
                    number = page.number + 1
                    yield page
                return
            except Unreadable as error:
                deaths += 1
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
        return header


def _parse_item(parse: Any, item: Mapping[str, Any], key: str) -> Any:
    """What a child said, checked: it may have been taken over."""
    try:
        return parse(item[key])
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        raise Unreadable("reader_crashed", INVALID) from None


def open_document(
    source: Source,
    *,
    sandbox: Sandbox | None = None,
    limits: Limits | None = None,
    password: str | None = None,
    ocr: OCR = "auto",
    task: str = TASK,
    name: str | None = None,
    stop: threading.Event | None = None,
    first: int = 1,
) -> Document:
    """Open a path or bytes for reading in a child. Raises `Unreadable`. Close it, or use it in a `with`.

    `task` is what runs in the child: another generator with the arguments and the messages of `read`. `name` is what
    bytes are called. When another thread sets `stop`, reading ends with `Stopped`. Pages before `first` are not read.
    """
    if ocr not in get_args(OCR):
        raise ValueError(f"ocr is one of {', '.join(get_args(OCR))}, not {ocr!r}")
    extras.require("reading")  # a child that misses a package would only say that it died
    pool = sandbox or default_sandbox()
    bounds = limits or pool.limits
    source = plain(source)
    name = name or ("" if isinstance(source, bytes) else os.fspath(source))
    arguments = {"name": Path(name).name, "password": password, "limits": bounds.as_dict(), "ocr": ocr}
    with ExitStack() as closing:
        file, _, _ = closing.enter_context(open_source(source, bounds))
        document = Document(lambda more: pool.run(task, more, file, bounds, stop), arguments, first)
        document.file, document.closing = file, closing.pop_all()
        return document


def plain(source: Source) -> str | os.PathLike[str] | bytes:
    """A path as it is, and content as bytes that nobody changes meanwhile."""
    return bytes(source) if isinstance(source, bytearray | memoryview) else source
