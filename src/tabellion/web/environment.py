"""An environment as the application serves it: its database, who watches it, and what each pipeline needs there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tabellion.engine.store import Store
from tabellion.monitor.overview_feed import OverviewFeed
from tabellion.monitor.view import QueueView
from tabellion.web.blueprint import Served


@dataclass(slots=True)
class ServedEnvironment:
    """One environment, served."""

    name: str
    store: Store
    views: Sequence[QueueView] = ()  #: the queues that can be looked at
    served: Mapping[str, Served] = field(default_factory=dict)  #: by pipeline
    monitor: OverviewFeed = field(init=False)  #: made with the application, which knows its gates
