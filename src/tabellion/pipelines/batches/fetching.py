"""FETCHING: loads the ref files of a chunk, and decides which refs are read and which are skipped."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tabellion.engine.job import Job
from tabellion.engine.tables.table import Row
from tabellion.errors import Permanent
from tabellion.messages import Message
from tabellion.pipelines.batches.images import is_image
from tabellion.pipelines.batches.ref_rows import Ref, load_refs, read_unloaded_refs
from tabellion.pipelines.batches.states import SkipReason

if TYPE_CHECKING:
    from tabellion.pipelines.batches.settings import BatchSettings

AT_ONCE = 16  #: files of one chunk that are read at once


class Fetching:
    """The handler of chunks whose refs have not been loaded."""

    def __init__(self, settings: BatchSettings) -> None:
        self._settings = settings

    async def fetch(self, job: Job) -> Row:
        """Loads the file of each ref. Those that are not images or have their text already are skipped."""
        assert job.context is not None  # noqa: S101 - every job of a worker has one
        refs = await read_unloaded_refs(job.context.fetch, job.text_key)
        job.note(Message("batch.note_fetching", n=len(refs)))
        room = asyncio.Semaphore(AT_ONCE)

        async def load(ref: Ref) -> SkipReason | None:
            async with room:
                return await self._judge(ref)

        reasons = await asyncio.gather(*(load(ref) for ref in refs))  # they only read: one that goes on does no harm
        found: dict[SkipReason | None, list[str]] = {}
        for ref, reason in zip(refs, reasons, strict=True):
            found.setdefault(reason, []).append(ref["id"])
        for reason, ids in found.items():
            text, values = load_refs(ids, reason, job.context.dialect)
            job.also(text, **values)
        return {}

    async def _judge(self, ref: Ref) -> SkipReason | None:
        """Why a ref is not read; None if it is. What is wrong with its file is found and recorded when it is read."""
        if not is_image(ref["filename"]):
            return SkipReason.NOT_IMAGE
        try:
            file = await self._settings.staging.read(ref["staging_key"])
        except Permanent:
            return None
        # A text that an earlier run has written before it failed must still be published, without another call.
        return SkipReason.HAS_TEXT if file.text is not None and not ref["attempts"] else None
