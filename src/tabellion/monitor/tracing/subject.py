"""The row that a trace is about: its ids follow from the row's key, so that every process knows them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Subject:
    """One row of one environment. All queues of its table belong to the same trace."""

    environment: str
    table: str
    key: str

    @property
    def trace_id(self) -> int:
        """The id of its trace."""
        return int.from_bytes(self._digest[:16], "big") or 1

    @property
    def root_id(self) -> int:
        """The id of the span in which it was created."""
        return int.from_bytes(self._digest[16:24], "big") or 1

    @property
    def _digest(self) -> bytes:
        return hashlib.sha256("\0".join(("tabellion", self.environment, self.table, self.key)).encode()).digest()
