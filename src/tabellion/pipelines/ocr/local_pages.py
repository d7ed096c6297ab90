"""Pages read here: in the sandbox, in a thread, handed to the event loop one by one."""

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
from tabellion.reading.page import Page
from tabellion.reading.pages import OCR, Header, open_document

Mended = tuple[Page, PageText]  #: a page, and its text after the second pass


def mend(page: Page, *, boosting: bool) -> PageText:
    """The text of a page, mended where that is wanted."""
    if not boosting or not page.words:
        return PageText.of(page, page.text)
    text = boost(page).text
    return PageText.of(page, text, boosted=text != page.text)


@asynccontextmanager
async def reading(
    settings: OcrSettings, path: Path, ocr: OCR, *, first: int = 1, boosting: bool = True
) -> AsyncIterator[tuple[Header, AsyncIterator[Mended]]]:
    """The header of a file and its pages from `first` on, as they are read.

    All of it in one thread: a reader that waits for another file's child must not keep that file from going on.
    Whoever leaves the block early ends the reading.
    """
    loop, stop = asyncio.get_running_loop(), threading.Event()
    heads: asyncio.Future[Header] = loop.create_future()
    found: asyncio.Queue[Mended | None] = asyncio.Queue()
    pool = settings.sandbox or default_sandbox()

    def tell(what: Callable[..., None], *values: object) -> None:
        loop.call_soon_threadsafe(what, *values)

    def set_header(header: Header) -> None:
        if not heads.done():
            heads.set_result(header)

    def read() -> None:
        with open_document(
            path, sandbox=pool, limits=settings.limits, ocr=ocr, name=path.name, stop=stop, first=first
        ) as document:
            tell(set_header, document.header)
            for page in document:
                tell(found.put_nowait, (page, mend(page, boosting=boosting)))

    work = asyncio.ensure_future(loop.run_in_executor(pool.threads, read))
    work.add_done_callback(lambda _: found.put_nowait(None))

    async def pages() -> AsyncIterator[Mended]:
        while (item := await found.get()) is not None:
            yield item
        await work  # raises what ended it

    try:
        await asyncio.wait((work, heads), return_when=asyncio.FIRST_COMPLETED)
        if not heads.done():
            await work
        yield await heads, pages()
    finally:
        # Not waited for: the child ends at once, its thread a moment later, and one that has not begun never will.
        stop.set()
        heads.cancel()
        if not work.done():
            work.cancel()
        elif not work.cancelled():
            work.exception()  # it was told, or nobody wants it any more
