"""What makes a row be in a state, for those who look: people end a review in more ways than one."""

from __future__ import annotations

from tabellion.engine import sql
from tabellion.engine.queue import Queue, StateName, spoken
from tabellion.engine.sql import Dialect
from tabellion.review.queue import ENDINGS, NAME, review_queue


def _alike(queue: Queue, state: StateName) -> list[Queue]:
    """The queues whose rows are in this state of this queue: each ending of a review is a queue's own `done`."""
    if queue.name == NAME and queue.table == review_queue().table and state == "done":
        return [review_queue(ending) for ending in ENDINGS]
    return [queue]


def holds(queue: Queue, state: StateName, dialect: Dialect) -> str:
    """The condition that a row is in this state."""
    tests = [sql.holds(one.states[state], dialect) for one in _alike(queue, state)]
    return tests[0] if len(tests) == 1 else f"({' OR '.join(f'({test})' for test in tests)})"


def words(queue: Queue, state: StateName) -> str:
    """The same for people."""
    return " or ".join(spoken(one.states[state]) for one in _alike(queue, state))
