"""Submits a batch and follows it until it has ended, with a worker of its own if none serves the database."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING

from tabellion.cli import pipeline_tables
from tabellion.cli.own_worker import own_worker
from tabellion.delivery.outbox import webhooks_queue
from tabellion.engine.store import Store
from tabellion.errors import TabellionError
from tabellion.pipelines.batches import changes, failures, lookup
from tabellion.pipelines.batches.batch_rows import BatchHeader
from tabellion.pipelines.batches.failures import RefError
from tabellion.pipelines.batches.lookup import Batch
from tabellion.pipelines.batches.pipeline import PIPELINE
from tabellion.pipelines.batches.queues import batch_queues
from tabellion.pipelines.batches.request import Contradiction, UrlBlocked, UrlChecks, content_hash
from tabellion.pipelines.batches.routes.process import as_problem
from tabellion.pipelines.batches.served import SUBMIT_DEADLINE
from tabellion.pipelines.batches.settings import settings_of
from tabellion.pipelines.batches.spooling import add_lines, spool
from tabellion.pipelines.batches.states import LONGEST_ID, REFS_QUEUE, BatchStatus, is_id
from tabellion.pipelines.batches.submit import BatchConflict, submit_batch
from tabellion.web.problems import Problem

if TYPE_CHECKING:
    from tabellion.config import Config

POLL = 0.3  #: seconds between two looks at the batch
SLOTS_BESIDE = 20  #: of the worker, for chunks and callbacks beside the refs
#: Any other status means that it has ended: the next phase has statuses of its own.
NOT_ENDED = (BatchStatus.OPEN, BatchStatus.PROCESSING, BatchStatus.COMPLETING)


class BatchRefused(TabellionError):  # noqa: N818 - what happened
    """The batch cannot be accepted."""


class BatchFollower:
    """A batch from its submission to its end."""

    def __init__(
        self, config: Config, pieces: AsyncIterator[bytes], id_: str | None, chunk_size: int | None,
        callback_url: str | None,
    ) -> None:  # fmt: skip
        self._config, self._pieces, self._id = config, pieces, id_ or ""
        self._chunk_size, self._callback_url = chunk_size, callback_url
        self._settings = settings_of(config)
        self._store = Store(config.environments[0].url, deadline=SUBMIT_DEADLINE)

    async def __aenter__(self) -> BatchFollower:
        await pipeline_tables.prepare_own(self._store, self._config, PIPELINE)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._store.close()

    async def submit(self, *, resume: bool) -> None:
        """Adds the batch, or continues one that exists; raises BatchRefused."""
        if self._id and not is_id(self._id):
            raise BatchRefused(
                f"--id: {self._id!r} is not an id; use letters, digits, `.`, `_` and `-`, at most {LONGEST_ID}"
            )
        checks = UrlChecks(self._settings.rules)
        try:
            async with spool(checks) as batch:
                if self._callback_url is not None:
                    await checks.check(self._callback_url, "--callback-url")
                await add_lines(batch, self._pieces)
                if not batch.pis:
                    raise BatchRefused("the file has no entities")
                size = self._chunk_size or self._settings.chunk_size
                hash_ = content_hash([batch.content_hash, size, self._callback_url])
                self._id = self._id or f"batch-{hash_[:16]}"
                header = BatchHeader(
                    self._id, hash_, size, self._callback_url, "tabellion batch", batch.pis, batch.refs,
                    batch.duplicates,
                )  # fmt: skip
                submitted = await submit_batch(self._store, self._settings, header, batch)
        except Problem as problem:
            raise BatchRefused(_describe(problem)) from None
        except (Contradiction, UrlBlocked) as error:
            raise BatchRefused(_describe(as_problem(error))) from None
        except BatchConflict as error:
            raise BatchRefused(f"{error}: choose another --id") from None
        if submitted.is_new:
            return
        if not resume:
            raise BatchRefused(f"the batch {self._id} exists already: add --resume to continue it")
        await changes.retry_failed(self._store, self._id)

    async def follow(self, progress: Callable[[Batch], None]) -> None:
        """Returns when the batch has ended."""
        async with self._workers():
            while True:
                found = await self._find()
                progress(found)
                if found["status"] not in NOT_ENDED:
                    return
                await asyncio.sleep(POLL)

    async def result(self) -> tuple[Batch, list[RefError], int]:
        """The batch, the errors of its refs, and how many callbacks have not been delivered."""
        undelivered = await lookup.count_undelivered(self._store, self._id)
        found, errors = await self._find(), await failures.failed_refs(self._store, self._id)
        return found, errors, undelivered["pending"] + undelivered["failed"]

    async def _find(self) -> Batch:
        found = await lookup.get_batch(self._store, self._id)
        if found is None:
            raise BatchRefused(f"the batch {self._id} was deleted")
        return found

    def _workers(self) -> contextlib.AbstractAsyncContextManager[None]:
        """Leaves the work to the workers of the database, or runs one for this batch alone."""
        settings = self._settings
        return own_worker(
            self._config, PIPELINE, self._store, (REFS_QUEUE,),
            lambda: [*batch_queues(settings, only=self._id), webhooks_queue(settings.rules)],
            poll=POLL, name="batch", concurrency=settings.slots + SLOTS_BESIDE,
        )  # fmt: skip


def _describe(problem: Problem) -> str:
    """The detail, which begins with the line if it is about one, the field, and what to do."""
    place = f" ({problem.field})" if problem.field else ""
    return f"{problem.detail}{place}" + (f"; {problem.fix}" if problem.fix else "")
