"""The queues of batches: refs, the two phases of chunks around them, reports of errors, and the end of a batch."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any

from tabellion.engine.job import Job
from tabellion.engine.queue import Queue
from tabellion.engine.sql import literal
from tabellion.engine.tables.table import Row
from tabellion.pipelines.batches import states, tables
from tabellion.pipelines.batches.callbacks import sync_endpoints
from tabellion.pipelines.batches.completion import complete
from tabellion.pipelines.batches.fetching import Fetching
from tabellion.pipelines.batches.processing import RefReader
from tabellion.pipelines.batches.publishing import Publishing
from tabellion.pipelines.batches.settings import LOCAL, BatchSettings
from tabellion.pipelines.batches.states import BatchStatus, quote_list

Handler = Callable[[Job], Awaitable[Row]]
FETCHED_AT_ONCE, PUBLISHED_AT_ONCE = 4, 4  #: chunks, in one worker
LOCAL_SLOTS = 4  #: local OCR keeps processors busy: more at once would only wait
DEADLINE = 7 * 86_400.0  #: seconds that a ref may wait for a gate
MOST_DEFERRALS = 100_000  #: the deadline ends it long before
MOST_CRASHES = 5  #: in a row: a killed worker says little about its refs
#: A chunk is published when none of its refs is open.
NO_OPEN_REF = f"""NOT EXISTS (SELECT 1 FROM {tables.REFS} AS r
  WHERE r.chunk = t.id AND r.status IN ({quote_list(states.OPEN_REFS)}))"""
#: A batch has ended when none of its chunks is open.
NO_OPEN_CHUNK = f"""NOT EXISTS (SELECT 1 FROM {tables.CHUNKS} AS c
  WHERE c.batch_id = t.id AND c.phase NOT IN ({quote_list(states.ENDED)}))"""


def batch_queues(
    settings: BatchSettings, environments: Mapping[str, BatchSettings] | None = None, only: str | None = None
) -> list[Queue]:
    """The queues with their handlers, the last phase first: a chunk that is under way ends before another begins.

    `environments` are the settings of environments with their own files; `only` limits the queues to one batch.
    """

    def choose(create: Callable[[BatchSettings], Handler]) -> Handler:
        default = create(settings)
        own = {name: create(special) for name, special in (environments or {}).items()}

        async def run(job: Job) -> Row:
            return await own.get(job.environment, default)(job)

        return run

    declared: list[tuple[Queue, Handler]] = [
        (completion_queue(settings, only), complete),
        (reports_queue(settings, only), choose(lambda own: Publishing(own).report)),
        (publishing_queue(settings, only), choose(lambda own: Publishing(own).publish)),
        (refs_queue(settings, only), choose(lambda own: RefReader(own).read)),
        (fetching_queue(settings, only), choose(lambda own: Fetching(own).fetch)),
    ]
    for queue, handler in declared:
        queue.handler(handler)
        if queue.name == states.REPORTS_QUEUE:
            queue.prepare = partial(sync_endpoints, settings=settings)
    return [queue for queue, _ in declared]


def refs_queue(settings: BatchSettings, only: str | None = None) -> Queue:
    """The refs: each is one call of the model, so a crash costs one."""
    return Queue(
        tables.REFS, name=states.REFS_QUEUE, **states.REFS, order="id",
        where=_of_batch("t.chunk", only, "NOT t.chunk_ended"),
        worker="worker", started_at="started_at", finished_at="finished_at", error="error", attempts="attempts",
        max_attempts=settings.retries_per_ref + 1, max_crashes=MOST_CRASHES, lease=settings.lease,
        timeout=settings.timeout, retry_base=settings.retry_base, uses=settings.gate,
        concurrency=min(settings.slots, LOCAL_SLOTS) if settings.model == LOCAL else settings.slots,
        deadline=DEADLINE, max_deferrals=MOST_DEFERRALS,
    )  # fmt: skip


def fetching_queue(settings: BatchSettings, only: str | None = None) -> Queue:
    """Chunks whose refs have not been loaded."""
    return Queue(
        tables.CHUNKS, name=states.FETCHING_QUEUE, **states.FETCHING, error="fetching_error",
        attempts="fetching_attempts", failed_where="t.fetching_error IS NOT NULL", concurrency=FETCHED_AT_ONCE,
        where=_of_batch("t.id", only), **_of_chunks(settings),
    )  # fmt: skip


def publishing_queue(settings: BatchSettings, only: str | None = None) -> Queue:
    """Chunks whose refs have all ended."""
    return Queue(
        tables.CHUNKS, name=states.PUBLISHING_QUEUE, **states.PUBLISHING, error="publishing_error",
        attempts="publishing_attempts", finished_at="completed_at", failed_where="t.publishing_error IS NOT NULL",
        concurrency=PUBLISHED_AT_ONCE, where=_of_batch("t.id", only, NO_OPEN_REF), **_of_chunks(settings),
    )  # fmt: skip


def reports_queue(settings: BatchSettings, only: str | None = None) -> Queue:
    """Chunks that ended in an error which has not been reported."""
    return Queue(
        tables.CHUNKS, name=states.REPORTS_QUEUE, **states.REPORTS, where=_of_batch("t.id", only),
        **_of_chunks(settings),
    )  # fmt: skip


def completion_queue(settings: BatchSettings, only: str | None = None) -> Queue:
    """Batches whose chunks have all ended."""
    conditions = [NO_OPEN_CHUNK, *([f"t.id = {literal(only, 'sqlite')}"] if only is not None else [])]
    return Queue(
        tables.BATCHES, name=states.COMPLETION_QUEUE, **states.COMPLETION, order=("created_at", "id"),
        where=" AND ".join(conditions), failed_where=f"t.status = '{BatchStatus.INCOMPLETE}' AND t.error IS NOT NULL",
        worker="worker", error="error", finished_at="completed_at", lease=settings.lease,
        max_crashes=MOST_CRASHES, retry_base=settings.retry_base,
    )  # fmt: skip


def _of_chunks(settings: BatchSettings) -> dict[str, Any]:
    return {
        "order": ("started_at", "position", "id"), "worker": "worker", "max_attempts": settings.global_retries + 1,
        "max_crashes": MOST_CRASHES, "lease": settings.lease, "timeout": settings.timeout,
        "waits": settings.chunk_waits, "deadline": DEADLINE,
    }  # fmt: skip


def _of_batch(column: str, only: str | None, *conditions: str) -> str | None:
    """The condition of a queue, limited to the chunks of one batch."""
    parts: Sequence[str] = conditions
    if only is not None:
        chosen = f"(SELECT c2.id FROM {tables.CHUNKS} AS c2 WHERE c2.batch_id = {literal(only, 'sqlite')})"
        parts = [*conditions, f"{column} IN {chosen}"]
    return " AND ".join(parts) or None
