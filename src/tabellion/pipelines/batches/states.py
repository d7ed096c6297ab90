"""The states of batches, chunks and refs, and the column values that make the states of their queues."""

from __future__ import annotations

import re
from enum import StrEnum

from tabellion.engine.queue import QueueStates


class ChunkPhase(StrEnum):
    """The phases of a chunk: the values of `batch_chunks.phase`."""

    PENDING = "PENDING"  #: its ref files are loaded next
    FETCHING = "FETCHING"
    PROCESSING = "PROCESSING"  #: its refs are read; published as soon as none is open
    PUBLISHING = "PUBLISHING"
    DONE = "DONE"
    ERROR = "ERROR"


class RefStatus(StrEnum):
    """The values of `batch_refs.status`."""

    PENDING = "pending"
    PROCESSING = "processing"
    DONE = "done"
    SKIPPED = "skipped"
    ERROR = "error"


class SkipReason(StrEnum):
    """The values of `batch_refs.reason`: why a ref was not read."""

    HAS_TEXT = "has_text"  #: its file has its text already
    NOT_IMAGE = "not_image"  #: its name is not that of an image that can be read


class BatchStatus(StrEnum):
    """The values of `batches.status`."""

    OPEN = "open"  #: its chunks come one by one through `/process`: nobody has said how many there are
    PROCESSING = "processing"
    COMPLETING = "completing"
    COMPLETE = "complete"  #: every ref has a result: the next phase may begin
    INCOMPLETE = "incomplete"  #: every chunk has ended, but some refs have no result


class CallbackReport(StrEnum):
    """The values of `batch_chunks.report`: whether the end of a chunk was handed to the delivery queue."""

    DUE = "due"
    RUNNING = "running"
    WRITTEN = "written"
    FAILED = "failed"


ENDED = (ChunkPhase.DONE, ChunkPhase.ERROR)
OPEN_REFS = (RefStatus.PENDING, RefStatus.PROCESSING)
GOOD_REFS = (RefStatus.DONE, RefStatus.SKIPPED)
ENDED_REFS = (*GOOD_REFS, RefStatus.ERROR)

FETCHING_QUEUE, REFS_QUEUE, PUBLISHING_QUEUE = "batch-fetching", "batch-refs", "batch-publishing"
REPORTS_QUEUE, COMPLETION_QUEUE = "batch-reports", "batch-completion"
WEBHOOKS_QUEUE = "webhooks"  #: of the delivery, which sends the callbacks


LONGEST_ID = 120  #: characters
#: Ids of batches and chunks: without a colon, so that the name of a chunk's work is unambiguous, and more than dots,
#: which are folders in URLs.
ID = r"\.*[A-Za-z0-9_-][A-Za-z0-9._-]*"


FETCHING: QueueStates = {
    "ready": {"phase": ChunkPhase.PENDING, "report": CallbackReport.DUE}, "running": {"phase": ChunkPhase.FETCHING},
    "done": {"phase": ChunkPhase.PROCESSING}, "failed": {"phase": ChunkPhase.ERROR},
}  # fmt: skip
#: A ref is claimed only after its file was loaded: `loaded` is part of the state.
REFS: QueueStates = {
    "ready": {"status": RefStatus.PENDING, "loaded": True}, "running": {"status": RefStatus.PROCESSING},
    "done": {"status": RefStatus.DONE}, "failed": {"status": RefStatus.ERROR},
}  # fmt: skip
PUBLISHING: QueueStates = {
    "ready": {"phase": ChunkPhase.PROCESSING, "report": CallbackReport.DUE},
    "running": {"phase": ChunkPhase.PUBLISHING},
    "done": {"phase": ChunkPhase.DONE, "report": CallbackReport.WRITTEN}, "failed": {"phase": ChunkPhase.ERROR},
}  # fmt: skip
#: A chunk that ended without its handler (a crash, no attempts left) is reported by a queue of its own.
REPORTS: QueueStates = {
    "ready": {"phase": ChunkPhase.ERROR, "report": CallbackReport.DUE}, "running": {"report": CallbackReport.RUNNING},
    "done": {"report": CallbackReport.WRITTEN}, "failed": {"report": CallbackReport.FAILED},
}  # fmt: skip
COMPLETION: QueueStates = {
    "ready": {"status": BatchStatus.PROCESSING}, "running": {"status": BatchStatus.COMPLETING},
    "done": {"status": BatchStatus.COMPLETE}, "failed": {"status": BatchStatus.INCOMPLETE},
}  # fmt: skip


def quote_list(statuses: tuple[StrEnum, ...]) -> str:
    """The statuses as a SQL list."""
    return ", ".join(f"'{status.value}'" for status in statuses)


#: The status of a ref `r` of a chunk `c`; as in the callback, what is not published when its chunk ends has failed.
REF_STATUS = f"""CASE WHEN c.phase IN ({quote_list(ENDED)})
  AND (r.status IN ({quote_list(OPEN_REFS)}) OR (r.status = '{RefStatus.DONE}' AND r.result_cid IS NULL))
  THEN '{RefStatus.ERROR}' ELSE r.status END"""

#: The code and parameters of the error of a chunk `c`: in its row since its end was reported, and with its last attempt
#: before.
REPORTED_CODE, REPORTED_PARAMS = (
    f"CASE WHEN c.phase = '{ChunkPhase.ERROR}' AND c.report = '{CallbackReport.WRITTEN}' THEN c.{column} END"
    for column in ("error_code", "error_params")
)


def is_id(text: str) -> bool:
    """Whether a text can be the id of a batch or a chunk."""
    return len(text) <= LONGEST_ID and re.fullmatch(ID, text) is not None


def work_name(batch_id: str, chunk_id: str) -> str:
    """The name of a chunk's work, which is its key: `ocr:{batch_id}:{chunk_id}`."""
    return f"ocr:{batch_id}:{chunk_id}"
