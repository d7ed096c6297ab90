"""An outage of the lake costs time, but no document."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tabellion import Queue
from tabellion.engine.job import Job
from tabellion.pipelines.documents.outage import Outage
from tabellion.pipelines.documents.queues import documents_queue, documents_queues
from tabellion.pipelines.documents.settings import Settings
from tabellion.storage.lake import Lake, LakeError
from tests.pipelines.documents.papers import document, rows, submit_bills, write_type
from tests.waiting import eventually
from tests.workers import make_worker, working

QUEUE = Queue("tabellion_documents", ready="a", running="b", done="c", failed="d")


def job(token: str) -> Job:
    return Job(QUEUE, token, token, {}, n=1, token=token, attempt=1, worker="w")


def test_one_document_retries_while_the_others_wait() -> None:
    """One after each wait; its result holds for all, and one that never wrote leaves it to the next."""
    outage, first, second, third = Outage(3600.0), job("1"), job("2"), job("3")
    assert (outage.admits(first), outage.admits(second)) == (True, True)
    outage.record_failure(LakeError("away"), first)
    assert not outage.admits(third)
    assert 599 < outage.left <= 600
    quick = Outage(0.0)
    quick.record_failure(LakeError("away"), first)
    assert (quick.admits(second), quick.admits(third)) == (True, False)
    quick.end(third)
    assert not quick.admits(third)
    quick.end(second)
    assert (quick.admits(third), quick.admits(first)) == (True, False)
    quick.clear()
    assert (quick.admits(first), quick.admits(second)) == (True, True)


def test_waits_grow_with_each_attempt_not_each_document() -> None:
    """Twenty that were being read when it began are one failure."""
    outage = Outage(8.0)
    for number in range(20):
        outage.record_failure(LakeError("away"), job(str(number)))
    assert 7 < outage.left <= 8
    for wait in (16, 32, 64, 128, 256, 512, 600, 600):
        outage._until = 0.0
        assert outage.admits(job("probe"))
        outage.record_failure(LakeError("away"), job("probe"))
        assert wait - 1 < outage.left <= wait


def test_documents_survive_an_outage(url: str, settings: Settings, tmp_path: Path) -> None:
    """However many attempts it takes: they say what they wait for, spend no attempt, and are read afterwards."""
    (tmp_path / "store").touch()
    # A type with a single try: one that counted would be the end of it.
    write_type(settings, "slip", "processing: {retries: 0}\n")
    away = replace(settings, lake=Lake(tmp_path / "store" / "lake"), retry_base=0.02)
    submitted = submit_bills(url, away, 0, 1, 2, type="slip")
    with working(make_worker(url, *documents_queues(away))):
        eventually(lambda: (rows(url, "SELECT max(deferrals) AS n FROM tabellion_attempts")[0]["n"] or 0) > 4)
        found = eventually(lambda: [one for one in submitted if document(url, one.id)["error"]])
        waiting = document(url, found[0].id)
        assert waiting["status"] in ("queued", "processing")
        assert waiting["error"]["code"] == "outputs_failed"
        assert waiting["error"]["message"].startswith("outputs cannot be written at the moment: ")
        (tmp_path / "store").unlink()
        eventually(lambda: all(document(url, one.id)["status"] == "completed" for one in submitted))
    for one in submitted:
        found_now = document(url, one.id)
        assert (found_now["attempts"], found_now["error"]) == (1, None)
    assert {row["outcome"] for row in rows(url, "SELECT outcome FROM tabellion_attempts")} == {"limited", "done"}


def test_a_document_waits_for_days(settings: Settings) -> None:
    """Neither the number of waits nor their sum ends it before a week is over."""
    queue = documents_queue(settings)
    assert queue.deadline == 7 * 86_400
    assert queue.max_deferrals * 10 > queue.deadline
