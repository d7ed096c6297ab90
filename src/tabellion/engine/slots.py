"""Slots: how many more jobs this worker may take, and from where."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from tabellion.engine.gate import Gate
from tabellion.engine.queue import Queue
from tabellion.engine.site import Site

THREADS = min(32, (os.cpu_count() or 1) + 4)  # default room for a queue whose handler is a plain `def`


@dataclass(eq=False)
class Lane:
    """One queue in one environment, in polling order."""

    site: Site
    queue: Queue
    weight: float | None = None  #: its share of the slots, when shares are used
    running: int = 0
    more: bool = True  #: whether the last claim left rows behind, as far as we know
    gate: Gate | None = None  #: what stands before the model that its handler uses
    flowing: bool = False  #: whether the last claim found all it asked for
    rests_until: float = 0.0  #: after a refused claim, on the monotonic clock

    @property
    def open(self) -> bool:
        """Whether it makes sense to claim here."""
        resting = self.rests_until > time.monotonic()
        return not resting and self.site.works(self.queue)


@dataclass
class Slots:
    """The places in one worker, and who may fill them."""

    concurrency: int
    lanes: Sequence[Lane]
    busy: int = 0
    _by_queue: Counter[Queue] = field(default_factory=Counter)

    @property
    def free(self) -> int:
        """Places nobody is in."""
        return self.concurrency - self.busy

    def room(self, lane: Lane, *, reserve: bool) -> int:
        """How many jobs this lane may take now; with `reserve`, what others' shares are owed is left alone."""
        own = self._capacity(lane.queue) - self._by_queue[lane.queue]
        owed = sum(self._owed(other) for other in self.lanes if other is not lane) if reserve else 0
        return max(0, min(own, self.free - owed))

    def take(self, lane: Lane, n: int) -> None:
        """Fills places."""
        self.busy += n
        lane.running += n
        self._by_queue[lane.queue] += n

    def leave(self, lane: Lane) -> None:
        """Frees one place."""
        self.busy -= 1
        lane.running -= 1
        self._by_queue[lane.queue] -= 1

    @property
    def shared(self) -> bool:
        """Whether any lane was promised a share."""
        return any(lane.weight is not None for lane in self.lanes)

    def _capacity(self, queue: Queue) -> int:
        if queue.concurrency is not None:
            return queue.concurrency
        return self.concurrency if queue.is_async else min(self.concurrency, THREADS)

    def _owed(self, lane: Lane) -> int:
        """Places promised to a lane by its share and not filled; a lane without work is owed nothing."""
        if lane.weight is None or not lane.more or not lane.open:
            return 0
        total = sum(other.weight or 0.0 for other in self.lanes)
        promised = max(1, int(self.concurrency * lane.weight / total))
        return max(0, min(promised, self._capacity(lane.queue)) - lane.running)


def lanes(sites: Sequence[Site], queues: Sequence[Queue]) -> list[Lane]:
    """Every queue of every environment, environments in list order, queues in list order within each."""
    shares = any(site.environment.share for site in sites) or any(queue.share for queue in queues)
    return [
        Lane(site, queue, (site.environment.share or 1.0) * (queue.share or 1.0) if shares else None)
        for site in sites
        for queue in queues
    ]
