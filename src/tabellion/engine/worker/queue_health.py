"""The health of queues in a worker's log: each scan, and every so often what is waiting, running and done."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tabellion.engine.sql import NOW

if TYPE_CHECKING:
    from tabellion.engine.queue import Queue
    from tabellion.engine.worker.environment import WorkerEnvironment
    from tabellion.engine.worker.slots import Slots

COUNTED = 10_000  # rows of a state at most
ERRORS = ("retried", "crashed", "timed_out")


@dataclass(slots=True)
class _Tally:
    done: int = 0
    failed: int = 0
    retried: int = 0
    seconds: float = 0.0  #: of those that are done


class QueueHealth:
    """What became of the jobs of this worker's queues since their last lines in the log."""

    def __init__(self) -> None:
        self._tallies: defaultdict[tuple[str, str], _Tally] = defaultdict(_Tally)

    def report_claim(self, environment: WorkerEnvironment, queue: Queue, requested: int, found: int) -> None:
        """Reports one claim; its statistics are logged at INFO where the queue has a pace, else at DEBUG."""
        if found:
            pace = queue.pace[-1][1] if queue.pace else None
            environment.event(
                "queue_scanned", queue=queue.name, note=f"{found} of at most {requested} jobs", due_in=pace
            )

    def count_outcome(
        self, environment: WorkerEnvironment, queue: Queue, outcome: str | None, seconds: float | None
    ) -> None:
        """Counts how a job ended."""
        tally = self._tallies[environment.name, queue.name]
        if outcome == "done":
            tally.done += 1
            tally.seconds += seconds or 0.0
        elif outcome in ("failed", "parked", "quarantined"):
            tally.failed += 1
        elif outcome in ERRORS:
            tally.retried += 1

    async def report(self, environment: WorkerEnvironment, queue: Queue, slots: Slots) -> None:
        """Writes the line of a queue: its rows, the slots of this worker as the states of processors, and the tally."""
        counts = await environment.store.counts(queue, COUNTED)
        rows = await environment.store.database.fetch(
            f"""SELECT count(*) AS expired FROM tabellion_attempts
WHERE queue = $1 AND settled_at IS NULL AND lease_until < {NOW}""",
            queue.name,
        )
        busy = sum(lane.running for lane in slots.lanes if lane.queue is queue)
        idle = max(0, min(queue.concurrency or slots.concurrency, slots.concurrency) - busy)
        tally = self._tallies.pop((environment.name, queue.name), _Tally())
        mean = f", {tally.seconds / tally.done:.2f} s each" if tally.done else ""
        environment.event(
            "queue_health", queue=queue.name,
            note=f"{counts['ready']:,} ready, {counts['running']:,} running; slots: {idle} idle, {busy} busy, "
            f"{rows[0]['expired']} error; lately {tally.done:,} done{mean}, {tally.failed:,} failed, "
            f"{tally.retried:,} retried",
        )  # fmt: skip
