"""Looks again and again for everybody who watches, and not at all while nobody does."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator


class PolledFeed:
    """Something that is looked at in one task for all watchers; `_look` is what a look does."""

    def __init__(self, every: float) -> None:
        self._every = every  #: seconds between two looks
        self._watchers = 0
        self._task: asyncio.Task[None] | None = None

    @contextlib.asynccontextmanager
    async def poll(self) -> AsyncIterator[None]:
        """Looks for the duration of a block."""
        self._watchers += 1
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._look_on())
        try:
            yield
        finally:
            self._watchers -= 1

    async def close(self) -> None:
        """Stops looking."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def _look_on(self) -> None:
        while self._watchers:
            await self._look()
            await asyncio.sleep(self._every)

    async def _look(self) -> None:
        raise NotImplementedError
