"""Progress of documents, written periodically in one statement for all of them, without delaying anything."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
import time

from tabellion.engine import sql
from tabellion.engine.context import JobContext
from tabellion.engine.job import Job
from tabellion.engine.moves import Numbered
from tabellion.errors import TabellionError
from tabellion.messages import Message
from tabellion.pipelines.documents import states

PAUSE = 1.0  # seconds between two writes of one worker


class Cancelled(Exception):  # noqa: N818 - what happened
    """The handler has ended: its reading stops at the next page."""


class ProgressWriter:
    """Collects reports from reading threads. One statement writes them, for rows that are still this worker's.

    It neither renews leases nor blocks: it changes two columns that no state change depends on, and if a write fails,
    the next one makes up for it.
    """

    def __init__(self, pause: float = PAUSE) -> None:
        self._pause = pause
        self._lock = threading.Lock()
        self._reports: dict[str, tuple[Job, int, int]] = {}
        self._writing: asyncio.Task[None] | None = None
        self._written_at = float("-inf")

    def start(self, job: Job) -> DocumentProgress:
        """The object to which the reading of this job's document reports, from any thread."""
        return DocumentProgress(self, job, asyncio.get_running_loop())

    def put(self, job: Job, done: int, pages: int) -> None:
        """Records a document's progress."""
        with self._lock:
            self._reports[job.text_key] = (job, done, pages)

    def forget(self, job: Job) -> None:
        """Drops the report of a document that has ended: its own end stores the number of pages."""
        with self._lock:
            self._reports.pop(job.text_key, None)

    def schedule_write(self) -> None:
        """Schedules a write of the reports; called in the handlers' loop."""
        if self._writing is None or self._writing.done():
            self._writing = asyncio.get_running_loop().create_task(self._write())

    async def _write(self) -> None:
        while True:
            await asyncio.sleep(max(0.0, self._written_at + self._pause - time.monotonic()))
            with self._lock:
                reported, self._reports = self._reports, {}
            if not reported:
                return
            self._written_at = time.monotonic()
            by_context: dict[JobContext, list[tuple[Job, int, int]]] = {}
            for job, done, pages in reported.values():
                if job.context is not None and not job.lost:
                    by_context.setdefault(job.context, []).append((job, done, pages))
            for context, batch in by_context.items():
                with contextlib.suppress(TabellionError):
                    text, values = _statement(context, batch)
                    await context.fetch(text, *values)


class DocumentProgress:
    """The progress of one document, reported from the thread that reads it."""

    def __init__(self, progress: ProgressWriter, job: Job, loop: asyncio.AbstractEventLoop) -> None:
        self._progress, self._job, self._loop = progress, job, loop
        self._ended = False

    def __call__(self, done: int, pages: int) -> None:
        """Reports that a page has been read."""
        if self._ended:
            raise Cancelled
        if pages < 2:
            return  # it ends before anybody looks
        self._job.note(Message("progress.page", n=done, total=pages))
        self._progress.put(self._job, done, pages)
        with contextlib.suppress(RuntimeError):  # the loop has ended, and its worker with it
            self._loop.call_soon_threadsafe(self._progress.schedule_write)

    def end(self) -> None:
        """Stops reporting."""
        self._ended = True
        self._progress.forget(self._job)


def _statement(context: JobContext, reports: list[tuple[Job, int, int]]) -> Numbered:
    payload = json.dumps([{"id": job.text_key, "w": job.worker, "d": done, "p": pages} for job, done, pages in reports])
    return sql.bind(*states.store_progress(context.dialect, payload))
