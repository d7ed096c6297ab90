"""Reads pages locally: in the sandbox, from a thread, passed to the event loop one by one."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from tabellion.pipelines.ocr.page import PageText
from tabellion.pipelines.ocr.settings import OcrSettings
from tabellion.reading.boosting.boost import boost
from tabellion.reading.default_sandbox import default_sandbox
from tabellion.reading.header import Header
from tabellion.reading.page import OCR, Page
from tabellion.reading.pages import open_document

Mended = tuple[Page, PageText]  #: a page, and its text after correction


def mend(page: Page, *, boosting: bool) -> PageText:
    """The text of a page, corrected if `boosting`."""
    if not boosting or not page.words:
        return PageText.of(page, page.text)
    text = boost(page).text
    return PageText.of(page, text, boosted=text != page.text)


@asynccontextmanager
async def reading(
    settings: OcrSettings, path: Path, ocr: OCR, *, first: int = 1, boosting: bool = True
) -> AsyncIterator[tuple[Header, AsyncIterator[Mended]]]:
    """The header of a file and its pages from `first` on, as they are read; leaving the block stops the reading.

    Everything runs in one thread: a reader that waits for another file's child must not block that file.
    """
    loop, stop = asyncio.get_running_loop(), threading.Event()
    header_found: asyncio.Future[Header] = loop.create_future()
    found: asyncio.Queue[Mended | None] = asyncio.Queue()
    pool = settings.sandbox or default_sandbox()

    def in_loop(callback: Callable[..., None], *values: object) -> None:
        loop.call_soon_threadsafe(callback, *values)

    def set_header(header: Header) -> None:
        if not header_found.done():
            header_found.set_result(header)

    def read() -> None:
        with open_document(
            path, sandbox=pool, limits=settings.limits, ocr=ocr, name=path.name, stop=stop, first=first
        ) as document:
            in_loop(set_header, document.header)
            for page in document:
                in_loop(found.put_nowait, (page, mend(page, boosting=boosting)))

    work = asyncio.ensure_future(loop.run_in_executor(pool.threads, read))
    work.add_done_callback(lambda _: found.put_nowait(None))

    async def pages() -> AsyncIterator[Mended]:
        while (item := await found.get()) is not None:
            yield item
        await work  # raises what ended it

    try:
        await asyncio.wait((work, header_found), return_when=asyncio.FIRST_COMPLETED)
        if not header_found.done():
            await work
        yield await header_found, pages()
    finally:
        # Not awaited: the child ends at once and its thread soon after; a thread that has not started never will.
        stop.set()
        header_found.cancel()
        if not work.done():
            work.cancel()
        elif not work.cancelled():
            work.exception()  # retrieved, so that asyncio does not log it
