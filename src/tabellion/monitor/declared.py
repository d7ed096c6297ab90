"""The queues that an environment has, for those who look at them and work none of their jobs."""

from __future__ import annotations

from collections.abc import Iterable

from tabellion.delivery.outbox import webhooks_queue
from tabellion.engine.queue import Queue
from tabellion.errors import ConfigurationError
from tabellion.pipelines.documents.queues import documents_queues
from tabellion.pipelines.documents.settings import Settings
from tabellion.review.queue import review_queue


def document_queues(settings: Settings) -> list[Queue]:
    """Those of the document service: one for each model, then review, then what is done beside."""
    queues = documents_queues(settings)
    reading = len(settings.gates())
    return [*queues[:reading], review_queue(), *queues[reading:], webhooks_queue()]


def together(*lists: Iterable[Queue]) -> list[Queue]:
    """All of them; two of one name would be one and the same to whoever asks for it."""
    found: dict[str, Queue] = {}
    for queue in (queue for queues in lists for queue in queues):
        if found.setdefault(queue.name, queue) is not queue:
            raise ConfigurationError(f"two queues are named {queue.name!r}: give one another name: Queue(…, name=…)")
    return list(found.values())
