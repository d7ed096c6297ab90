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
from tabellion.pipelines.batches import callbacks, tables
from tabellion.pipelines.batches.callbacks import ChunkCallback
from tabellion.pipelines.batches.entities import Append, EntityError, append_version
from tabellion.pipelines.batches.error_forms import last_attempt, read_forms, split_error
from tabellion.pipelines.batches.states import (
    FETCHING_QUEUE,
    PUBLISHING_QUEUE,
    REFS_QUEUE,
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
        refs = await context.fetch(
            f"""SELECT id, pi_position, filename, staging_key, status, reason, result_cid FROM {tables.REFS}
WHERE chunk = $1 ORDER BY id""",
            job.text_key,
        )
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

    def _judge(self, refs: Sequence[Any]) -> str | None:
        """The error of a chunk with these refs, if too many of them failed."""
        failed = sum(ref["status"] == RefStatus.ERROR for ref in refs)
        if not refs or failed / len(refs) <= self._settings.most_failed:
            return None
        return Message("batch.too_many_failed", n=failed, of=len(refs))

    async def _store_files(self, context: JobContext, refs: list[Any]) -> None:
        """Stores the ref files under their CIDs; storing one twice changes nothing.

        A ref whose file is gone, damaged or without its text has failed: a retry reads it again.
        """
        room = asyncio.Semaphore(AT_ONCE)

        async def put(ref: Any) -> None:
            async with room:
                try:
                    file = await self._settings.staging.read(ref["staging_key"])
                    if file.text is None:
                        raise Permanent(Message("batch.staging_without_text", key=ref["staging_key"]))
                except Permanent as error:
                    ref["status"] = RefStatus.ERROR
                    await context.fetch(
                        f"""UPDATE {tables.REFS} SET status = '{RefStatus.ERROR}', reason = NULL, error = $2,
  error_code = $3, error_params = $4
WHERE id = $1 AND result_cid IS NULL""",
                        ref["id"], *split_error(str(error)),
                    )  # fmt: skip
                else:
                    ref["result_cid"] = await self._settings.content.put(file.dump())

        await _run_all(put(ref) for ref in refs)

    async def _append_versions(self, context: JobContext, job: Job, stored: list[Any]) -> None:
        """Appends one version to each entity with files that were stored now, several entities at once.

        It has the components of the newest version and these files alone: those of earlier runs may have been replaced
        since by other chunks.
        """
        read = {ref["pi_position"] for ref in stored if ref["status"] == RefStatus.DONE}
        positions = {ref["pi_position"] for ref in stored}
        pis = await context.fetch(
            f"SELECT position, pi, current_tip FROM {tables.PIS} WHERE chunk = $1 ORDER BY position", job.text_key
        )
        room = asyncio.Semaphore(APPENDED_AT_ONCE)

        async def append(pi: Any) -> None:
            async with room:
                own = [ref for ref in stored if ref["pi_position"] == pi["position"]]
                await self._append(context, job, pi, own, only_if_new=pi["position"] not in read)

        await _run_all(append(pi) for pi in pis if pi["position"] in positions)

    async def _append(self, context: JobContext, job: Job, pi: Any, refs: list[Any], *, only_if_new: bool) -> None:
        """Appends one version to an entity, and notes what it contains."""
        append = Append(
            job.text_key, job["run"], pi["position"], pi["pi"], pi["current_tip"],
            {ref["filename"]: ref["result_cid"] for ref in refs},
            {ref["id"]: ref["result_cid"] for ref in refs},
            f"OCR of {len(refs)} refs (batch {job['batch_id']}, chunk {job['chunk_id']})",
            only_if_new,
        )  # fmt: skip
        try:
            await append_version(context, self._settings.content, append, starts=self._settings.starts)
        except EntityError as error:
            await context.fetch(
                f"""UPDATE {tables.PIS} SET entity_error = $3, error_code = $4, error_params = $5
WHERE chunk = $1 AND position = $2""",
                job.text_key, pi["position"], *split_error(str(error)),
            )  # fmt: skip

    async def _report(self, job: Job, error: str | None) -> ChunkCallback:
        """Writes the callback in the transaction that ends the job, and returns it."""
        context = _context(job)
        callback = await callbacks.build_callback(context.fetch, job.values, context.dialect, error)
        has_error, code, params = (
            last_attempt(REFS_QUEUE, f"{tables.REFS}.id", column) for column in ("error", "error_code", "error_params")
        )
        job.also(
            f"""UPDATE {tables.REFS} SET chunk_ended = TRUE,
  error_code = CASE WHEN {has_error} IS NULL THEN error_code ELSE {code} END,
  error_params = CASE WHEN {has_error} IS NULL THEN error_params ELSE {params} END
WHERE chunk = :chunk AND status = '{RefStatus.ERROR}' AND NOT chunk_ended""",
            chunk=job.text_key,
        )
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


def _has_file(ref: Any) -> bool:
    """Whether a ref has a file with a text, which is to be published."""
    return bool(ref["status"] == RefStatus.DONE or ref["reason"] == SkipReason.HAS_TEXT)


def _count(callback: ChunkCallback) -> Row:
    """The counts of a chunk that has ended: what the callback says, also about refs that were read in vain."""
    skipped = sum(ref["status"] == "skipped" for pi in callback["results"] for ref in pi["completed_refs"])
    completed, failed = callback["summary"]["completed"], callback["summary"]["failed"]
    return {"done_refs": completed - skipped, "skipped_refs": skipped, "failed_refs": failed}


def _context(job: Job) -> JobContext:
    assert job.context is not None  # noqa: S101 - every job of a worker has one
    return job.context
