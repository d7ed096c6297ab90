"""Whether anything happened in review: one look at the end of the trail for everybody who watches."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator

from tabellion.engine.store import Store
from tabellion.errors import StoreError

logger = logging.getLogger("tabellion.web")
EVERY = 0.5  #: seconds between two looks


class ReviewChanges:
    """How long the trail of one database is; looked at while somebody watches."""

    def __init__(self, store: Store, every: float = EVERY) -> None:
        self._store = store
        self._every = every
        self._watchers = 0
        self._n = -1
        self._moved = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @contextlib.asynccontextmanager
    async def watch(self) -> AsyncIterator[ReviewChanges]:
        """Keeps looking for the length of a block."""
        self._watchers += 1
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._look_on())
        try:
            yield self
        finally:
            self._watchers -= 1

    async def after(self, n: int, within: float) -> int:
        """The length once it is another one than `n`, or after so many seconds all the same."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within):
                while self._n == n:
                    await self._moved.wait()
        return self._n

    async def close(self) -> None:
        """Ends looking."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def _look_on(self) -> None:
        while self._watchers:
            try:
                rows = await self._store.database.fetch("SELECT n FROM tabellion_audit_head WHERE id = 1")
                found = int(rows[0]["n"]) if rows else 0
            except StoreError as error:
                logger.warning("watching review: %s", type(error).__name__)
            else:
                if found != self._n:
                    self._n = found
                    moved, self._moved = self._moved, asyncio.Event()
                    moved.set()
            await asyncio.sleep(self._every)
