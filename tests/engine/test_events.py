"""One frozen value per event."""

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
from tests.table_owner import Owner, jobs_queue
from tests.waiting import eventually
from tests.workers import EventRecorder, ask, drain, make_worker, worker_process, working


def test_an_event_cannot_be_changed() -> None:
    """Assigning to a field raises."""
    event = Event("done", queue="tasks", key="1")
    with pytest.raises(dataclasses.FrozenInstanceError):
        event.name = "failed"  # type: ignore[misc]


def test_every_outcome_is_an_event() -> None:
    """Whatever happens to a job has an event."""
    assert {*STATE_OF, "superseded", "claimed", "lease_lost"} <= set(NAMES)


def test_listeners_are_called_in_order() -> None:
    """Each listener gets each event, in the order they happened."""
    received: list[tuple[str, str]] = []
    listeners = Listeners((lambda event: received.append(("one", event.name)),))
    listeners.add(lambda event: received.append(("two", event.name)))
    listeners.emit(Event("claimed"))
    listeners.emit(Event("done"))
    assert received == [("one", "claimed"), ("two", "claimed"), ("one", "done"), ("two", "done")]


def test_a_listener_that_raises_is_reported_and_harmless() -> None:
    """A failing listener is reported to the other listeners and stops nothing."""
    events: list[Event] = []

    def broken(_event: Event) -> None:
        raise RuntimeError("no disk")

    Listeners((broken, events.append, broken)).emit(Event("done", worker="w1"))
    assert [event.name for event in events] == ["listener_failed", "done", "listener_failed"]
    assert events[0].worker == "w1"
    assert "no disk" in (events[0].error or "")


def test_events_without_a_listener_need_not_be_created() -> None:
    """A function receives every event; a listener may say which ones it wants."""
    assert not Listeners().wants("done", "jobs")
    assert Listeners((lambda _event: None,)).wants("done", "jobs")


RAN = 0.05  # seconds that the handlers below run before they end


@pytest.mark.parametrize("ending", ["done", "failed", "retried", "limited", "timed_out"])
def test_an_ending_reports_how_long_its_handler_ran(url: str, owner: Owner, ending: str) -> None:
    """`seconds` is the handler's time, `due_in` the time until the next attempt, where there is one."""
    owner.insert(1)
    recorder = EventRecorder()
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

    drain(make_worker(url, queue, listeners=[recorder]))
    first = recorder.of(ending)[0]
    assert first.seconds is not None
    assert first.seconds >= RAN * 0.9
    assert (first.due_in is not None) == (ending in ("retried", "limited"))
    assert first.due_in is None or 0.1 < first.due_in < 1
    assert all(event.seconds is not None for event in recorder.of("done"))


@pytest.mark.parametrize("how", ["cancelled", "superseded"])
def test_a_claim_ended_by_a_person_is_reported_as_such_with_its_duration(
    url: str, owner: Owner, often: None, how: str
) -> None:
    """A cancel and an edit by the owner are reported by name, not as a lost lease."""
    owner.insert(1)
    recorder = EventRecorder()
    queue = jobs_queue(lease=3.0)
    started = threading.Event()

    @queue.handler
    async def work(job: Job) -> None:
        started.set()
        await asyncio.sleep(60)

    with working(make_worker(url, queue, listeners=[recorder])):
        started.wait(20)
        if how == "cancelled":
            ask(url, lambda store: controls.cancel(store, queue, 1, "not needed"))
        else:
            owner("UPDATE jobs SET status = 'done' WHERE id = 1")
        [event] = eventually(lambda: recorder.of(how))
    assert (event.seconds or 0) > 0
    assert event.error == ("not needed" if how == "cancelled" else None)
    assert "lease_lost" not in recorder.names


@pytest.mark.parametrize("stubborn", [False, True])
def test_a_stopped_worker_reports_how_long_released_jobs_ran(url: str, owner: Owner, stubborn: bool) -> None:
    """A job released after the grace time reports its duration, whether or not its handler stopped."""
    owner.insert(1)
    recorder = EventRecorder()
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
        with working(make_worker(url, queue, grace=RAN, listeners=[recorder])):
            begun.wait(20)
    finally:
        free.set()
    [event] = recorder.of("released")
    assert (event.seconds or 0) >= RAN * 0.9


def test_a_crash_reports_the_age_of_its_claim(url: str, owner: Owner, often: None, tmp_path: Path) -> None:
    """A job ended by a sweep is taken to have run from its claim until now; so is the second crash in a row."""
    owner.insert(1)
    recorder = EventRecorder()
    queue = jobs_queue(lease=2.0)
    queue.handler(_nothing)
    for ending in ("crashed", "quarantined"):
        with worker_process(url, tmp_path, seconds=60, lease=2.0) as killed:
            killed.await_start(1)
            killed.send(signal.SIGKILL)
            killed.wait()
        ask(url, lambda store: controls.pause(store, queue))
        with working(make_worker(url, queue, listeners=[recorder])):
            [event] = eventually(lambda ending=ending: recorder.of(ending))  # type: ignore[misc]
        ask(url, lambda store: controls.resume(store, queue))
        assert event.seconds is not None
        assert event.seconds >= 2.0


async def _nothing(job: Job) -> dict[str, Any]:
    """A handler that does nothing."""
    return {}


class Counter:
    """Counts jobs, and is broken if told so."""

    def __init__(self, *, broken: bool = False) -> None:
        self.claimed: list[tuple[str, str, int]] = []
        self.ended: list[tuple[Any, ...]] = []
        self._broken = broken

    def wants(self, name: str, queue: str) -> bool:
        """No event."""
        return False

    def __call__(self, event: Event) -> None:
        """Ignore it."""

    def count_claimed(self, environment: str, queue: str, count: int, seconds: float) -> None:
        """Note a claim."""
        if self._broken:
            raise RuntimeError("no disk")
        assert seconds >= 0
        self.claimed.append((environment, queue, count))

    def count_ended(self, *facts: Any) -> None:
        """Note an end."""
        if self._broken:
            raise RuntimeError("no disk")
        self.ended.append(facts)


def test_a_counter_counts_jobs_without_events(owner: Owner) -> None:
    """Claims by the batch, ends with outcome, times and cost; a counter that raises is reported and stops nothing."""
    queue = jobs_queue(max_attempts=1)

    @queue.handler
    async def work(job: Job) -> None:
        job.cost = 0.5
        if job.key == 2:
            raise Permanent("bad")

    owner.insert(1, 2, 3)
    recorder, counter = EventRecorder(), Counter()
    drain(make_worker(owner.url, queue, listeners=[Counter(broken=True), counter, recorder]))
    assert sum(count for _, _, count in counter.claimed) == 3
    assert {(place, name) for place, name, _ in counter.claimed} == {("prod", queue.name)}
    assert sorted(facts[2] for facts in counter.ended) == ["done", "done", "failed"]
    for _, _, _, seconds, settle_seconds, cost in counter.ended:
        assert seconds >= 0
        assert settle_seconds >= 0
        assert cost == 0.5
    assert recorder.of("listener_failed")
    assert {event.cost for event in recorder.of("done")} == {0.5}
    assert all((event.settle_seconds or 0) > 0 for event in recorder.of("done"))
    assert all((event.seconds or 0) > 0 for event in recorder.of("claimed"))
