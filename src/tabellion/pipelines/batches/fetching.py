"""FETCHING: loads the ref files of a chunk, and decides which refs are read and which are skipped."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

from tabellion.engine.job import Job
from tabellion.engine.sql import NOW, Dialect
from tabellion.engine.tables.table import Row
from tabellion.errors import Permanent
from tabellion.messages import Message
from tabellion.pipelines.batches import tables
from tabellion.pipelines.batches.images import is_image
from tabellion.pipelines.batches.states import RefStatus, SkipReason

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
        refs = await job.context.fetch(
            f"""SELECT id, filename, staging_key, attempts FROM {tables.REFS}
WHERE chunk = $1 AND status = '{RefStatus.PENDING}' AND NOT loaded ORDER BY id""",
            job.text_key,
        )
        job.note(Message("batch.note_fetching", n=len(refs)))
        room = asyncio.Semaphore(AT_ONCE)

        async def load(ref: Any) -> SkipReason | None:
            async with room:
                return await self._judge(ref)

        reasons = await asyncio.gather(*(load(ref) for ref in refs))  # they only read: one that goes on does no harm
        found: dict[SkipReason | None, list[str]] = {}
        for ref, reason in zip(refs, reasons, strict=True):
            found.setdefault(reason, []).append(ref["id"])
        for reason, ids in found.items():
            skip = f"status = '{RefStatus.SKIPPED}', reason = '{reason}', finished_at = {NOW}"
            job.also(
                f"""UPDATE {tables.REFS} SET {"loaded = TRUE" if reason is None else skip}
WHERE {in_list("id", "ids", job.context.dialect)} AND status = '{RefStatus.PENDING}'""",
                ids=json.dumps(ids),
            )
        return {}

    async def _judge(self, ref: Any) -> SkipReason | None:
        """Why a ref is not read; None if it is. What is wrong with its file is found and recorded when it is read."""
        if not is_image(ref["filename"]):
            return SkipReason.NOT_IMAGE
        try:
            file = await self._settings.staging.read(ref["staging_key"])
        except Permanent:
            return None
        # A text that an earlier run has written before it failed must still be published, without another call.
        return SkipReason.HAS_TEXT if file.text is not None and not ref["attempts"] else None


def in_list(column: str, name: str, dialect: Dialect) -> str:
    """The condition that a column is one of the texts in a parameter, which is a JSON list."""
    if dialect == "postgresql":
        return f"{column} = ANY (ARRAY(SELECT json_array_elements_text(CAST(:{name} AS json))))"
    return f"{column} IN (SELECT value FROM json_each(:{name}))"
