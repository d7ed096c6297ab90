"""What happens to duplicates when their original ends, and the reporting of failures."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, cast

from tabellion.engine import sql
from tabellion.engine.context import JobContext
from tabellion.engine.job import Job
from tabellion.messages import Message, restore_text
from tabellion.pipelines.documents import processed_documents as processed
from tabellion.pipelines.documents import states, superseded
from tabellion.pipelines.documents.completion import rewrite_if_decided
from tabellion.pipelines.documents.daily import root_of
from tabellion.pipelines.documents.failure import serialize_problem
from tabellion.pipelines.documents.lookup import brief, problem
from tabellion.pipelines.documents.outputs import possible_paths
from tabellion.pipelines.documents.row import DocumentFailure, context_of, row_of
from tabellion.pipelines.documents.settings import Settings
from tabellion.pipelines.documents.written_columns import FormerRequest, WrittenColumns
from tabellion.storage import files
from tabellion.storage.lake import LakeError

KEPT = Message("failure.reread_failed")


class FollowUpHandler:
    """The handler of duplicates whose original has ended."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    async def follow(self, job: Job) -> WrittenColumns:
        """Gives the duplicate its original's outcome; a duplicate whose original is gone is read itself."""
        context = context_of(job)
        rows = await context.fetch(
            "SELECT id, status, type, model, asked_model, error, attempts, former FROM tabellion_documents "
            "WHERE id = $1", job["duplicate_of"]
        )  # fmt: skip
        if not rows or (rows[0]["status"] == "completed" and not _alike(rows[0], job.values)):
            return await _handle_orphan(context, job)
        original = rows[0]
        if original["status"] == "completed":
            _deliver(self._settings, job, "document.duplicate", status="duplicate", error=None)
            return states.IS_DUPLICATE
        if original["status"] != "failed" or original["former"] is not None:
            # It is being read once more, or is about to return to its former result.
            return states.WAITS_FOR_ORIGINAL
        why = problem(original["error"], original["attempts"]) or DocumentFailure(code="original_failed", message="")
        error = _describe_original_error(original["id"], why)
        _deliver(self._settings, job, "document.failed", status="failed", error=error)
        return states.fail(error)


class Reporting:
    """The handler of failures: webhooks report them, whatever ended the document."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    async def report(self, job: Job) -> WrittenColumns:
        """Writes the deliveries; a document with a former result returns to it, and its error says what went wrong."""
        back: WrittenColumns = await _restore_former(context_of(job), job) if job["former"] is not None else {}
        # Any attempt, not only the last one, may have died after writing its outputs.
        superseded.note_left(job, possible_paths(await files.in_thread(self._settings.types.all), job.values))
        if back.get("status") == "completed" and not await self._has_outputs(job):
            back |= states.NEEDS_REWRITE
        if not back:
            # Duplicates that shared its result share its failure.
            states.commit_with(job, states.wait_again(job.text_key, "duplicate"))
        _deliver(self._settings, job, "document.failed", **{"status": "failed", **back})
        return states.HAS_NO_FORMER | back

    async def _has_outputs(self, job: Job) -> bool:
        """Whether the outputs that it returns to are still the ones it had."""
        for path, sha256 in ((job[path], job[hash_]) for path, hash_ in superseded.PATHS.items()):
            if path is None or sha256 is None or root_of(path) is not None:
                continue
            try:
                content = await self._settings.lake.get(path)
            except LakeError:
                return False
            if hashlib.sha256(content).hexdigest() != sha256:
                return False
        return True


def _alike(document: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two documents have the same request; the version of a type is not part of it."""
    return _type_and_model(document) == _type_and_model(other)


def _type_and_model(row: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """The requested type and model; if neither was requested, the detected type chooses the model."""
    free = row["type"] is None and row.get("asked_model") is None
    return row["type"], None if free else row["model"]


def _describe_original_error(original: str, why: DocumentFailure) -> str:
    message = Message("failure.duplicate_of_failed", id=original, detail=restore_text(why, "message"))
    return serialize_problem(why["code"], message, why.get("attempts", 0), [Message("tried.original")])


async def _restore_former(context: JobContext, job: Job) -> WrittenColumns:
    """The columns of a document whose second reading failed, as they were before; its error stays.

    Empty for a duplicate whose original is no longer what it was a duplicate of.
    """
    former: FormerRequest = json.loads(job["former"])
    why = problem(job["error"], job["attempts"]) or DocumentFailure(
        code="internal", message="", attempts=job["attempts"]
    )
    back = states.restore(former, json.dumps({**why, "note": KEPT}, ensure_ascii=False))
    if former["status"] == "duplicate":
        original = cast("str", former["duplicate_of"])
        rows = await context.fetch(
            "SELECT status, type, model, asked_model, former FROM tabellion_documents WHERE id = $1", original
        )
        unsettled = (
            bool(rows) and rows[0]["former"] is not None
        )  # it is being read once more itself, or about to return too
        was = json.loads(rows[0]["former"]) if unsettled else rows[0] if rows else {"type": "", "model": ""}
        if not _alike(was, former) or (rows[0]["status"] == "failed" and not unsettled):
            return {}
        states.commit_with(job, states.follow_heir(job.text_key, original), processed.hand_over(job.text_key, original))
        if rows[0]["status"] == "completed":
            return back | states.HAS_FOLLOWED
        return back | states.WAITS_FOR_ORIGINAL
    # Duplicates that moved with it to another type move back with it.
    states.commit_with(job, states.restore_duplicates(job.text_key, job["key"], back))
    # Duplicates of the failed request that arrived meanwhile must not get the result of another request.
    states.commit_with(
        job, states.fail_waiting(job.text_key, back["key"], _describe_original_error(job.text_key, why)),
        processed.release(job.text_key, keep=back["key"]), processed.take_free(back["key"], job.text_key),
        rewrite_if_decided(job.text_key, "approved", "rejected", "reopened"),
    )  # fmt: skip
    return {**back, "done_pages": job["pages"]}


async def _handle_orphan(context: JobContext, job: Job) -> WrittenColumns:
    """Its original was deleted: it takes the key and is read, or follows the document that took it first."""
    text, values = sql.bind(*processed.take_abandoned(job["key"], job.text_key))
    await context.fetch(text, *values)
    [holder] = await context.fetch(processed.HOLDER, job["key"])
    if holder["document_id"] != job.text_key:
        return states.follow(holder["document_id"])
    return states.read_itself(job["version"])


def _deliver(settings: Settings, job: Job, event: str, **changes: Any) -> None:
    if settings.outbox is None:
        return
    text, values = settings.outbox(event, brief(row_of(job, **changes)), job["webhook"])
    job.also(text, **values)
