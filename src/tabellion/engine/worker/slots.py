"""Slots: how many more jobs this worker may take, and from which queue."""

from __future__ import annotations

import math
import time
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from tabellion.engine.gates.gate import Gate
from tabellion.engine.job import Job
from tabellion.engine.pace import PaceKeeper
from tabellion.engine.processors import available_processors
from tabellion.engine.queue import Queue
from tabellion.engine.worker.environment import WorkerEnvironment
from tabellion.engine.worker.runner import Run

FAST = 0.005  # seconds: jobs that take less are claimed ahead of free slots, or a claim would cost more than the work
AHEAD = 0.02  # seconds of such work that may be claimed ahead
MOST_AHEAD = 250
THREADS = min(32, available_processors() + 4)  # default room for a queue whose handler is a plain `def`


@dataclass(eq=False)
class Lane:
    """One queue in one environment, in polling order."""

    environment: WorkerEnvironment
    queue: Queue
    weight: float | None = None  #: its share of the slots, when shares are used
    used: float = 0.0  #: jobs that it has had, divided by its share
    running: int = 0
    more: bool = True  #: whether the last claim left rows behind, as far as we know
    gate: Gate | None = None  #: the gate of the model that its handler uses
    flowing: bool = False  #: whether the last claim got as many rows as it requested
    rests_until: float = 0.0  #: after a refused claim, on the monotonic clock
    waiting: deque[Run] = field(default_factory=deque)  #: claimed ahead of a free slot
    begun: int = 0  #: jobs that have started since the last poll
    pace: PaceKeeper | None = None  #: of a queue that has one
    seconds: float = FAST  #: how long its handler takes, as a moving average

    def __post_init__(self) -> None:
        self.pace = PaceKeeper(self.queue.pace) if self.queue.pace else None

    @property
    def is_open(self) -> bool:
        """Whether it makes sense to claim here."""
        resting = self.rests_until > time.monotonic()
        return not resting and self.environment.works(self.queue)


@dataclass
class Slots:
    """The slots of one worker, and which lane may fill them."""

    concurrency: int
    lanes: Sequence[Lane]
    busy: int = 0
    waiting: int = 0  #: jobs that were claimed ahead of a free slot
    _by_queue: Counter[Queue] = field(default_factory=Counter)

    @property
    def free(self) -> int:
        """The number of free slots."""
        return self.concurrency - self.busy

    def room(self, lane: Lane, *, reserve: bool) -> int:
        """How many jobs this lane may claim now; with `reserve`, the unfilled shares of other lanes stay free.

        Jobs that later lanes have claimed ahead do not take slots from this lane.
        """
        own = self._capacity(lane.queue) - self._by_queue[lane.queue]
        owed = sum(self._count_owed(other) for other in self.lanes if other is not lane) if reserve else 0
        free = self.free - owed
        before = 0
        if self.waiting:
            place = self.lanes.index(lane)
            before = sum(len(other.waiting) for other in self.lanes[: place + 1])
            free += self.waiting - before
        return max(0, min(own, free) + self.count_ahead(lane) - before)

    def in_turn(self) -> list[Lane]:
        """The lanes in the order of their claims: as listed, or with shares those first that had less than theirs.

        Where there are fewer slots than lanes, nobody's share is a whole slot: turns are what can be shared.
        """
        if not self.has_shares:
            return list(self.lanes)
        least = min((lane.used for lane in self.lanes if lane.more and lane.is_open), default=0.0)
        for lane in self.lanes:
            if not lane.more:  # a lane that had no work does not save up turns for later
                lane.used = max(lane.used, least)
        return sorted(self.lanes, key=lambda lane: lane.used)

    def startable(self, lane: Lane) -> int:
        """How many jobs of this lane may start now."""
        return max(0, min(self._capacity(lane.queue) - self._by_queue[lane.queue], self.free))

    def count_ahead(self, lane: Lane) -> int:
        """How many jobs may wait in this lane for a slot: some milliseconds of work, where each takes next to none."""
        queue = lane.queue
        limited = queue.limit is not None or queue.name in lane.environment.limits
        bounded = limited or queue.concurrency is not None or bool(queue.pace)
        if lane.seconds >= FAST or lane.gate is not None or not queue.is_async or bounded or self.has_shares:
            return 0
        return min(MOST_AHEAD, int(self.concurrency * AHEAD / max(lane.seconds, AHEAD / MOST_AHEAD)))

    def wait(self, lane: Lane, runs: Sequence[Run]) -> None:
        """Keeps claimed jobs until there is a slot for them."""
        lane.waiting.extend(runs)
        self.waiting += len(runs)

    def next(self, lane: Lane) -> Run:
        """Takes the first of the jobs that wait in this lane."""
        self.waiting -= 1
        lane.begun += 1
        return lane.waiting.popleft()

    def withdraw(self, lane: Lane, keep: int = 0, claimed_before: float = math.inf) -> list[Job]:
        """Removes the last waiting jobs of a lane that were claimed before then, and returns them unstarted."""
        jobs = []
        while len(lane.waiting) > keep and lane.waiting[-1].claimed_at < claimed_before:
            run = lane.waiting.pop()
            self.waiting -= 1
            run.ended_at = time.monotonic()
            jobs.append(run.job)
        return jobs

    def take(self, lane: Lane, n: int) -> None:
        """Fills `n` slots."""
        lane.used += n / (lane.weight or 1.0)
        self.busy += n
        lane.running += n
        self._by_queue[lane.queue] += n

    def leave(self, lane: Lane) -> None:
        """Frees one slot."""
        self.busy -= 1
        lane.running -= 1
        self._by_queue[lane.queue] -= 1

    @property
    def has_shares(self) -> bool:
        """Whether any lane has a share."""
        return any(lane.weight is not None for lane in self.lanes)

    def _capacity(self, queue: Queue) -> int:
        if queue.concurrency is not None:
            return queue.concurrency
        return self.concurrency if queue.is_async else min(self.concurrency, THREADS)

    def _count_owed(self, lane: Lane) -> int:
        """The unfilled slots of a lane's share; 0 for a lane without work."""
        if lane.weight is None or not lane.more or not lane.is_open:
            return 0
        total = sum(other.weight or 0.0 for other in self.lanes)
        promised = max(1, int(self.concurrency * lane.weight / total))
        return max(0, min(promised, self._capacity(lane.queue)) - lane.running)


def lanes(environments: Sequence[WorkerEnvironment], queues: Sequence[Queue]) -> list[Lane]:
    """Every queue of every environment, environments in list order, queues in list order within each."""
    shares = any(environment.share for environment in environments) or any(queue.share for queue in queues)
    return [
        Lane(environment, queue, (environment.share or 1.0) * (queue.share or 1.0) if shares else None)
        for environment in environments
        for queue in queues
    ]
