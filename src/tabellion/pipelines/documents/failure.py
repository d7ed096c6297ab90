"""A document's failure as a code, a message and what was tried; and the reasons that only make it wait."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence

from tabellion.engine.job import Job, storable
from tabellion.errors import ConfigurationError, Permanent, RateLimited
from tabellion.messages import Message, translatable
from tabellion.models.errors import BadOutput, KeyRefused, ModelError, Rejected, Unavailable
from tabellion.pipelines.documents.settings import Unknown
from tabellion.reading.errors import Unreadable
from tabellion.storage.blobs import BlobDamaged
from tabellion.storage.lake import LakeError

LONGEST = 2000  #: characters of a message; the column must hold the whole problem
LONGEST_WAIT = 600.0  #: seconds that a document waits at most between attempts when it is not at fault

#: Codes beside those of unreadable documents, and what they mean. Stable: people script against them.
CODES = {
    code: Message(f"failure.{code}")
    for code in (
        "model_rejected", "model_bad_output", "model_unavailable", "model_refused_key", "configuration",
        "outputs_failed", "file_unavailable", "file_damaged", "original_failed", "worker_crashed", "timed_out",
        "internal", "try_failed",
    )
}  # fmt: skip
_CODE_OF: tuple[tuple[type[BaseException], str], ...] = (
    (Rejected, "model_rejected"), (BadOutput, "model_bad_output"), (Unavailable, "model_unavailable"),
    (KeyRefused, "model_refused_key"), (ModelError, "model_unavailable"), (ConfigurationError, "configuration"),
    (Unknown, "configuration"), (BlobDamaged, "file_damaged"), (LakeError, "outputs_failed"),
    (OSError, "outputs_failed"),
)  # fmt: skip


class Postponed(RateLimited):
    """Nothing can be done for now, which is not the document's fault: it waits, longer each time, at no attempt."""

    def __init__(self, code: str, error: BaseException, job: Job, base: float, least: float = 0.0) -> None:
        after = max(min(base * 2.0 ** min(job.deferrals, 20), LONGEST_WAIT), least)
        # Spread out: what they wait for may be slow when it comes back.
        super().__init__(after * random.uniform(1.0, 1.25), Message(f"waiting.{code}", detail=error))  # noqa: S311 - spreading load


class Failed(Permanent):
    """A document has failed for good; the text is JSON, as the `error` column stores it."""

    def __init__(self, error: BaseException, attempts: int, tried: Sequence[str]) -> None:
        self.code = code_of(error)
        super().__init__(serialize_problem(self.code, str(error) or type(error).__name__, attempts, tried))


#: Message codes of attempts that the engine ended, and the code that documents have for them.
_ENDED_BY_ENGINE = {
    "attempt.timed_out": "timed_out", "attempt.timed_out_running": "timed_out", "attempt.quarantined": "worker_crashed",
    "attempt.crashed_last": "worker_crashed", "attempt.lease_lost": "worker_crashed",
    "attempt.lease_lost_note": "worker_crashed",
    "waiting.configuration": "configuration", "waiting.outputs_failed": "outputs_failed",
    "waiting.file_unavailable": "file_unavailable",
}  # fmt: skip


def describe_error(job: Job, error: str) -> str:
    """An attempt's error as the `error` column stores it; errors of `Failed` already have that form."""
    if not isinstance(error, Message):
        return error
    # An attempt that waited for too long has the code of what it waited for.
    cause = error.params["detail"] if error.code in ("attempt.deadline", "attempt.max_deferrals") else error
    return serialize_problem(_ENDED_BY_ENGINE.get(getattr(cause, "code", ""), "try_failed"), error, job.attempt)


def code_of(error: BaseException) -> str:
    """The code of the error that ended a document."""
    if isinstance(error, Unreadable):
        return error.code
    return next((code for kind, code in _CODE_OF if isinstance(error, kind)), "internal")


def serialize_problem(code: str, message: str, attempts: int, tried: Sequence[str] = ()) -> str:
    """A problem as the `error` column stores it."""
    problem = {"code": code, "message": storable(message)[:LONGEST], "attempts": attempts, "tried": list(tried)}
    return json.dumps(problem | translatable(message=message, tried=tried), ensure_ascii=False)
