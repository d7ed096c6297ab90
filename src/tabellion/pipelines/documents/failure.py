"""How a document's failure is told: a code, a sentence, and what was tried; and what only makes it wait."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence

from tabellion.engine.job import Job, storable
from tabellion.errors import ConfigurationError, Permanent, RateLimited
from tabellion.models.errors import BadOutput, KeyRefused, ModelError, Rejected, Unavailable
from tabellion.pipelines.documents.settings import Unknown
from tabellion.reading.errors import Unreadable
from tabellion.storage.lake import LakeError

LONGEST = 2000  #: characters of a message; the column must hold the whole problem
LONGEST_WAIT = 600.0  #: seconds that a document waits at most before it is tried again, where it is not to blame
#: How the errors begin of documents that wait without being to blame, by their codes.
WAITING = {
    "configuration": "its document type cannot be used for now",
    "outputs_failed": "outputs cannot be written for now",
}

#: Codes beside those of unreadable documents, and what they mean. Stable: people script against them.
CODES = {
    "model_rejected": "the model will never answer this: it is blocked, too long, or not what the model takes",
    "model_bad_output": "the model answered, and no answer could be used",
    "model_unavailable": "the model, or the way to it, was in trouble each time",
    "model_refused_key": "the model does not accept the key",
    "configuration": "a document type or a model is not as it should be",
    "outputs_failed": "the outputs could not be written",
    "original_failed": "it is the duplicate of a document that failed",
    "worker_crashed": "the worker died over it, more than once",
    "timed_out": "it took longer than it may",
    "internal": "something went wrong that should not",
    "try_failed": "the last try failed; another one is due",
}
_CODE_OF: tuple[tuple[type[BaseException], str], ...] = (
    (Rejected, "model_rejected"), (BadOutput, "model_bad_output"), (Unavailable, "model_unavailable"),
    (KeyRefused, "model_refused_key"), (ModelError, "model_unavailable"), (ConfigurationError, "configuration"),
    (Unknown, "configuration"), (LakeError, "outputs_failed"), (OSError, "outputs_failed"),
)  # fmt: skip


class Postponed(RateLimited):
    """The document is not to blame, and nothing can be done for now: it waits, longer each time, at no attempt."""

    def __init__(self, code: str, error: BaseException, job: Job, base: float, least: float = 0.0) -> None:
        after = max(min(base * 2.0 ** min(job.deferrals, 20), LONGEST_WAIT), least)
        # Not all at once: what they wait for may be slow to come back.
        super().__init__(after * random.uniform(1.0, 1.25), f"{WAITING[code]}: {error}")  # noqa: S311 - spreading load


class Failed(Permanent):
    """A document that ends here; its words are JSON, as the `error` column keeps them."""

    def __init__(self, error: BaseException, attempts: int, tried: Sequence[str]) -> None:
        self.code = code_of(error)
        super().__init__(written(self.code, str(error) or type(error).__name__, attempts, tried))


def code_of(error: BaseException) -> str:
    """The code of what ended a document."""
    if isinstance(error, Unreadable):
        return error.code
    return next((code for kind, code in _CODE_OF if isinstance(error, kind)), "internal")


def written(code: str, message: str, attempts: int, tried: Sequence[str] = ()) -> str:
    """A problem as the `error` column keeps it."""
    told = {"code": code, "message": storable(message)[:LONGEST], "attempts": attempts, "tried": list(tried)}
    return json.dumps(told, ensure_ascii=False)
