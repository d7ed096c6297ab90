"""The OCR queue: the second half of a row's life in `extraction_queue`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tabellion.engine.job import Job
from tabellion.engine.queue import Queue
from tabellion.engine.tables.table import Row
from tabellion.extractions.states import ExtractionStatus
from tabellion.extractions.tables import TABLE
from tabellion.pipelines.ocr.recognition import Recognition
from tabellion.pipelines.ocr.settings import OcrSettings, settings_of

if TYPE_CHECKING:
    from tabellion.config import Config
    from tabellion.engine.environment import Environment


def ocr_queue(settings: OcrSettings) -> Queue:
    """The declaration. It names only columns of OCR and `updated_at`: what extraction wrote, including its error, is
    never changed.

    A row whose worker died is ready again when its lease expires, within a minute, however long its document takes to
    read: leases are renewed while a handler runs. `stale_after` (ten minutes) is for rows that another program left
    running. Both are checked continuously.
    """
    queue = Queue(
        TABLE, name="ocr", status="status_id",
        ready=ExtractionStatus.COMPLETE, running=ExtractionStatus.OCR_PROCESSING,
        done=ExtractionStatus.EXTRACTION_COMPLETE, failed=ExtractionStatus.ERREUR,
        failed_where="t.ocr_error IS NOT NULL",  # extraction fails into the same state
        worker="ocr_worker_id", started_at="ocr_started_at", error="ocr_error",
        updated_at="updated_at", updated_at_optional=True,
        attempts="ocr_attempts", max_attempts="ocr_max_attempts",
        renew_mirrors=True,  # a monitor that judges rows by the age of ocr_started_at leaves live ones alone
        lease=settings.lease, stale_after=settings.stale_after, timeout=settings.timeout,
        retry_base=settings.retry_base, concurrency=settings.workers, uses=settings.gate,
    )  # fmt: skip
    queue.check_columns = settings.columns.lacks
    return queue


def ocr_queues(settings: OcrSettings, environments: Mapping[str, OcrSettings] | None = None) -> list[Queue]:
    """The queue with its handler; `environments` has the settings of environments with their own files."""
    default = Recognition(settings)
    own = {name: Recognition(special) for name, special in (environments or {}).items()}
    queue = ocr_queue(settings)

    @queue.handler
    async def read(job: Job) -> Row:
        return await own.get(job.environment, default).read(job)

    return [queue]


def queues_of(config: Config, environment: Environment | None = None) -> list[Queue]:
    """The queue with its handler, for one environment or for all."""
    others = {} if environment else {other.name: settings_of(config, other) for other in config.environments[1:]}
    return ocr_queues(settings_of(config, environment), others)
