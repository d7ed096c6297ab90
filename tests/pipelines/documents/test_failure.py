"""A failure is a code, a sentence and what was tried."""

from __future__ import annotations

import json

import pytest

from tabellion import Job, Queue
from tabellion.engine.worker.runner import defer_or_fail
from tabellion.errors import ConfigurationError
from tabellion.messages import Message, domain
from tabellion.models.errors import BadOutput, KeyRefused, Rejected, Throttled, Unavailable
from tabellion.pipelines.documents.failure import CODES, LONGEST, Failed, Postponed, code_of, describe_error
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
    failed = Failed(ValueError("a\x00b\ud800" + "x" * 10_000), 4, ["read locally"])
    found = json.loads(str(failed))
    assert found == problem(str(failed))
    assert (found["code"], found["attempts"], found["tried"]) == ("internal", 4, ["read locally"])
    assert found["message"].startswith("a\\x00b\\ud800")
    assert len(found["message"]) == LONGEST
    assert json.loads(str(Failed(ZeroDivisionError(), 1, [])))["message"] == "ZeroDivisionError"


@pytest.mark.parametrize(
    ("message", "code"),
    [
        (Message("attempt.timed_out", n=5), "timed_out"),
        (Message("attempt.timed_out_running", n=5), "timed_out"),
        (Message("attempt.crashed_last", n=4, detail="x"), "worker_crashed"),
        (Message("attempt.lease_lost_note", worker="w", how="x", since="y", note="z"), "worker_crashed"),
        (Message("attempt.none_left", n=5), "try_failed"),
        (Message("attempt.deadline", detail=Message("waiting.configuration", detail="x"), n=60), "configuration"),
        (Message("attempt.deadline", detail="rate limited", n=60), "try_failed"),
        (Message("attempt.max_deferrals", detail=Message("waiting.outputs_failed", detail="x"), n=9), "outputs_failed"),
        (Message("attempt.quarantined", n=2, detail="x"), "worker_crashed"),
        (Message("attempt.lease_lost", worker="w", how="x", since="y"), "worker_crashed"),
        (Message("waiting.outputs_failed", detail="full"), "outputs_failed"),
        (Message("attempt.raised", error="ValueError", detail="x", place=""), "try_failed"),
        (Message("attempt.result_invalid", kind="list"), "try_failed"),
        (Message("attempt.result_running", state="status = 2"), "try_failed"),
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


def test_the_code_of_every_ending_of_the_engine_is_tested() -> None:
    """A message of the engine that a document can end with has a case above; the others are parts of messages."""
    cases = test_engine_errors_get_their_code_from_the_message.pytestmark[0].args[1]  # type: ignore[attr-defined]
    parts = {"attempt.lease_not_renewed", "attempt.no_message", "attempt.rate_limited", "attempt.worker_on"}
    known = {code for code in domain("en", "messages") if code.startswith("attempt.")}
    assert known - {message.code for message, _ in cases} == parts


def test_a_job_that_waited_too_long_has_the_code_of_what_it_waited_for() -> None:
    """The engine wraps the reason in its own message."""
    job = Job(Queue("t", ready=1, running=2, done=3, failed=4, deadline=60.0), 1, "1", {}, n=1, token="", attempt=1,
              worker="w")  # fmt: skip
    job.age = 61.0
    settlement = defer_or_fail(job, Postponed("outputs_failed", LakeError("full"), job, 1.0), 0.0)
    assert settlement.error is not None
    found = problem(describe_error(job, settlement.error))
    assert found is not None
    assert (found["code"], settlement.outcome) == ("outputs_failed", "failed")
