"""Detects changes in review: one query of the audit log for all watchers."""

from __future__ import annotations

import asyncio
import contextlib
import logging

from tabellion.engine.store import Store
from tabellion.errors import StoreError
from tabellion.monitor.watching import PolledFeed

logger = logging.getLogger("tabellion.web")
EVERY = 0.5  #: seconds between two queries


class ReviewChanges(PolledFeed):
    """The length of the audit log of one database; queried while somebody watches."""

    def __init__(self, store: Store, every: float = EVERY) -> None:
        super().__init__(every)
        self._store = store
        self._n = -1
        self._moved = asyncio.Event()

    async def wait_for_change(self, n: int, within: float) -> int:
        """The length as soon as it differs from `n`, or after `within` seconds in any case."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within):
                while self._n == n:
                    await self._moved.wait()
        return self._n

    async def _look(self) -> None:
        try:
            rows = await self._store.database.fetch("SELECT n FROM tabellion_audit_head WHERE id = 1")
            length = int(rows[0]["n"]) if rows else 0
        except StoreError as error:
            logger.warning("watching review: %s", type(error).__name__)
            return
        if length != self._n:
            self._n = length
            previous, self._moved = self._moved, asyncio.Event()
            previous.set()
