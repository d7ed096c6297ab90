"""An environment as the application serves it: its database, its files, its outputs, and who watches them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tabellion.engine.queue import Queue
from tabellion.engine.store import Store
from tabellion.monitor.lookout import Lookout
from tabellion.pipelines.documents.settings import Settings
from tabellion.storage.blobs import Blobs
from tabellion.web.pulse import Pulse
from tabellion.web.updates import Updates


@dataclass(slots=True)
class Office:
    """One environment, served."""

    name: str
    store: Store
    blobs: Blobs
    settings: Settings
    queues: Sequence[Queue] | None = None  #: what can be looked at; None: those of the document service
    updates: Updates = field(init=False)
    lookout: Lookout = field(init=False)  #: made with the application, which knows its gates
    pulse: Pulse = field(init=False)

    def __post_init__(self) -> None:
        self.updates = Updates(self.store)
        self.pulse = Pulse(self.store)
