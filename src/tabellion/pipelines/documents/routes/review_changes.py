"""Detects changes in review: one query of the audit log for all watchers."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator

from tabellion.engine.store import Store
from tabellion.errors import StoreError

logger = logging.getLogger("tabellion.web")
EVERY = 0.5  #: seconds between two queries


class ReviewChanges:
    """The length of the audit log of one database; queried while somebody watches."""

    def __init__(self, store: Store, every: float = EVERY) -> None:
        self._store = store
        self._every = every
        self._watchers = 0
        self._n = -1
        self._moved = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @contextlib.asynccontextmanager
    async def watch(self) -> AsyncIterator[ReviewChanges]:
        """Queries for the duration of a block."""
        self._watchers += 1
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._look_on())
        try:
            yield self
        finally:
            self._watchers -= 1

    async def after(self, n: int, within: float) -> int:
        """The length as soon as it differs from `n`, or after `within` seconds in any case."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within):
                while self._n == n:
                    await self._moved.wait()
        return self._n

    async def close(self) -> None:
        """Stops querying."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def _look_on(self) -> None:
        while self._watchers:
            try:
                rows = await self._store.database.fetch("SELECT n FROM tabellion_audit_head WHERE id = 1")
                length = int(rows[0]["n"]) if rows else 0
            except StoreError as error:
                logger.warning("watching review: %s", type(error).__name__)
            else:
                if length != self._n:
                    self._n = length
                    previous, self._moved = self._moved, asyncio.Event()
                    previous.set()
            await asyncio.sleep(self._every)
