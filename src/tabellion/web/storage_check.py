"""Whether a storage accepts files, checked in a thread that does not delay the end of the process."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable

SECONDS = 5.0  #: to wait for a storage
KEPT = 5.0  #: seconds that a check is reused: probes are frequent, and every request to a bucket costs


class StorageCheck:
    """The result of the last check of a storage."""

    def __init__(self, check: Callable[[], None]) -> None:
        self._check = check
        self._look: asyncio.Future[bool] | None = None
        self._at = float("-inf")

    async def is_writable(self) -> bool:
        """Whether files can be written; False if the storage does not answer."""
        if self._look is None or (self._look.done() and time.monotonic() - self._at > KEPT):
            self._look = asyncio.get_running_loop().create_future()
            threading.Thread(target=self._ask, args=(self._look,), name="storage check", daemon=True).start()
        await asyncio.wait({self._look}, timeout=SECONDS)
        return self._look.done() and self._look.result()

    def _ask(self, look: asyncio.Future[bool]) -> None:
        try:
            self._check()
            well = True
        except Exception:
            well = False
        self._at = time.monotonic()
        with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
            look.get_loop().call_soon_threadsafe(look.set_result, well)
