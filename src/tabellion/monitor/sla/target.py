"""An SLA target: a value that is measured in a database, and the limit it must keep."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from tabellion.engine.store import Store

Unit = Literal["seconds", "share"]


@dataclass(frozen=True, slots=True)
class TargetKind:
    """What a kind of targets is about: its unit, and on which side of the limit the value must be."""

    unit: Unit
    is_least: bool = False  #: the value must be at least the limit; else at most

    def is_kept(self, value: float | None, limit: float) -> bool:
        """Whether a value keeps the limit; if there is nothing to measure, it does."""
        if value is None:
            return True
        return value >= limit if self.is_least else value <= limit


#: The kinds of targets that every queue can have.
QUEUE_KINDS: Mapping[str, TargetKind] = {"oldest": TargetKind("seconds"), "failed": TargetKind("share")}


@dataclass(frozen=True, slots=True)
class Target:
    """One target: `oldest` of the queue `documents`, in the table `queues` of `[sla]`."""

    scope: str  #: the table of `[sla]`: `queues`, or one that a pipeline adds
    subject: str
    kind_name: str
    kind: TargetKind
    limit: float
    queue: str  #: whose snapshots have its values
    #: Returns the value now; None if there is nothing to measure. Raises a TabellionError if it cannot be measured.
    measure: Callable[[Store], Awaitable[float | None]]

    @property
    def name(self) -> str:
        """Its path in `[sla]`, e.g. `queues.documents.oldest`."""
        return f"{self.scope}.{self.subject}.{self.kind_name}"

    def is_kept(self, value: float | None) -> bool:
        """Whether the value keeps the limit."""
        return self.kind.is_kept(value, self.limit)
