"""A queue as people look at it: what counts as done, whether it is work of its own, and where a row has a page."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tabellion.engine import sql
from tabellion.engine.queue import Queue, StateName, format_state
from tabellion.engine.sql import Dialect
from tabellion.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class QueueView:
    """One queue, for those who look at it and work none of its jobs."""

    queue: Queue
    chore: bool = False  #: it follows up on other work, and is not counted as work of its own
    people: bool = False  #: its workers are people
    endings: tuple[Queue, ...] = ()  #: the same queue with each of its ways to be done, where there are several
    page: str | None = None  #: the address of the page about a row, with {} for its key

    @property
    def name(self) -> str:
        """The queue's."""
        return self.queue.name

    def holds(self, state: StateName, dialect: Dialect) -> str:
        """The condition that a row is in this state."""
        tests = [sql.holds(one.states[state], dialect) for one in self._alike(state)]
        return tests[0] if len(tests) == 1 else f"({' OR '.join(f'({test})' for test in tests)})"

    def words(self, state: StateName) -> str:
        """The same for people."""
        return " or ".join(format_state(one.states[state]) for one in self._alike(state))

    def _alike(self, state: StateName) -> tuple[Queue, ...]:
        return self.endings if state == "done" and self.endings else (self.queue,)


def together(*lists: Iterable[QueueView]) -> list[QueueView]:
    """All of them; two of one name would be one and the same to whoever asks for it."""
    found: dict[str, QueueView] = {}
    for view in (view for views in lists for view in views):
        if found.setdefault(view.name, view).queue is not view.queue:
            raise ConfigurationError(f"two queues are named {view.name!r}: rename one: Queue(…, name=…)")
    return list(found.values())
