"""From a file to its pages of words: the task inside the child, and the document as seen from outside.

with open_document("scan.pdf") as document:      # or bytes
    for page in document:
        print(page.number, page.source, page.text)
"""

from __future__ import annotations

import atexit
import base64
import os
import threading
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tabellion.reading.arrange import arrange
from tabellion.reading.child import contents
from tabellion.reading.errors import CODES, Unreadable
from tabellion.reading.limits import Limits
from tabellion.reading.page import Page, Word
from tabellion.reading.sandbox import Sandbox
from tabellion.reading.sniff import Kind, contradiction, opened, sniff

if TYPE_CHECKING:
    from PIL.Image import Image

    from tabellion.reading.image import Picture
    from tabellion.reading.pdf import Pdf, PdfPage

OCR = Literal["auto", "never", "always"]
TASK = "tabellion.reading.pages:read"
#: A text layer below this is rubbish, and the page is read by OCR.
RUBBISH = 0.5
#: A page with fewer characters than this and a picture over half of it is a scan with a stamp on it.
STAMP = 100
#: Sharp enough for small print, and no larger than OCR looks at.
DPI = 200.0
#: After so many pages that killed their child the rest of the document is given up.
DEATHS = 3
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

    def told(self) -> dict[str, Any]:
        """As JSON tells it to the parent."""
        embedded = [[name, base64.b64encode(content).decode()] for name, content in self.attachments]
        return {
            "kind": self.kind.value, "count": self.count, "bytes": self.size, "notes": list(self.notes),
            "claims": self.claims, "attachments": embedded,
        }  # fmt: skip

    @classmethod
    def heard(cls, told: Mapping[str, Any]) -> Header:
        """Made from what `told` gave."""
        claims = told["claims"]
        return cls(
            Kind(told["kind"]), int(told["count"]), int(told["bytes"]), tuple(str(note) for note in told["notes"]),
            {str(key): {str(k): str(v) for k, v in value.items()} for key, value in claims.items()} if claims else None,
            tuple((str(name), base64.b64decode(content)) for name, content in told["attachments"]),
        )  # fmt: skip


def page_told(page: Page) -> dict[str, Any]:
    """A page as JSON, its words as short rows."""
    rows = [[w.text, *(round(side, 5) for side in w.box), round(w.score, 3), w.line] for w in page.words]
    return {
        "number": page.number, "width": page.width, "height": page.height, "source": page.source,
        "quality": round(page.quality, 4), "rotation": page.rotation, "error": page.error, "words": rows,
    }  # fmt: skip


def page_heard(told: Mapping[str, Any]) -> Page:
    """A page from what `page_told` gave."""
    words = tuple(
        Word(str(text), (float(x0), float(y0), float(x1), float(y1)), float(score), int(line))
        for text, x0, y0, x1, y1, score, line in told["words"]
    )
    source = told["source"]
    if source not in ("text", "ocr", "failed"):
        raise ValueError(f"no such source: {source!r}")
    error = told["error"]
    return Page(
        int(told["number"]), float(told["width"]), float(told["height"]), source, float(told["quality"]), words,
        int(told["rotation"]), None if error is None else str(error),
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
    bounds = Limits.heard(limits or {})
    header, pages = document(contents(file), name=name, password=password, limits=bounds, ocr=ocr, first=first)
    yield {"document": header.told()}
    for page in pages:
        yield {"page": page_told(page)}


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
    notes = (note,) if note else ()
    header = Header(kind, 1, len(content), notes)
    if kind is Kind.PDF:
        from tabellion.reading.pdf import Pdf

        pdf = Pdf(content, bounds, password)
        embedded = tuple((name, data) for name, data in pdf.attachments() if name.lower().endswith(".xml"))
        header = replace(header, count=len(pdf), claims=pdf.claims(), attachments=embedded[:5])
        return header, _pdf_pages(pdf, ocr, first, skip or {})
    from tabellion.reading.image import Picture

    picture = Picture(content, kind, bounds)
    start = picture.frame(0) if first == 1 and 1 not in (skip or {}) else None
    header = replace(header, count=picture.count, notes=(*notes, *picture.notes))
    return header, _frames(picture, start, ocr, first, skip or {})


def _pdf_pages(pdf: Pdf, ocr: OCR, first: int, skip: Mapping[int, str]) -> Iterator[Page]:
    try:
        for number in range(first, len(pdf) + 1):
            if number in skip:
                yield failed(number, skip[number])
                continue
            try:
                with pdf.page(number - 1) as page:
                    yield _pdf_page(page, number, ocr)
            except (ValueError, Unreadable) as error:
                yield failed(number, str(error))
    finally:
        pdf.close()


def _pdf_page(page: PdfPage, number: int, ocr: OCR) -> Page:
    words = arrange(page.words(), page.width / page.height)
    read = Page(number, page.width, page.height, "text", language(words), words)
    if ocr == "never" or (ocr == "auto" and not _poor(page, read)):
        return read
    seen = _seen(page.image(DPI), number, page.width, page.height)
    # A text layer that says more than can be seen is better than nothing: print may be too faint or too odd.
    return read if ocr == "auto" and len(seen.words) < len(read.words) * (read.quality >= RUBBISH) else seen


def _poor(page: PdfPage, read: Page) -> bool:
    """Whether a text layer is missing, rubbish, or only a stamp on a scan."""
    if not read.words:
        return not page.empty()
    letters = sum(len(word.text) for word in read.words)
    return read.quality < RUBBISH or (letters < STAMP and page.pictured() > 0.5)


def _frames(picture: Picture, start: Image | None, ocr: OCR, first: int, skip: Mapping[int, str]) -> Iterator[Page]:
    try:
        for number in range(first, picture.count + 1):
            if number in skip:
                yield failed(number, skip[number])
                continue
            try:
                image = start if start is not None and number == 1 else picture.frame(number - 1)
                start = None
                if ocr == "never":
                    yield Page(number, *image.size, "ocr", 0.0)
                else:
                    yield _seen(image, number, *image.size)
            except Unreadable as error:
                yield failed(number, str(error))
    finally:
        picture.close()


def _seen(image: Image, number: int, width: float, height: float) -> Page:
    """A picture read by OCR, as a page of the size given; turned upright if it was not."""
    from tabellion.reading.ocr import see

    seen = see(image)
    if seen.rotation in (90, 270):
        width, height = height, width
    words = arrange(seen.words, width / height)
    return Page(number, width, height, "ocr", seen.score, words, seen.rotation)


def failed(number: int, error: str, width: float = 0.0, height: float = 0.0) -> Page:
    """A page that could not be read, and why."""
    return Page(number, width, height, "failed", 0.0, error=error)


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

    def __init__(self, run: Callable[..., Iterator[dict[str, Any]]], arguments: Mapping[str, Any]) -> None:
        self._run, self._arguments = run, arguments
        self.closing = ExitStack()
        self._items = self._start(1)
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

    def __iter__(self) -> Iterator[Page]:
        """Each page, once, as soon as it is read. A page that kills its child is a failed page; reading goes on."""
        number, deaths = 1, 0
        while number <= self.header.count:
            try:
                for item in self._items:
                    page = _heard(page_heard, item, "page")
                    number = page.number + 1
                    yield page
                return
            except Unreadable as error:
                deaths += 1
                if error.code not in FATAL or deaths > DEATHS:
                    raise
                yield failed(number, str(error))
                number += 1
                if number <= self.header.count:
                    self._items = self._start(number)
                    self._head()

    def _start(self, first: int) -> Any:
        return self._run({**self._arguments, "first": first})

    def _head(self) -> Header:
        header: Header = _heard(Header.heard, next(self._items, {}), "document")
        return header


def _heard(parse: Any, item: Mapping[str, Any], key: str) -> Any:
    """What a child said, checked: it may have been taken over."""
    try:
        return parse(item[key])
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        raise Unreadable("reader_crashed", f"{CODES['reader_crashed']} of its senses") from None


def open_document(
    source: str | os.PathLike[str] | bytes,
    *,
    sandbox: Sandbox | None = None,
    limits: Limits | None = None,
    password: str | None = None,
    ocr: OCR = "auto",
    task: str = TASK,
) -> Document:
    """Open a path or bytes for reading in a child. Raises `Unreadable`. Close it, or use it in a `with`.

    `task` is what runs in the child: another generator with the arguments and the messages of `read`.
    """
    pool = sandbox or default_sandbox()
    bounds = limits or pool.limits
    name = "" if isinstance(source, bytes) else Path(os.fspath(source)).name
    arguments = {"name": name, "password": password, "limits": bounds.told(), "ocr": ocr}
    with ExitStack() as closing:
        file, _, _ = closing.enter_context(opened(source, bounds))
        document = Document(lambda more: pool.run(task, more, file, bounds), arguments)
        document.closing = closing.pop_all()
        return document


_default: list[Sandbox] = []
_making = threading.Lock()


def default_sandbox() -> Sandbox:
    """The pool that is used where none is given; one for the process, closed at its end."""
    with _making:
        if not _default:
            _default.append(Sandbox())
            atexit.register(_default[0].close)
        return _default[0]


def _after_fork() -> None:
    # Another thread of the parent may have held it.
    global _making
    _making = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)
