"""Outputs that a newer reading has replaced elsewhere: recorded when it commits, then removed by their own queue."""

from __future__ import annotations

from collections.abc import Iterable

from tabellion.engine.context import JobContext
from tabellion.engine.ids import new_id
from tabellion.engine.job import Job
from tabellion.engine.queue import Queue
from tabellion.errors import Permanent, RateLimited
from tabellion.messages import Message
from tabellion.pipelines.documents import daily
from tabellion.pipelines.documents.compact import forget, templates_of
from tabellion.pipelines.documents.failure import Postponed
from tabellion.pipelines.documents.output_pointers import point_with
from tabellion.pipelines.documents.row import context_of
from tabellion.pipelines.documents.settings import Settings
from tabellion.pipelines.documents.written_columns import WrittenColumns
from tabellion.storage import files
from tabellion.storage.lake import LakeError

PATHS = {"json_path": "json_sha256", "parquet_path": "parquet_sha256"}
PATIENCE = 7 * 86_400.0  #: seconds that a lake may be unavailable
_NOTE = """INSERT INTO tabellion_superseded_outputs (id, document_id, path, sha256, created_at)
SELECT CAST(:id AS text), d.id, CAST(:path AS text), CAST(:sha256 AS text), d.created_at
FROM tabellion_documents AS d WHERE d.id = :document"""
BUSY = 10.0  #: seconds before a document that is being read is checked again
AT_ONCE = 4  #: removals in one worker: they wait for the compaction of daily files


def note(job: Job, new_row: WrittenColumns) -> None:
    """Has the current outputs of a document that it will no longer have removed once its new ones have committed."""
    kept_paths = {new_row["json_path"], new_row["parquet_path"]}
    for path, sha256 in ((job[name], job[hash_]) for name, hash_ in PATHS.items()):
        if path is None or path in kept_paths:
            continue
        job.also(_NOTE, id=new_id(), path=path, sha256=sha256, document=job.text_key)


def note_left(job: Job, paths: Iterable[str]) -> None:
    """Has everything removed that attempts on a failed document may have written before they died."""
    for path in paths:
        job.also(_NOTE, id=new_id(), path=path, sha256=None, document=job.text_key)


def superseded_queue(settings: Settings) -> Queue:
    """Outputs that no longer belong to a document."""
    return Queue(
        "tabellion_superseded_outputs",
        name="superseded", order="id", ready="waiting", running="removing", done="removed",
        failed="left", error="error", lease=settings.lease, retry_base=settings.retry_base, concurrency=AT_ONCE,
        deadline=PATIENCE, max_deferrals=int(PATIENCE),
    )  # fmt: skip


class Removing:
    """The handler of superseded outputs."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    async def remove(self, job: Job) -> WrittenColumns:
        """Removes the file, if it still is the document's old output, and its row from daily files that the document is
        no longer written to. The record is deleted with the job's finish."""
        try:
            await self._remove_output(context_of(job), job)
        except (LakeError, files.Unwritable) as error:
            raise Postponed("outputs_failed", error, job, self._settings.retry_base) from error
        except ValueError as error:
            raise Permanent(str(error)) from error
        job.also("DELETE FROM tabellion_superseded_outputs WHERE id = :id", id=job.text_key)
        return {}

    async def _remove_output(self, context: JobContext, job: Job) -> None:
        rows = await context.fetch(
            "SELECT status, chore, json_path, parquet_path FROM tabellion_documents WHERE id = $1", job["document_id"]
        )
        if job["sha256"] is None and any(row["status"] in ("queued", "processing") for row in rows):
            raise RateLimited(BUSY, Message("output.being_read"))
        current = {row[name] for row in rows for name in PATHS}
        lake, path = self._settings.lake, str(job["path"])
        if path in current:
            return  # it was read again since, and has this path again
        root = daily.root_of(path)
        if root is None:
            async with lake.lock():
                if job["sha256"] is not None:
                    await lake.delete_exact(path, job["sha256"])
                else:
                    await lake.delete(path)  # what a dead attempt may have written there
        templates = templates_of(doctype.output.parquet for doctype in await files.in_thread(self._settings.types.all))
        stale_templates = [
            template
            for template in templates
            if (template.root == root if root is not None else template.match(path) is not None)
            and not any(current_path is not None and _below(current_path, template.root) for current_path in current)
        ]
        if stale_templates:
            point = point_with(context.fetch, context.dialect)
            await forget(lake, job["created_at"], [job["document_id"]], stale_templates, point)


def _below(path: str, root: str) -> bool:
    return path.startswith(f"{root}/") or not root
