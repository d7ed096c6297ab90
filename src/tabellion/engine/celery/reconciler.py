"""Sends hints for due rows that nobody has claimed: when a database says that there are new rows, and every second."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from tabellion.engine.celery.broker import Broker, BrokerUnreachable
from tabellion.engine.celery.due_rows import count_running, find_due_keys
from tabellion.engine.events import Event
from tabellion.engine.worker import heartbeat
from tabellion.engine.worker.dispatcher import Dispatcher
from tabellion.engine.worker.environment import WorkerEnvironment
from tabellion.engine.worker.polling import Poller
from tabellion.engine.worker.slots import Lane
from tabellion.engine.worker.worker import Worker
from tabellion.errors import DeclarationError, StoreError

ROWS = 10  # due rows that one hint stands for, where the queue may run so many at once
MOST = 100  # hints of one queue that may wait at the broker
PAUSE = 0.02  # seconds between two looks: many notifications, one look
ANYWAY = 1.0  # seconds after which a lane with due rows gets a hint although hints of other nodes wait in its queue
LONGEST_PAUSE = 5.0  # seconds between two hints for a row that nobody claims, because of its gate or its pace
REMIND = 60.0  # seconds after which a broker that is still unreachable is reported again

T = TypeVar("T")


class Reconciler(Worker):
    """A worker without slots: it claims nothing, and tells the others through the broker what there is to claim.

    Every node has one, and none of them leads: they see the same rows and the same number of waiting hints. One hint
    too many finds nothing to claim; one too few is sent a second later.
    """

    def __init__(
        self, *arguments: Any, broker: Broker, node: str, capacity: int,
        lanes: Collection[tuple[str, str]] | None = None, **options: Any,
    ) -> None:  # fmt: skip
        """`node` begins the ids of the workers of this node; `capacity` is how many jobs one of them runs at once;
        `lanes` are the environments with the queues that it consumes, by default all."""
        super().__init__(*arguments, id=f"hints-{node}", concurrency=capacity, **options)
        self._broker = broker
        self._node = node
        self._consumed = lanes
        self.record.slots = 0

    def _make_poller(self, dispatcher: Dispatcher) -> Poller:
        return HintSender(self, dispatcher, self._broker, self._node, self._consumed)

    def _describe_plan(self) -> str:
        queues, places = (", ".join(one.name for one in some) for some in (self.queues, self.environments))
        return f"sends hints for {queues} in {places} through {self._broker.address}"


class HintSender(Poller):
    """The loop of a poller that sends hints where another one would claim."""

    def __init__(
        self, worker: Reconciler, dispatcher: Dispatcher, broker: Broker, node: str,
        consumed: Collection[tuple[str, str]] | None,
    ) -> None:  # fmt: skip
        super().__init__(worker.poll, dispatcher)
        self._worker = worker
        self._broker = broker
        self._node = node
        self._consumed = consumed
        self._thread = ThreadPoolExecutor(1, "broker")  #: kombu's calls block
        self._rounds: dict[WorkerEnvironment, asyncio.Task[None]] = {}
        self._sent_at: dict[Lane, float] = {}
        self._refused: dict[Lane, tuple[str, float]] = {}  #: the row of the last hint, and the pause before the next
        self._down_since: float | None = None
        self._reported_at = 0.0

    async def run(self) -> None:
        """Sends hints until stopped."""
        try:
            await super().run()
        finally:
            for task in self._rounds.values():
                task.cancel()
            await asyncio.gather(*self._rounds.values(), return_exceptions=True)
            self._thread.submit(self._broker.close)
            self._thread.shutdown(wait=False)

    async def _gather(self) -> None:
        await asyncio.sleep(PAUSE)

    def _could_claim(self) -> bool:
        return False  # the bell or the clock begins the next round

    async def _round(self) -> None:
        """Begins a look at every database; one that does not answer delays only its own."""
        for environment in {lane.environment for lane in self._slots.lanes}:
            before = self._rounds.get(environment)
            if environment.up and (before is None or before.done()):
                lanes = [
                    lane
                    for lane in self._slots.lanes
                    if lane.environment is environment and lane.more and self._consumes(lane)
                ]
                self._rounds[environment] = asyncio.create_task(self._look(environment, lanes))
        if self._rounds:
            await asyncio.wait(self._rounds.values(), timeout=self._poll)

    async def _look(self, environment: WorkerEnvironment, lanes: Sequence[Lane]) -> None:
        try:
            await self._end_leases(environment)
            for lane in lanes:
                if lane.is_open and not self.stopping:
                    lane.more = False
                    await self._send_hints(lane)
        except BrokerUnreachable as error:
            self._on_broker_down(error)
        except DeclarationError:
            pass  # the queue does not fit its table any more, which the worker reports
        except StoreError as error:
            environment.mark_unreachable(error)

    async def _send_hints(self, lane: Lane) -> None:
        """Sends as many hints as there are due rows for, without those that wait already."""
        environment, name = lane.environment.name, lane.queue.name
        waiting = await self._in_thread(lambda: self._broker.count_waiting(environment, name))
        self._on_broker_up()
        is_overdue = time.monotonic() - self._sent_at.get(lane, 0.0) >= ANYWAY
        if waiting >= MOST * 2 or (waiting >= MOST // 2 and not is_overdue):
            return
        if lane.gate is not None or lane.pace is not None:
            await self._send_one(lane, waiting)
            return
        rows_per_hint = min(ROWS, self._slots.startable(lane)) or 1
        keys = await self._find_claimable(lane, MOST * rows_per_hint)
        hints = keys[::rows_per_hint]
        missing = hints[waiting:] or (hints[:1] if is_overdue else [])
        await self._send(lane, missing)

    async def _send_one(self, lane: Lane, waiting: int) -> None:
        """Sends a hint for a queue with a gate or a pace, unless one waits or its rows could not be claimed anyway.

        More processes would not make the gate admit more; and a hint that finds it closed, or the pace used up, only
        occupies a process for a moment. So the pauses become longer while the same row stays unclaimed.
        """
        if waiting:
            return
        if lane.gate is not None and await lane.gate.is_closed_for_all():
            self._refused.pop(lane, None)  # the first look that finds it open sends a hint at once
            return
        keys = await self._find_claimable(lane, 1)
        row, pause = self._refused.get(lane, ("", 0.0))
        is_same = keys == [row]
        if is_same and time.monotonic() - self._sent_at.get(lane, 0.0) < pause:
            return
        if keys:
            self._refused[lane] = keys[0], min(pause * 2, LONGEST_PAUSE) if is_same else ANYWAY
            await self._send(lane, keys)

    async def _send(self, lane: Lane, keys: Sequence[str]) -> None:
        if keys:
            environment, name = lane.environment.name, lane.queue.name
            await self._in_thread(lambda: self._broker.send(environment, name, keys))
            self._sent_at[lane] = time.monotonic()

    def _consumes(self, lane: Lane) -> bool:
        return self._consumed is None or (lane.environment.name, lane.queue.name) in self._consumed

    async def _find_claimable(self, lane: Lane, most: int) -> list[str]:
        """The keys of rows that a worker could claim now, as far as its gate and its pace allow."""
        queue, store = lane.queue, lane.environment.store
        limit = lane.environment.limits.get(queue.name, queue.limit)
        if limit is not None:
            most = min(most, limit - await count_running(store.database, queue.name))
        return await find_due_keys(store.database, await store.bind(queue), most) if most > 0 else []

    async def _end_leases(self, environment: WorkerEnvironment) -> None:
        """Ends the leases of workers of this node that were killed, so that their jobs do not wait for the expiry."""
        rows = await environment.store.database.fetch(
            "SELECT id, pid FROM tabellion_workers WHERE stopped_at IS NULL AND host = $1", socket.gethostname()
        )
        dead = [row["id"] for row in rows if self._node in row["id"] and heartbeat.is_gone(row["pid"])]
        for worker in dead:
            await heartbeat.leave(environment.store, worker, "was killed", crashed=True)
            self._dispatcher.emit(Event("worker_stopped", worker=worker, error="was killed"))
        if dead:
            await environment.sweep()

    async def _in_thread(self, function: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, function)

    def _on_broker_down(self, error: BrokerUnreachable) -> None:
        self._worker.broker_up = False
        for lane in self._slots.lanes:
            lane.more = True
        now = time.monotonic()
        if self._down_since is None or now - self._reported_at >= REMIND:
            self._down_since, self._reported_at = self._down_since or now, now
            self._emit("broker_down", error=str(error))

    def _on_broker_up(self) -> None:
        self._worker.broker_up = True
        if self._down_since is not None:
            seconds, self._down_since = time.monotonic() - self._down_since, None
            self._emit("broker_up", seconds=seconds)

    def _emit(self, name: str, **facts: Any) -> None:
        with contextlib.suppress(Exception):
            facts["note"] = self._broker.address
        self._dispatcher.emit(Event(name, worker=f"hints-{self._node}", **facts))


def name_node() -> str:
    """A name for this node: of the machine and the process, and random, because process numbers come again."""
    return f"{socket.gethostname()}-{os.getpid()}-{os.urandom(3).hex()}"
