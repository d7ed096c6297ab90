"""Opens documents: the header and the pages of one, as the child that reads it sends them.

with open_document("scan.pdf") as document:      # or bytes
    for page in document:
        print(page.number, page.source, page.text)
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from typing import Any, get_args

from tabellion import extras
from tabellion.reading.default_sandbox import default_sandbox
from tabellion.reading.errors import INVALID, Unreadable
from tabellion.reading.header import Header
from tabellion.reading.limits import Limits
from tabellion.reading.page import OCR, Page, build_failed_page, parse_page
from tabellion.reading.sandbox import Sandbox
from tabellion.reading.sniff import open_source

DocumentSource = str | os.PathLike[str] | bytes | bytearray | memoryview  #: a document: its path, or its content
TASK = "tabellion.reading.page_reading:read"
#: After this many pages that killed their child, the rest of the document is not read.
DEATHS = 3
#: Error codes that one page of the document causes.
FATAL = ("timed_out", "resource_limit", "reader_crashed")


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
