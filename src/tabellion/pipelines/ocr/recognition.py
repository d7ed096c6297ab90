"""The handler: fetches a file, reads and corrects its text page by page, and returns it with metadata."""

from __future__ import annotations

import asyncio
import hashlib
import time
from pathlib import Path
from typing import Any

from tabellion.engine.job import Job
from tabellion.engine.tables.table import Row
from tabellion.errors import ConfigurationError, LeaseLost, Permanent
from tabellion.extractions.columns import warn_once
from tabellion.extractions.storage import FileMissing
from tabellion.messages import Message
from tabellion.models.base import Ask, Model
from tabellion.models.boost import boost_text
from tabellion.models.errors import Rejected
from tabellion.models.media import Render, renderer
from tabellion.models.page_text import read_page, reads_pages_only
from tabellion.pipelines.ocr import local_pages
from tabellion.pipelines.ocr.page import PageText, clean, confidence_of, join_pages
from tabellion.pipelines.ocr.page_memos import PageMemos
from tabellion.pipelines.ocr.settings import LOCAL, OcrSettings
from tabellion.reading.boosting.boost import boost
from tabellion.reading.errors import Unreadable
from tabellion.reading.page import Page
from tabellion.reading.page_reading import RUBBISH, STAMP


class Recognition:
    """Reads the files of one environment's queue."""

    def __init__(self, settings: OcrSettings) -> None:
        self.settings = settings
        self._model: Model | None = None

    async def read(self, job: Job) -> Row:
        """Reads one file; returns its text, and metadata if the table has a column for it."""
        started = time.monotonic()
        if lacking := self.settings.columns.lacks(job.values):
            warn_once(job.queue.name, lacking)
        columns = self.settings.columns.find(job.values)
        address = job[columns.address]
        if not address:
            raise FileMissing(Message("ocr.no_address", column=columns.address))
        job.note(Message("ocr.downloading"))
        path = await self.settings.files.download(str(address), job.folder)
        job.note(Message("ocr.opening"))
        sha256 = await asyncio.to_thread(_digest, path)
        pages = await (self._read_here(job, path, sha256) if self._is_local else self._read_by_model(job, path))
        if all(page.source == "failed" for page in pages):
            raise _build_error(pages)
        row: Row = {columns.text: join_pages(pages)}
        if columns.metadata is not None:
            row[columns.metadata] = {
                "pages": [page.as_dict() for page in pages], "model": self._model_name(),
                "cost": await _cost(job), "confidence": confidence_of(pages), "sha256": sha256,
                "bytes": path.stat().st_size, "seconds": round(time.monotonic() - started, 3),
            }  # fmt: skip
        return row

    # -- local OCR ---------------------------------------------------------------------------------------------------

    async def _read_here(self, job: Job, path: Path, sha256: str) -> list[PageText]:
        boosting = self.settings.boost != "never"
        memos = PageMemos(
            job, sha256, f"{self.settings.pages}-{'boosted' if boosting else 'plain'}", self.settings.lease
        )
        pages: list[PageText] = []
        while (not memos.count or len(pages) < memos.count) and (known := await memos.recall(len(pages) + 1)):
            pages.append(known)
        if pages and len(pages) == memos.count:
            return pages
        async with local_pages.reading(
            self.settings, path, self.settings.pages, first=len(pages) + 1, boosting=boosting
        ) as (header, found):
            memos.count = header.count
            _note(job, len(pages) + 1, header.count)
            async for _, page in found:
                pages.append(page)
                await memos.remember(page)
                _note(job, min(page.number + 1, header.count), header.count)
        return pages

    # -- read by a model ---------------------------------------------------------------------------------------------

    async def _read_by_model(self, job: Job, path: Path) -> list[PageText]:
        """Sends each page as an image, unless the file has its text; each call of the model has its own memo."""
        settings, model = self.settings, self._open_model()
        local: list[local_pages.Mended] = []
        async with local_pages.reading(settings, path, "never", boosting=settings.boost != "never") as (_, found):
            local = [pair async for pair in found]
        render = renderer(path, password=None, sandbox=settings.sandbox, limits=settings.limits)
        pages = []
        for page, text in local:
            _note(job, page.number, len(local))
            if page.source == "failed" or (settings.pages != "always" and _has_text(page)) or settings.pages == "never":
                pages.append(text)
            else:
                pages.append(await self._ask(model, page, render))
        return pages

    async def _ask(self, model: Model, page: Page, render: Render) -> PageText:
        ask = Ask(deadline=self.settings.model_deadline)
        try:
            picture = await asyncio.to_thread(render, page)
        except Unreadable as error:
            return PageText(page.number, "", "failed", error=str(error), error_code=error.code)
        try:
            reply = await read_page(model, picture, ask)
            text = clean(reply.text)
            corrected = await self._boost(model, text, page.number, ask)
        except Rejected as error:
            raise Permanent(Message("ocr.page_rejected", n=page.number, detail=error)) from error
        return PageText(page.number, clean(corrected), "model", None, page.rotation, corrected != text)

    async def _boost(self, model: Model, text: str, number: int, ask: Ask) -> str:
        """The text after correction, by the model if it can; a rewritten text is discarded."""
        if self.settings.boost == "never":
            return text
        if self.settings.boost == "local" or reads_pages_only(model):
            return (await asyncio.to_thread(boost, text)).text
        return (await boost_text(model, text, page=number, ask=ask)).text

    def _open_model(self) -> Model:
        """The model, created once per process: it keeps connections open."""
        if self._model is None:
            if self.settings.make_model is None:
                raise ConfigurationError(f"ocr.model: unknown model {self.settings.model!r}")
            self._model = self.settings.make_model(self.settings.model)
        return self._model

    @property
    def _is_local(self) -> bool:
        return self.settings.model == LOCAL

    def _model_name(self) -> str:
        return LOCAL if self._model is None else self._model.model


def _has_text(page: Page) -> bool:
    """Whether the text layer of a page is good enough; a stamp on a scan is not."""
    return page.quality >= RUBBISH and sum(len(word.text) for word in page.words) >= STAMP


def _build_error(pages: list[PageText]) -> Unreadable:
    first = next(iter(pages), None)
    return Unreadable((first.error_code if first else None) or "pdf_damaged", (first.error if first else None) or "")


def _note(job: Job, number: int, count: int) -> None:
    if job.lost:
        raise LeaseLost(f"{job}: the claim was lost")
    job.note(Message("ocr.page", n=number, total=count))


async def _cost(job: Job) -> float:
    """The cost of the document so far in US dollars, over all attempts."""
    before: list[Any] = []
    if job.context is not None:
        before = await job.context.fetch(
            "SELECT coalesce(sum(cost), 0) AS spent FROM tabellion_attempts WHERE queue = $1 AND key = $2 AND "
            "CAST(token AS text) <> $3",
            job.queue.name, job.text_key, str(job.token),
        )  # fmt: skip
    return round((float(before[0]["spent"]) if before else 0.0) + (job.cost or 0.0), 6)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
