"""How a queue is shown: what counts as done, whether its work counts, and the page of a row."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tabellion.engine.queue import Queue, StateName, format_state
from tabellion.engine.sql import Dialect
from tabellion.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class QueueView:
    """One queue, as it is shown to people."""

    queue: Queue
    chore: bool = False  #: post-processing of other work: not counted in totals
    people: bool = False  #: its workers are people
    endings: tuple[Queue, ...] = ()  #: the same queue with each of its done states, if it has several
    page: str | None = None  #: the URL of a row's page, with {} for its key

    @property
    def name(self) -> str:
        """The queue's name."""
        return self.queue.name

    def holds(self, state: StateName, dialect: Dialect) -> str:
        """The SQL condition that a row is in this state."""
        conditions = [queue.condition(state, dialect) for queue in self._alike(state)]
        return (
            conditions[0] if len(conditions) == 1 else f"({' OR '.join(f'({condition})' for condition in conditions)})"
        )

    def words(self, state: StateName) -> str:
        """The condition of a state, for people."""
        return " or ".join(format_state(queue.states[state]) for queue in self._alike(state))

    def _alike(self, state: StateName) -> tuple[Queue, ...]:
        return self.endings if state == "done" and self.endings else (self.queue,)


def merge_views(*lists: Iterable[QueueView]) -> list[QueueView]:
    """The views as one list; raises if two different queues have the same name."""
    views_by_name: dict[str, QueueView] = {}
    for view in (view for views in lists for view in views):
        if views_by_name.setdefault(view.name, view).queue is not view.queue:
            raise ConfigurationError(f"two queues are named {view.name!r}: rename one: Queue(…, name=…)")
    return list(views_by_name.values())
