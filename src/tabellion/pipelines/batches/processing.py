"""PROCESSING: reads the image of one ref through the gate, and writes its text into the ref's file."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from tabellion.engine.job import Job, storable
from tabellion.engine.tables.table import Row
from tabellion.errors import ConfigurationError, Permanent, RateLimited
from tabellion.messages import Message
from tabellion.models.base import Ask, Blob, Model, takes
from tabellion.models.errors import Rejected
from tabellion.models.media import renderer
from tabellion.models.page_text import read_page, reads_pages_only
from tabellion.net.fetching import Pinned
from tabellion.pipelines.batches.host_pauses import HostPauses
from tabellion.pipelines.batches.image_ends import has_end
from tabellion.pipelines.batches.images import HostLimited, download_image
from tabellion.pipelines.batches.settings import LOCAL
from tabellion.reading.default_sandbox import default_sandbox
from tabellion.reading.errors import Unreadable
from tabellion.reading.page import OCR, Page
from tabellion.reading.pages import open_document
from tabellion.storage.lake import LakeError

if TYPE_CHECKING:
    from tabellion.pipelines.batches.settings import BatchSettings


AWAY, LONGEST_AWAY = 5.0, 300.0  #: seconds after which a staging store that does not answer is asked again


class RefReader:
    """The handler of refs."""

    def __init__(self, settings: BatchSettings) -> None:
        self._settings = settings
        self._model: Model | None = None
        self._pauses = HostPauses()
        self._transports: WeakKeyDictionary[asyncio.AbstractEventLoop, Pinned] = WeakKeyDictionary()

    async def read(self, job: Job) -> Row:
        """Reads one image. A text that an earlier attempt has written is not read again.

        While the staging store does not answer, the ref waits and no attempt is used up.
        """
        try:
            file = await self._settings.staging.read(job["staging_key"])
            text = file.text
            if text is None:
                text = await self._read_image(job, await self._download(job))
                # Once more: others may have written other keys while the image was read.
                file = await self._settings.staging.read(job["staging_key"])
                await self._settings.staging.write(job["staging_key"], file.with_text(text))
        except LakeError as error:
            raise RateLimited(min(AWAY * 2.0 ** min(job.deferrals, 10), LONGEST_AWAY), str(error)) from error
        return {"ocr_text_length": len(text)}

    async def _download(self, job: Job) -> Blob:
        """The image of a ref. After a 429, this process asks its host for no image before the time that it named."""
        settings, url = self._settings, job["cdn_url"]
        if pause := self._pauses.remaining(url):
            raise RateLimited(pause, Message("batch.host_pauses"))
        try:
            image = await download_image(
                url, settings.rules, variant=settings.variant, limit=settings.image_bytes,
                transport=self._open_transport(job),
            )  # fmt: skip
        except HostLimited as error:
            raise RateLimited(self._pauses.add_refusal(url, error.asked), str(error)) from None
        self._pauses.add_success(url)
        return image

    async def close(self) -> None:
        """Closes this loop's connections."""
        if transport := self._transports.pop(asyncio.get_running_loop(), None):
            await transport.aclose()

    async def _read_image(self, job: Job, image: Blob) -> str:
        """The text of an image; raises Permanent for one that cannot be read."""
        try:
            if self._settings.model == LOCAL:
                pages = await self._open(job, image, "always")
                return storable("\n\n".join(page.text for page in pages))
            model = self._open_model()
            is_taken = not reads_pages_only(model) and image.type in takes(model)
            if is_taken and not has_end(image):
                raise Unreadable("image_damaged", Message("batch.image_cut_off"))
            pictures = [image] if is_taken else await self._draw(job, image)
            ask = Ask(deadline=self._settings.model_deadline)
            replies = [await read_page(model, picture, ask) for picture in pictures]
        except Unreadable as error:
            raise Permanent(Message("batch.image_unreadable", detail=error)) from None
        except Rejected as error:
            raise Permanent(Message("batch.image_rejected", detail=error)) from error
        return storable("\n\n".join(reply.text for reply in replies))

    async def _open(self, job: Job, image: Blob, ocr: OCR) -> list[Page]:
        """The pages of an image, read in the sandbox."""
        pool = self._settings.sandbox or default_sandbox()
        path = await self._save(job, image)

        def read() -> list[Page]:
            with open_document(path, sandbox=pool, ocr=ocr, name=path.name) as document:
                return list(document)

        pages = await asyncio.get_running_loop().run_in_executor(pool.threads, read)
        for page in pages:
            if page.source == "failed":
                raise Unreadable(page.error_code or "image_damaged", page.error or "")
            if page.damage is not None:  # a part of its text would be reported as all of it
                raise Unreadable("image_damaged", Message("batch.image_cut_off"))
        return pages

    async def _draw(self, job: Job, image: Blob) -> list[Blob]:
        """The pages of an image as a model takes them, drawn in the sandbox: a TIFF may have several."""
        pages = await self._open(job, image, "never")
        path = await self._save(job, image)
        render = renderer(path, password=None, sandbox=self._settings.sandbox, limits=None)
        return [await asyncio.to_thread(render, page) for page in pages]

    async def _save(self, job: Job, image: Blob) -> Path:
        path = job.folder / f"image.{image.type.rpartition('/')[2]}"
        await asyncio.to_thread(path.write_bytes, image.data)
        return path

    def _open_transport(self, job: Job) -> Pinned:
        """Where images are downloaded from: one CDN has most of them, so its connections are kept."""
        loop = asyncio.get_running_loop()
        if loop not in self._transports:
            self._transports[loop] = Pinned(self._settings.rules, keep=True)
        if job.context is not None:
            job.context.users.add(self)
        return self._transports[loop]

    def _open_model(self) -> Model:
        """The model, created once per process: it keeps connections open."""
        if self._model is None:
            if self._settings.make_model is None:
                raise ConfigurationError(f"batches.model: nobody provides the model {self._settings.model!r}")
            self._model = self._settings.make_model(self._settings.model)
        return self._model
