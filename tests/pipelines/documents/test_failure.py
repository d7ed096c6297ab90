"""A failure is a code, a sentence and what was tried."""

from __future__ import annotations

import json

import pytest

from tabellion import Job, Queue
from tabellion.errors import ConfigurationError
from tabellion.messages import Message
from tabellion.models.errors import BadOutput, KeyRefused, Rejected, Throttled, Unavailable
from tabellion.pipelines.documents.failure import CODES, LONGEST, Failed, code_of, describe_error
from tabellion.pipelines.documents.lookup import problem
from tabellion.pipelines.documents.settings import Unknown
from tabellion.reading import errors
from tabellion.storage.lake import LakeError


@pytest.mark.parametrize(
    ("error", "code"),
    [(errors.Unreadable("pdf_empty"), "pdf_empty"), (Rejected("no"), "model_rejected"),
     (BadOutput("x", "json"), "model_bad_output"), (Unavailable("503"), "model_unavailable"),
     (KeyRefused("401"), "model_refused_key"), (Throttled("429"), "model_unavailable"),
     (ConfigurationError("x"), "configuration"), (Unknown("type", "x", []), "configuration"),
     (LakeError("x"), "outputs_failed"), (OSError(28, "full"), "outputs_failed"), (ZeroDivisionError(), "internal")],
)  # fmt: skip
def test_every_error_has_a_listed_code(error: Exception, code: str) -> None:
    """Those of unreadable documents are the reader's."""
    assert code_of(error) == code
    assert code in CODES or code in errors.CODES


def test_the_column_holds_valid_json() -> None:
    """Complete, whatever the message, and within the column's limit."""
    failed = Failed(ValueError("a\x00b\ud800" + "x" * 10_000), 4, ["read here"])
    found = json.loads(str(failed))
    assert found == problem(str(failed))
    assert (found["code"], found["attempts"], found["tried"]) == ("internal", 4, ["read here"])
    assert found["message"].startswith("a\\x00b\\ud800")
    assert len(found["message"]) == LONGEST
    assert json.loads(str(Failed(ZeroDivisionError(), 1, [])))["message"] == "ZeroDivisionError"


@pytest.mark.parametrize(
    ("message", "code"),
    [
        (Message("attempt.timed_out", n=5), "timed_out"),
        (Message("attempt.quarantined", n=2, detail="x"), "worker_crashed"),
        (Message("attempt.lease_lost", worker="w", how="x", since="y"), "worker_crashed"),
        (Message("waiting.outputs_failed", detail="full"), "outputs_failed"),
        (Message("attempt.raised", error="ValueError", detail="x", place=""), "try_failed"),
    ],
)  # fmt: skip
def test_engine_errors_get_their_code_from_the_message(message: Message, code: str) -> None:
    """Not from how the sentence begins; it can be translated."""
    job = Job(Queue("t", ready=1, running=2, done=3, failed=4), 1, "1", {}, n=1, token="", attempt=3, worker="w")
    found = problem(describe_error(job, message))
    assert found is not None
    assert (found["code"], found["message"], found["attempts"]) == (code, str.__str__(message), 3)
    assert found["translatable"]["message"] == message.form
    assert describe_error(job, "plain") == "plain"
