"""The review queue: the engine's, with people as its workers."""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

from tabellion.engine.queue import Queue

NAME = "review"
LEASE = 300.0  #: seconds that a claim holds after the holder's page was last heard of
HOLD = 3600.0  #: seconds that an assignment keeps others away; then, or when it is overdue, anybody may help
Ending = Literal["approved", "corrected", "rejected"]
ENDINGS: tuple[Ending, ...] = ("approved", "corrected", "rejected")
Status = Literal["pending", "in_review", "approved", "corrected", "rejected"]
OPEN: tuple[Status, ...] = ("pending", "in_review")
NEVER = 1_000_000_000  # people give items back as often as they like


def set_times(*, lease: float = LEASE, hold: float = HOLD) -> None:
    """Sets how long claims and assignments hold, for this process: whoever serves review says so once, at its start."""
    global LEASE, HOLD  # the queue of review is one for the whole process
    LEASE, HOLD = lease, hold


def review_queue(done: Ending = "approved") -> Queue:
    """The queue; what its `done` is depends on how an item is finished, so there is one of each."""
    return _queue(done, LEASE)


@lru_cache(maxsize=16)
def _queue(done: Ending, lease: float) -> Queue:
    return Queue(
        "tabellion_review_items", name=NAME, ready="pending", running="in_review", done=done, failed="failed",
        order="priority DESC, id", worker="reviewer", started_at="claimed_at", finished_at="finished_at",
        lease=lease, timeout=None, max_attempts=NEVER, max_deferrals=NEVER, deadline=None,
    )  # fmt: skip
