"""A served environment: its database, its monitor, and what each pipeline needs there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tabellion.engine.store import Store
from tabellion.monitor.answer_cache import AnswerCache
from tabellion.monitor.metrics.scraping import EnvironmentScrape
from tabellion.monitor.overview_feed import OverviewFeed
from tabellion.monitor.sla.target import Target
from tabellion.monitor.view import QueueView
from tabellion.web.blueprint import Served


@dataclass(slots=True)
class ServedEnvironment:
    """One environment that the application serves."""

    name: str
    store: Store
    views: Sequence[QueueView] = ()  #: the queues that are shown
    served: Mapping[str, Served] = field(default_factory=dict)  #: by pipeline
    targets: Sequence[Target] = ()  #: the SLA targets that are checked
    compliance: AnswerCache = field(default_factory=AnswerCache)  #: what they were when they were last asked for
    cursor_key: bytes | None = None  #: signs cursors; read when the first is needed
    monitor: OverviewFeed = field(init=False)  #: set by the application, which knows the gates
    scrape: EnvironmentScrape = field(init=False)  #: likewise
