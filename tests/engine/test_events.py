"""One frozen value per thing that happened."""

from __future__ import annotations

import asyncio
import dataclasses
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

from tabellion import Event, Job, Permanent, RateLimited
from tabellion.engine import controls
from tabellion.engine.events import NAMES, Listeners
from tabellion.engine.settlement import STATE_OF
from tests.owner import Owner, jobs_queue
from tests.waiting import eventually
from tests.working import Diary, ask, drain, laboring, make_worker, working


def test_an_event_cannot_be_changed() -> None:
    """An event is a fact."""
    event = Event("done", queue="tasks", key="1")
    with pytest.raises(dataclasses.FrozenInstanceError):
        event.name = "failed"  # type: ignore[misc]


def test_every_outcome_is_an_event() -> None:
    """Whatever can become of a job can be told."""
    assert {*STATE_OF, "superseded", "claimed", "lease_lost"} <= set(NAMES)


def test_everyone_is_told_in_order() -> None:
    """Each listener gets each event, in the order things happened."""
    heard: list[tuple[str, str]] = []
    listeners = Listeners((lambda event: heard.append(("one", event.name)),))
    listeners.add(lambda event: heard.append(("two", event.name)))
    listeners.tell(Event("claimed"))
    listeners.tell(Event("done"))
    assert heard == [("one", "claimed"), ("two", "claimed"), ("one", "done"), ("two", "done")]


def test_a_listener_that_raises_is_survived_and_reported() -> None:
    """A broken listener is the other listeners' news and nobody's end."""
    heard: list[Event] = []

    def broken(_event: Event) -> None:
        raise RuntimeError("no disk")

    Listeners((broken, heard.append, broken)).tell(Event("done", worker="w1"))
    assert [event.name for event in heard] == ["listener_failed", "done", "listener_failed"]
    assert heard[0].worker == "w1"
    assert "no disk" in (heard[0].error or "")


def test_events_that_nobody_hears_need_not_be_made() -> None:
    """A function hears everything; a listener may say what it wants."""
    assert not Listeners().wants("done", "jobs")
    assert Listeners((lambda _event: None,)).wants("done", "jobs")


RAN = 0.05  # seconds that the handlers below take before they end as they are told to


@pytest.mark.parametrize("ending", ["done", "failed", "retried", "limited", "timed_out"])
def test_an_ending_tells_how_long_its_handler_ran(url: str, owner: Owner, ending: str) -> None:
    """`seconds` is the handler's time, `due_in` the time until the next try, where there is one."""
    owner.insert(1)
    diary = Diary()
    queue = jobs_queue(retry_base=0.2, timeout=0.3 if ending == "timed_out" else None)

    @queue.handler
    async def work(job: Job) -> None:
        await asyncio.sleep(RAN)
        if job.n > 1:
            return
        if ending == "failed":
            raise Permanent("no")
        if ending == "retried":
            raise OSError("once")
        if ending == "limited":
            raise RateLimited(after=0.2)
        if ending == "timed_out":
            await asyncio.sleep(60)

    drain(make_worker(url, queue, listeners=[diary]))
    first = diary.of(ending)[0]
    assert first.seconds is not None
    assert first.seconds >= RAN * 0.9
    assert (first.due_in is not None) == (ending in ("retried", "limited"))
    assert first.due_in is None or 0.1 < first.due_in < 1
    assert all(event.seconds is not None for event in diary.of("done"))


@pytest.mark.parametrize("how", ["cancelled", "superseded"])
def test_a_claim_that_people_ended_tells_so_and_how_long_it_ran(url: str, owner: Owner, often: None, how: str) -> None:
    """A person's cancel and an owner's edit are told by their names, not as a lost lease."""
    owner.insert(1)
    diary = Diary()
    queue = jobs_queue(lease=0.6)
    started = threading.Event()

    @queue.handler
    async def work(job: Job) -> None:
        started.set()
        await asyncio.sleep(60)

    with working(make_worker(url, queue, listeners=[diary])):
        started.wait(20)
        if how == "cancelled":
            ask(url, lambda store: controls.cancel(store, queue, 1, "not needed"))
        else:
            owner("UPDATE jobs SET status = 'done' WHERE id = 1")
        [event] = eventually(lambda: diary.of(how))
    assert (event.seconds or 0) > 0
    assert event.error == ("not needed" if how == "cancelled" else None)
    assert "lease_lost" not in diary.names


@pytest.mark.parametrize("stubborn", [False, True])
def test_a_stopped_worker_tells_how_long_the_released_ran(url: str, owner: Owner, stubborn: bool) -> None:
    """A job that goes back when the grace time is over was worked on for so long, whether or not it would stop."""
    owner.insert(1)
    diary = Diary()
    queue = jobs_queue()
    begun, free = threading.Event(), threading.Event()

    def stay(job: Job) -> None:
        begun.set()
        free.wait(30)

    async def work(job: Job) -> None:
        begun.set()
        await asyncio.sleep(60)

    if stubborn:
        queue.handler(stay)
    else:
        queue.handler(work)
    try:
        with working(make_worker(url, queue, grace=RAN, listeners=[diary])):
            begun.wait(20)
    finally:
        free.set()
    [event] = diary.of("released")
    assert (event.seconds or 0) >= RAN * 0.9


def test_a_crash_tells_how_long_ago_its_claim_was(url: str, owner: Owner, often: None, tmp_path: Path) -> None:
    """What a sweep ends ran from its claim until now, as far as anybody knows; the second crash in a row too."""
    owner.insert(1)
    diary = Diary()
    queue = jobs_queue(lease=0.5)
    queue.handler(_nothing)
    for ending in ("crashed", "quarantined"):
        with laboring(url, tmp_path, seconds=60, lease=0.5) as killed:
            killed.await_start(1)
            killed.send(signal.SIGKILL)
            killed.wait()
        ask(url, lambda store: controls.pause(store, queue))
        with working(make_worker(url, queue, listeners=[diary])):
            [event] = eventually(lambda ending=ending: diary.of(ending))  # type: ignore[misc]
        ask(url, lambda store: controls.resume(store, queue))
        assert event.seconds is not None
        assert event.seconds >= 0.5


async def _nothing(job: Job) -> dict[str, Any]:
    """A handler that is content with everything."""
    return {}
