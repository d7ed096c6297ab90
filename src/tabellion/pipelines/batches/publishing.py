"""PUBLISHING: stores the files of a chunk by their content, appends a version to each entity, and reports the chunk."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from tabellion.engine.context import JobContext
from tabellion.engine.job import Job
from tabellion.engine.tables.table import Row
from tabellion.errors import Permanent
from tabellion.messages import Message
from tabellion.pipelines.batches import callbacks
from tabellion.pipelines.batches.callbacks import ChunkCallback
from tabellion.pipelines.batches.entity_rows import ChunkEntity, fail_entity, read_entities
from tabellion.pipelines.batches.entity_versions import Append, EntityError, append_version
from tabellion.pipelines.batches.error_forms import read_forms, split_error
from tabellion.pipelines.batches.ref_rows import Ref, end_refs, fail_ref, read_refs
from tabellion.pipelines.batches.states import (
    FETCHING_QUEUE,
    PUBLISHING_QUEUE,
    ChunkPhase,
    RefStatus,
    SkipReason,
)

if TYPE_CHECKING:
    from tabellion.pipelines.batches.settings import BatchSettings

AT_ONCE = 8  #: files of one chunk that are stored at once
APPENDED_AT_ONCE = 4  #: entities of one chunk; each waits for the database several times


class Publishing:
    """The handler of chunks whose refs have all ended, and of chunks whose error has not been reported."""

    def __init__(self, settings: BatchSettings) -> None:
        self._settings = settings

    async def publish(self, job: Job) -> Row:
        """Publishes what was read, and texts that were there before and are not published.

        If too many refs failed nothing is published, and the chunk ends in an error; it does so too if not one of its
        entities could be published.
        """
        context = _context(job)
        refs = await read_refs(context.fetch, job.text_key)
        error = self._judge(refs)
        if error is None:
            unpublished = [ref for ref in refs if ref["result_cid"] is None and _has_file(ref)]
            job.note(Message("batch.note_publishing", n=len(unpublished)))
            await self._store_files(context, unpublished)
            error = self._judge(refs)
        if error is None:
            await self._append_versions(context, job, [ref for ref in unpublished if ref["result_cid"]])
        callback = await self._report(job, error)
        counts = _count(callback)
        if callback["status"] != "error":
            return {**counts, "error_code": None, "error_params": None}
        text, code, params = split_error(callback["error"])
        return {
            **counts, "phase": ChunkPhase.ERROR, "publishing_error": text, "error_code": code, "error_params": params,
        }  # fmt: skip

    async def report(self, job: Job) -> Row:
        """Reports a chunk that ended without its handler: no attempts left, or its worker crashed too often."""
        error = await self._read_error(job)
        _, code, params = split_error(error)
        return {**_count(await self._report(job, error)), "error_code": code, "error_params": params}

    async def _read_error(self, job: Job) -> str:
        """The error that ended a chunk, with the code that its last attempt has."""
        queue = PUBLISHING_QUEUE if job["publishing_error"] else FETCHING_QUEUE
        error: str | None = job["publishing_error"] or job["fetching_error"]
        if error is None:
            return Message("batch.ended")
        forms = await read_forms(_context(job).fetch, [(queue, job.text_key)])
        return Message.from_stored(error, forms.get((queue, job.text_key)))

    def _judge(self, refs: Sequence[Ref]) -> str | None:
        """The error of a chunk with these refs, if too many of them failed."""
        failed = sum(ref["status"] == RefStatus.ERROR for ref in refs)
        if not refs or failed / len(refs) <= self._settings.most_failed:
            return None
        return Message("batch.too_many_failed", n=failed, of=len(refs))

    async def _store_files(self, context: JobContext, refs: Sequence[Ref]) -> None:
        """Stores the ref files under their CIDs; storing one twice changes nothing.

        A ref whose file is gone, damaged or without its text has failed: a retry reads it again.
        """
        room = asyncio.Semaphore(AT_ONCE)

        async def put(ref: Ref) -> None:
            async with room:
                try:
                    file = await self._settings.staging.read(ref["staging_key"])
                    if file.text is None:
                        raise Permanent(Message("batch.staging_without_text", key=ref["staging_key"]))
                except Permanent as error:
                    ref["status"] = RefStatus.ERROR
                    text, values = fail_ref(ref["id"], str(error))
                    await context.fetch(text, *values)
                else:
                    ref["result_cid"] = await self._settings.content.put(file.dump())

        await _run_all(put(ref) for ref in refs)

    async def _append_versions(self, context: JobContext, job: Job, stored: Sequence[Ref]) -> None:
        """Appends one version to each entity with files that were stored now, several entities at once.

        It has the components of the newest version and these files alone: those of earlier runs may have been replaced
        since by other chunks.
        """
        read = {ref["pi_position"] for ref in stored if ref["status"] == RefStatus.DONE}
        own: dict[int, list[Ref]] = {}
        for ref in stored:
            own.setdefault(ref["pi_position"], []).append(ref)
        room = asyncio.Semaphore(APPENDED_AT_ONCE)

        async def append(entity: ChunkEntity) -> None:
            async with room:
                position = entity["position"]
                await self._append(context, job, entity, own[position], only_if_new=position not in read)

        entities = await read_entities(context.fetch, job.text_key)
        await _run_all(append(entity) for entity in entities if entity["position"] in own)

    async def _append(
        self, context: JobContext, job: Job, entity: ChunkEntity, refs: Sequence[Ref], *, only_if_new: bool
    ) -> None:
        """Appends one version to an entity, and notes what it contains."""
        cids = [(ref, cid) for ref in refs if (cid := ref["result_cid"]) is not None]
        append = Append(
            job.text_key, job["run"], entity["position"], entity["pi"], entity["current_tip"],
            {ref["filename"]: cid for ref, cid in cids},
            {ref["id"]: cid for ref, cid in cids},
            f"OCR of {len(refs)} refs (batch {job['batch_id']}, chunk {job['chunk_id']})",
            only_if_new,
        )  # fmt: skip
        try:
            await append_version(context, self._settings.content, append, starts=self._settings.starts)
        except EntityError as error:
            text, values = fail_entity(job.text_key, entity["position"], str(error))
            await context.fetch(text, *values)

    async def _report(self, job: Job, error: str | None) -> ChunkCallback:
        """Writes the callback in the transaction that ends the job, and returns it."""
        context = _context(job)
        callback = await callbacks.build_callback(context.fetch, job.values, context.dialect, error)
        text, values = end_refs(job.text_key)
        job.also(text, **values)
        if job["callback_url"] is not None:
            for text, values in (
                await callbacks.ensure_endpoint(context.fetch, self._settings, job["callback_url"], context.dialect),
                callbacks.deliver(job.values, callback),
            ):
                job.also(text, **values)
        return callback


async def _run_all(tasks: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Runs all at once and raises the first error when all have ended: none may write for the job afterwards."""
    for result in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(result, BaseException):
            raise result


def _has_file(ref: Ref) -> bool:
    """Whether a ref has a file with a text, which is to be published."""
    return ref["status"] == RefStatus.DONE or ref["reason"] == SkipReason.HAS_TEXT


def _count(callback: ChunkCallback) -> Row:
    """The counts of a chunk that has ended: what the callback says, also about refs that were read in vain."""
    skipped = sum(ref["status"] == "skipped" for pi in callback["results"] for ref in pi["completed_refs"])
    completed, failed = callback["summary"]["completed"], callback["summary"]["failed"]
    return {"done_refs": completed - skipped, "skipped_refs": skipped, "failed_refs": failed}


def _context(job: Job) -> JobContext:
    assert job.context is not None  # noqa: S101 - every job of a worker has one
    return job.context
