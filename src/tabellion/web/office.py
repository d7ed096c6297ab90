"""An environment as the application serves it: its database, its files, its outputs, and who watches them."""

from __future__ import annotations

from dataclasses import dataclass, field

from tabellion.engine.store import Store
from tabellion.pipelines.documents.blobs import Blobs
from tabellion.pipelines.documents.settings import Settings
from tabellion.web.updates import Updates


@dataclass(slots=True)
class Office:
    """One environment, served."""

    name: str
    store: Store
    blobs: Blobs
    settings: Settings
    updates: Updates = field(init=False)

    def __post_init__(self) -> None:
        self.updates = Updates(self.store)
