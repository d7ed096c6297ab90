"""The review queue: a queue of the engine whose workers are people."""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

from tabellion.engine.queue import Queue

NAME = "review"
LEASE = 300.0  #: seconds until a claim expires after it was last renewed by the holder's page
HOLD = 3600.0  #: seconds that an assignment reserves an item; then, or when it is overdue, anybody may claim it
Ending = Literal["approved", "corrected", "rejected"]
ENDINGS: tuple[Ending, ...] = ("approved", "corrected", "rejected")
Status = Literal["pending", "in_review", "approved", "corrected", "rejected"]
OPEN: tuple[Status, ...] = ("pending", "in_review")
REVIEWED: tuple[Ending, ...] = ("approved", "corrected")  #: endings that found the document correct
NEVER = 1_000_000_000  # people may release items as often as they like


def set_times(*, lease: float = LEASE, hold: float = HOLD) -> None:
    """Sets how long claims and assignments hold in this process; called once, when the service starts."""
    global LEASE, HOLD  # one review queue for the whole process
    LEASE, HOLD = lease, hold


def review_queue(done: Ending = "approved") -> Queue:
    """The queue; its `done` state depends on how an item is finished, so there is one for each ending."""
    return _queue(done, LEASE)


@lru_cache(maxsize=16)
def _queue(done: Ending, lease: float) -> Queue:
    return Queue(
        "tabellion_review_items", name=NAME, ready="pending", running="in_review", done=done, failed="failed",
        order="priority DESC, id", worker="reviewer", started_at="claimed_at", finished_at="finished_at",
        lease=lease, timeout=None, max_attempts=NEVER, max_deferrals=NEVER, deadline=None,
    )  # fmt: skip


def public_status(status: str | None) -> str | None:
    """The status as lists and outputs have it: they do not change when a person claims the item."""
    return OPEN[0] if status in OPEN else status
