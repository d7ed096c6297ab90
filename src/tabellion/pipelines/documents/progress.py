"""Progress: how far documents are, written now and then for all of them together, and never in anybody's way."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
import time

from tabellion.engine.context import JobContext
from tabellion.engine.job import Job
from tabellion.errors import TabellionError
from tabellion.messages import Message

PAUSE = 1.0  # seconds between two writings of one worker


class Cancelled(Exception):  # noqa: N818 - what happened
    """The handler has ended: whatever still reads for it stops at its next page."""


class ProgressWriter:
    """Gathers what reading threads report. One statement writes it, for rows that are still this worker's.

    It renews no lease and holds none up: it changes two columns that no move looks at, and when the database does not
    take it, the next one will.
    """

    def __init__(self, pause: float = PAUSE) -> None:
        self._pause = pause
        self._lock = threading.Lock()
        self._seen: dict[str, tuple[Job, int, int]] = {}
        self._writing: asyncio.Task[None] | None = None
        self._written_at = float("-inf")

    def watch(self, job: Job) -> Watch:
        """What a reading of this job's document reports to; from any thread."""
        return Watch(self, job, asyncio.get_running_loop())

    def put(self, job: Job, done: int, pages: int) -> None:
        """Notes how far a document is."""
        with self._lock:
            self._seen[job.text_key] = (job, done, pages)

    def forget(self, job: Job) -> None:
        """The document has ended: its own end says how many pages it has."""
        with self._lock:
            self._seen.pop(job.text_key, None)

    def ring(self) -> None:
        """Has what was noted written soon; called in the handlers' loop."""
        if self._writing is None or self._writing.done():
            self._writing = asyncio.get_running_loop().create_task(self._write())

    async def _write(self) -> None:
        while True:
            await asyncio.sleep(max(0.0, self._written_at + self._pause - time.monotonic()))
            with self._lock:
                seen, self._seen = self._seen, {}
            if not seen:
                return
            self._written_at = time.monotonic()
            by_context: dict[JobContext, list[tuple[Job, int, int]]] = {}
            for job, done, pages in seen.values():
                if job.context is not None and not job.lost:
                    by_context.setdefault(job.context, []).append((job, done, pages))
            for context, reports in by_context.items():
                with contextlib.suppress(TabellionError):
                    await context.fetch(*_statement(context, reports))


class Watch:
    """One document's progress."""

    def __init__(self, progress: ProgressWriter, job: Job, loop: asyncio.AbstractEventLoop) -> None:
        self._progress, self._job, self._loop = progress, job, loop
        self._ended = False

    def __call__(self, done: int, pages: int) -> None:
        """A page has been read."""
        if self._ended:
            raise Cancelled
        if pages < 2:
            return  # it will have ended before anybody looks
        self._job.note(Message("progress.page", n=done, total=pages))
        self._progress.put(self._job, done, pages)
        with contextlib.suppress(RuntimeError):  # the loop has ended, and its worker with it
            self._loop.call_soon_threadsafe(self._progress.ring)

    def end(self) -> None:
        """Nothing more is reported."""
        self._ended = True
        self._progress.forget(self._job)


def _statement(context: JobContext, reports: list[tuple[Job, int, int]]) -> tuple[str, str]:
    told = json.dumps([{"id": job.text_key, "w": job.worker, "d": done, "p": pages} for job, done, pages in reports])
    if context.dialect == "postgresql":
        return (
            """UPDATE tabellion_documents AS t SET pages = r.p, done_pages = r.d
FROM json_to_recordset(CAST($1 AS json)) AS r (id text, w text, d integer, p integer)
WHERE t.id = r.id AND t.worker = r.w AND t.status = 'processing'""",
            told,
        )
    return (
        """UPDATE tabellion_documents AS t
SET pages = json_extract(r.value, '$.p'), done_pages = json_extract(r.value, '$.d')
FROM json_each($1) AS r
WHERE t.id = json_extract(r.value, '$.id') AND t.worker = json_extract(r.value, '$.w') AND t.status = 'processing'""",
        told,
    )
