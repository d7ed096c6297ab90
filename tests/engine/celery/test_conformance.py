"""The same flows on the embedded worker and on Celery with each broker: what a queue promises, every engine keeps."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from tabellion import Store
from tabellion.engine import controls
from tests.browser import chromium
from tests.engine.celery.declared import PACE, paused
from tests.engine.celery.fleets import PROCESSES, Fleet
from tests.waiting import eventually
from tests.workers import ask

pytestmark = pytest.mark.timeout(180)
COUNTS = {
    "plain": 40, "threaded": 40, "in_order": 8, "paced": 6, "stages": 5, "slow": 1, "attached": 1, "reading": 1,
    "browsing": 1,
}  # fmt: skip


@pytest.fixture(scope="module")
def rows(fleet: Fleet) -> dict[str, list[int]]:
    """Rows of all flows that can run at the same time, by flow or by their input."""
    inserted = {flow: fleet.insert(flow, count) for flow, count in COUNTS.items()}
    inserted |= {given: fleet.insert("endings", given=given) for given in ("permanent", "error", "limited")}
    [outage] = inserted["outage"] = fleet.insert("gated", given="outage")
    eventually(lambda: fleet.attempts(outage))
    inserted["gated"] = fleet.insert("gated", 5)
    return inserted


@pytest.mark.parametrize("flow", ["plain", "threaded"])
def test_every_row_is_done_once(fleet: Fleet, rows: dict[str, list[int]], flow: str) -> None:
    """Handlers of either kind run once per row, and their results are written."""
    for key in rows[flow]:
        row = fleet.await_status(key, "done")
        [attempt] = fleet.attempts(key)
        assert row["result"] == f"{key}:1:{row['worker']}"
        assert (attempt["outcome"], attempt["worker"]) == ("done", row["worker"])


def test_exceptions_decide_what_follows(fleet: Fleet, rows: dict[str, list[int]]) -> None:
    """Permanent fails, another exception is retried and charged, a rate limit is deferred and not charged."""
    assert "told to fail" in fleet.await_status(rows["permanent"][0], "failed")["error"]
    assert fleet.await_status(rows["error"][0], "done")["result"] == "attempt 2"
    assert fleet.await_status(rows["limited"][0], "done")["result"] == "attempt 1"
    assert [attempt["outcome"] for attempt in fleet.attempts(rows["limited"][0])] == ["limited", "done"]


def test_order_and_limit_hold_in_the_whole_fleet(fleet: Fleet, rows: dict[str, list[int]]) -> None:
    """With a limit of one, rows run one after the other, in the declared order: here the newest first."""
    attempts = []
    for key in reversed(rows["in_order"]):
        fleet.await_status(key, "done")
        attempts += fleet.attempts(key)
    assert attempts == sorted(attempts, key=lambda attempt: float(attempt["claimed_at"]))
    for before, after in itertools.pairwise(attempts):
        assert before["settled_at"] <= after["claimed_at"] + 0.001


def test_a_pace_holds_in_every_process(fleet: Fleet, rows: dict[str, list[int]]) -> None:
    """One process starts no more jobs in a second than its queue's pace allows."""
    for key in rows["paced"]:
        fleet.await_status(key, "done")
    most, seconds = PACE
    started = [(attempt["worker"], attempt["claimed_at"]) for key in rows["paced"] for attempt in fleet.attempts(key)]
    for worker in {worker for worker, _ in started}:
        times = sorted(at for one, at in started if one == worker)
        for early, late in zip(times, times[most:], strict=False):
            assert late - early >= seconds * 0.9


def test_a_closed_gate_burns_no_attempts(fleet: Fleet, rows: dict[str, list[int]]) -> None:
    """While the upstream is down, rows of queues that use it wait without being charged, and are done afterwards."""
    assert fleet.await_status(rows["outage"][0], "done")["result"] == "attempt 2"
    for key in rows["gated"]:
        assert fleet.await_status(key, "done")["result"] == "attempt 1"


def test_one_stage_leads_to_the_next(fleet: Fleet, rows: dict[str, list[int]]) -> None:
    """A row that one queue has done is claimed by the queue whose ready state that is."""
    for key in rows["stages"]:
        fleet.await_status(key, "done")
        # A job beside one that kills their process is charged a crash, whatever its stage.
        ended = [attempt["queue"] for attempt in fleet.attempts(key) if attempt["outcome"] != "crashed"]
        assert ended == ["first", "second"]


def test_a_timeout_stops_a_handler(fleet: Fleet, rows: dict[str, list[int]]) -> None:
    """A handler past its timeout is stopped, retried, and failed when no attempt is left."""
    [key] = rows["slow"]
    fleet.await_status(key, "failed")
    assert [attempt["outcome"] for attempt in fleet.attempts(key)] == ["retried", "failed"]


def test_a_job_has_its_folder_note_cost_and_statements(fleet: Fleet, rows: dict[str, list[int]]) -> None:
    """What a handler attaches to its job commits with its result."""
    [key] = rows["attached"]
    assert fleet.await_status(key, "done")["result"] == "content"
    [attempt] = fleet.attempts(key)
    assert (attempt["note"], attempt["cost"]) == ("page 1 of 2", 0.25)
    assert len(fleet.owner("SELECT 1 FROM notes WHERE flow_id = $1", key)) == 1


def test_a_document_is_read_in_a_child_process(fleet: Fleet, rows: dict[str, list[int]]) -> None:
    """A handler can start the killable children that read documents, also in a daemonic process."""
    assert fleet.await_status(rows["reading"][0], "done", within=90)["result"] == "695.94"


@pytest.mark.skipif(chromium.find() is None, reason="no Chromium on this machine")
def test_a_page_is_opened_in_a_browser(fleet: Fleet, rows: dict[str, list[int]]) -> None:
    """A handler can start a browser, also in a daemonic process."""
    assert fleet.await_status(rows["browsing"][0], "done", within=90)["result"] == "hello"


def test_a_paid_answer_is_remembered(fleet: Fleet) -> None:
    """The second request for the same answer gets the first one's."""
    [first] = fleet.insert("memo", given="the same request")
    fleet.await_status(first, "done")
    [second] = fleet.insert("memo", given="the same request")
    assert fleet.await_status(second, "done")["result"] == f"answer of {first}"


def test_a_backlog_does_not_starve_later_queues(fleet: Fleet, tmp_path: Path) -> None:
    """While every process works on an earlier queue with more rows than it can run, a later one gets the free slots."""
    held = fleet.insert("hogging", 50, given=str(tmp_path / "go"))
    hogs = "SELECT id FROM flows WHERE flow = 'hogging' AND status = 'running'"
    eventually(lambda: len(fleet.owner(hogs)) == PROCESSES)
    for key in fleet.insert("plain", 3):
        fleet.await_status(key, "done")
    assert len(fleet.owner(hogs)) == PROCESSES
    (tmp_path / "go").touch()
    for key in held:
        fleet.await_status(key, "done")


def test_a_paused_queue_waits(fleet: Fleet) -> None:
    """No row of a paused queue is claimed, the others continue; after it is resumed its rows are."""

    async def pause(store: Store) -> None:
        await controls.pause(store, paused, "for a test")

    async def resume(store: Store) -> None:
        await controls.resume(store, paused)

    ask(fleet.url, pause)
    [held] = fleet.insert("paused")
    for key in fleet.insert("plain", 3):
        fleet.await_status(key, "done")
    assert fleet.row(held)["status"] == "new"
    assert fleet.attempts(held) == []
    ask(fleet.url, resume)
    fleet.await_status(held, "done")


def test_a_blocked_loop_keeps_its_lease(fleet: Fleet) -> None:
    """A handler that blocks the event loop for longer than its lease is renewed from outside it."""
    [key] = fleet.insert("blocking")
    assert fleet.await_status(key, "done")["result"] == "attempt 1"


def test_a_killed_process_loses_nothing(fleet: Fleet) -> None:
    """A job whose process is killed is charged and run again, without waiting for its lease of ten seconds."""
    [key] = fleet.insert("crashing")
    assert fleet.await_status(key, "done")["result"] == "attempt 2"
    crashed, done = fleet.attempts(key)
    assert (crashed["outcome"], done["outcome"]) == ("crashed", "done")
    assert crashed["settled_at"] - crashed["claimed_at"] < 10.0


def test_stopping_releases_jobs_without_a_charge(fleet: Fleet, tmp_path: Path) -> None:
    """SIGTERM: what has not ended within the grace time is released, and the next node runs it as its first attempt."""
    [key] = fleet.insert("waiting", given=str(tmp_path / "go"))
    fleet.await_status(key, "running")
    fleet.process.terminate()
    assert fleet.process.wait(60) == 0
    assert fleet.row(key)["status"] == "new"
    assert [attempt["outcome"] for attempt in fleet.attempts(key, released=True)] == ["released"]
    (tmp_path / "go").touch()
    fleet.process = fleet.start()
    assert fleet.await_status(key, "done")["result"] == "attempt 1"
    alive = "SELECT id FROM tabellion_workers WHERE stopped_at IS NULL"
    eventually(lambda: len(fleet.owner(alive)) == PROCESSES)
