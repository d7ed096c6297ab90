"""The model without network or key: the local reader, with the same interface as the others."""

from __future__ import annotations

import asyncio
import json
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tabellion.messages import Message
from tabellion.models.base import Ask, Blob, Part, Reply, Schema
from tabellion.models.errors import Rejected

if TYPE_CHECKING:
    from tabellion.models.local_form import SchemaForm
    from tabellion.reading.field import Field
    from tabellion.reading.header import Header
    from tabellion.reading.page import Page
    from tabellion.reading.sandbox import Sandbox

ROWS, COLUMNS = 60, 100  #: of a page that plain text is laid out on


class Local:
    """Reads documents locally; raises Rejected where it cannot."""

    name = "local"
    model = "local"
    takes = frozenset({
        "application/pdf", "image/png", "image/jpeg", "image/webp", "image/gif", "image/tiff", "image/bmp",
    })  # fmt: skip

    def __init__(self, types: str | Path | Sequence[str | Path] = "types", sandbox: Sandbox | None = None) -> None:
        self._types = (types,) if isinstance(types, str | Path) else tuple(types)
        self._sandbox = sandbox

    def __repr__(self) -> str:
        return "<Local>"

    async def call(self, parts: Sequence[Part], schema: Schema | None = None, ask: Ask = Ask()) -> Reply:
        """The text of the files, or the fields of a schema.

        Where there are files, texts beside them count as instructions for other models and are ignored.
        """
        started = time.monotonic()
        if schema is None and all(isinstance(part, str) for part in parts):
            text, filled = "\n".join(str(part) for part in parts), None
        else:
            # In a thread, because reading waits for a child.
            text, filled = await asyncio.to_thread(self._read, parts, schema, ask)
        return Reply(text, filled, cost=0.0, model=self.model, seconds=time.monotonic() - started)

    async def close(self) -> None:
        """Does nothing: children belong to the process."""

    def _read(self, parts: Sequence[Part], schema: Schema | None, ask: Ask) -> tuple[str, object]:
        from tabellion.models.local_form import form_of
        from tabellion.reading.errors import CODES, Unreadable
        from tabellion.reading.sandbox import Stopped

        form = form_of(schema, self._types) if schema is not None else None
        try:
            with _stop_after(ask.deadline) as stop:
                pages, headers = self._pages(parts, stop)
                if form is None:
                    return "\n\n".join(page.text for page in pages), None
                filled = form.fill(self._fields(form, pages, headers, stop))
        except Unreadable as error:
            raise Rejected(Message("model.local_unreadable", code=error.code, detail=error)) from None
        except Stopped:
            detail = CODES["timed_out"]
            raise Rejected(Message("model.local_unreadable", code="timed_out", detail=detail)) from None
        return json.dumps(filled, ensure_ascii=False), filled

    def _pages(self, parts: Sequence[Part], stop: threading.Event) -> tuple[list[Page], list[Header]]:
        from tabellion.reading.default_sandbox import default_sandbox
        from tabellion.reading.errors import Unreadable
        from tabellion.reading.pages import open_document

        files = [part for part in parts if isinstance(part, Blob)]
        if not files:
            return list(paginate_text("\n".join(str(part) for part in parts))), []
        pool = self._sandbox or default_sandbox()
        pages: list[Page] = []
        headers = []
        for blob in files:
            with open_document(blob.data, sandbox=pool, stop=stop) as document:
                headers.append(document.header)
                pages += [replace(page, number=len(pages) + number) for number, page in enumerate(document, 1)]
        if all(page.source == "failed" for page in pages):
            raise Unreadable("reader_crashed", pages[0].error or Message("unreadable.no_page"))
        return pages, headers

    def _fields(
        self, form: SchemaForm, pages: Sequence[Page], headers: Sequence[Header], stop: threading.Event
    ) -> dict[str, Field]:
        from tabellion.reading.default_sandbox import default_sandbox
        from tabellion.reading.reader import understand

        embedded = next((header for header in headers if header.attachments), None)
        with _file(form) as path:
            return understand(pages, embedded, [path], self._sandbox or default_sandbox(), stop=stop).fields


@contextmanager
def _stop_after(seconds: float) -> Iterator[threading.Event]:
    """An event that is set when the time is over: one deadline for all files and their fields."""
    stop = threading.Event()
    timer = threading.Timer(min(seconds, threading.TIMEOUT_MAX), stop.set)
    timer.daemon = True
    timer.start()
    try:
        yield stop
    finally:
        timer.cancel()


@contextmanager
def _file(form: SchemaForm) -> Iterator[Path]:
    """The file of the form's type, for a child to read; a temporary one where there is none."""
    if form.type is not None:
        yield form.type
        return
    with tempfile.TemporaryDirectory(prefix="asked-") as folder:
        path = Path(folder) / f"{form.name}.yaml"
        path.write_text(form.text, encoding="utf-8")
        yield path


def paginate_text(text: str) -> Iterator[Page]:
    """Plain text as pages of words, laid out like on a typewriter."""
    from tabellion.reading.page import Page, Word

    lines = text.splitlines()
    for number, first in enumerate(range(0, max(1, len(lines)), ROWS), 1):
        words = []
        for row, line in enumerate(lines[first : first + ROWS]):
            top, column = row / ROWS, 0
            for piece in line.split():
                column = line.index(piece, column)
                box = (
                    min(column, COLUMNS - 1) / COLUMNS,
                    top,
                    min(column + len(piece), COLUMNS) / COLUMNS,
                    top + 0.8 / ROWS,
                )
                words.append(Word(piece, box, line=row))
                column += len(piece)
        yield Page(number, 595.0, 842.0, "text", words=tuple(words))
