"""The queues of the pipeline: documents to read, one for each model; duplicates; failures; finished reviews."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from tabellion.engine.job import Job
from tabellion.engine.processors import available_processors
from tabellion.engine.queue import Queue
from tabellion.monitor.view import QueueView
from tabellion.pipelines.documents import failure, states
from tabellion.pipelines.documents.extraction import ExtractionHandler
from tabellion.pipelines.documents.followups import FollowUpHandler, Reporting
from tabellion.pipelines.documents.review.queue import ENDINGS, review_queue
from tabellion.pipelines.documents.rewriting import Rewriting
from tabellion.pipelines.documents.settings import LOCAL, Settings, settings_of
from tabellion.pipelines.documents.superseded import Removing, superseded_queue
from tabellion.pipelines.documents.written_columns import WrittenColumns

if TYPE_CHECKING:
    from tabellion.config import Config
    from tabellion.engine.environment import Environment

Handler = Callable[[Job], Awaitable[WrittenColumns]]
#: Reading locally keeps processors busy: more at once would only wait in memory.
AT_ONCE = 4 * available_processors()
SHORT = 60.0  #: seconds that following and reporting may take
#: How long a document waits for something that is not its fault (a rate limit, the lake, a type file) before it fails.
DEADLINE = 7 * 86_400.0
#: Queues of the follow-up work after a document was read, failed or was reviewed; not counted as throughput.
CHORES = ("followers", "failures", "reviewed", "superseded")
#: Files are parsed in a separate process, whose death is an error like any other. A killed worker says little about
#: its documents: it takes this many crashes in a row to give one up, and they use none of its attempts.
MOST_CRASHES = 5
MOST_DEFERRALS = 100_000  #: the deadline ends it long before
#: A duplicate is ready when its original has ended or is gone. An original that failed and returns to its former result
#: has not ended. One look-up per duplicate: with a join, the planner would collect every waiting document.
ENDED = """coalesce((SELECT CASE WHEN o.status = 'failed' AND o.former IS NOT NULL THEN 'queued' ELSE o.status END
  FROM tabellion_documents AS o WHERE o.id = t.duplicate_of), 'gone') NOT IN ('queued', 'processing')"""


def documents_queues(settings: Settings, environments: Mapping[str, Settings] | None = None) -> list[Queue]:
    """Every queue of the pipeline with its handler, for one worker.

    `environments` are the settings of environments that store their files elsewhere: each database needs its own
    folders, because a file is deleted when no document of *its* database has it.
    """

    def choose(create: Callable[[Settings], Handler]) -> Handler:
        """The handler with these settings, or one that chooses by the environment of its job."""
        default = create(settings)
        others = {name: create(own) for name, own in (environments or {}).items()}

        async def run(job: Job) -> WrittenColumns:
            return await others.get(job.environment, default)(job)

        return run if others else default

    queues = [queue for model, gate in settings.gates().items() for queue in reading_queues(settings, model, gate)]
    read = choose(lambda own: ExtractionHandler(own).read)
    for queue in queues:
        queue.handler(read)
    followers, failures, reviewed = followers_queue(settings), failures_queue(settings), reviewed_queue(settings)
    followers.handler(FollowUpHandler(settings).follow)
    failures.handler(choose(lambda own: Reporting(own).report))
    reviewed.handler(choose(lambda own: Rewriting(own).rewrite))
    superseded = superseded_queue(settings)
    superseded.handler(choose(lambda own: Removing(own).remove))
    return [*queues, followers, failures, reviewed, superseded]


def queue_name(model: str) -> str:
    """The name of the queue of documents that this model reads."""
    return "documents" if model == LOCAL else f"documents_{re.sub(r'[^A-Za-z0-9]+', '_', model)}"


def type_queue_name(model: str, type_name: str) -> str:
    """The name of the queue of a type that limits how many documents are read at once."""
    return f"{queue_name(model)}_type_{type_name}"


def reading_queue_names(settings: Settings) -> list[str]:
    """Every queue that may have read a document, including former queues of types: their attempts stay."""
    names = settings.types.names()
    return [
        queue
        for model in settings.gates()
        for queue in (queue_name(model), *(type_queue_name(model, name) for name in names))
    ]


def reading_queues(settings: Settings, model: str, gate: str | None) -> list[Queue]:
    """The queue of a model, and one for each type that limits how many documents are read at once."""
    bounded = {
        doctype.name: doctype.processing.concurrency
        for doctype in settings.types.all()
        if doctype.processing.concurrency
    }
    return [
        documents_queue(settings, model, gate, without=bounded),
        *(_bounded_queue(settings, model, gate, name, limit) for name, limit in bounded.items() if limit is not None),
    ]


def documents_queue(
    settings: Settings, model: str = LOCAL, gate: str | None = None, without: Iterable[str] = ()
) -> Queue:
    """The documents that one model reads: while its gate is closed, other models continue.

    `without`: the types that have a queue of their own.
    """
    others = ", ".join(f"'{name}'" for name in sorted(without))
    queue = Queue(
        "tabellion_documents", name=queue_name(model), order="id",
        **states.reading_states(model), where=f"t.type IS NULL OR t.type NOT IN ({others})" if others else None,
        concurrency=settings.concurrency or (AT_ONCE if model == LOCAL else None), **_reading(settings, gate),
    )  # fmt: skip
    queue.describe_error = failure.describe_error
    return queue


def _bounded_queue(settings: Settings, model: str, gate: str | None, type_name: str, limit: int) -> Queue:
    """The documents of one type, at most `limit` at once in all workers together."""
    queue = Queue(
        "tabellion_documents", name=type_queue_name(model, type_name), order="id",
        **states.bounded_reading_states(model, type_name), limit=limit,
        concurrency=min(limit, settings.concurrency or (AT_ONCE if model == LOCAL else limit)),
        **_reading(settings, gate),
    )  # fmt: skip
    queue.describe_error = failure.describe_error
    return queue


def _reading(settings: Settings, gate: str | None) -> dict[str, Any]:
    return {
        "worker": "worker", "started_at": "started_at", "finished_at": "completed_at", "error": "error",
        "attempts": "attempts", "max_attempts": "max_attempts", "max_crashes": MOST_CRASHES,
        "lease": settings.lease, "timeout": settings.timeout, "retry_base": settings.retry_base, "uses": gate,
        "deadline": DEADLINE, "max_deferrals": MOST_DEFERRALS,
    }  # fmt: skip


def followers_queue(settings: Settings) -> Queue:
    """Duplicates whose original has ended; `status` is public, `chore` is the column of this queue."""
    return Queue(
        "tabellion_documents", name="followers", status="chore", order="id", **states.FOLLOWING, where=ENDED,
        finished_at="completed_at", lease=settings.lease, timeout=SHORT, max_crashes=MOST_CRASHES,
    )  # fmt: skip


def failures_queue(settings: Settings) -> Queue:
    """Failed documents that have not been reported, whatever ended them."""
    return Queue(
        "tabellion_documents", name="failures", order="id", **states.REPORTING, lease=settings.lease, timeout=SHORT,
        max_crashes=MOST_CRASHES,
    )  # fmt: skip


def reviewed_queue(settings: Settings) -> Queue:
    """Documents whose review has ended: people's decisions are in the tables, and afterwards in the outputs."""
    return Queue(
        "tabellion_documents", name="reviewed", order="id", **states.REWRITING, lease=settings.lease,
        retry_base=settings.retry_base, timeout=SHORT, deadline=DEADLINE, max_deferrals=MOST_DEFERRALS,
        max_crashes=MOST_CRASHES,
    )  # fmt: skip


def queues_of(config: Config, environment: Environment | None = None) -> list[Queue]:
    """Every queue of documents with its handler, for all environments or for one."""
    others = {} if environment else {other.name: settings_of(config, other) for other in config.environments[1:]}
    return documents_queues(settings_of(config, environment), others)


def views_of(settings: Settings) -> list[QueueView]:
    """The queues as people see them: one for each model, then review, then the follow-up queues."""
    pages = {"tabellion_documents": "/documents/{}"}
    views = [
        QueueView(queue, chore=queue.name in CHORES, page=pages.get(queue.table))
        for queue in documents_queues(settings)
    ]
    endings = tuple(review_queue(ending) for ending in ENDINGS)
    review = QueueView(review_queue(), people=True, endings=endings, page="/review/{}")
    reading = len(settings.gates())
    return [*views[:reading], review, *views[reading:]]
