"""Keeps a pause between two requests of this process to the same host."""

from __future__ import annotations

import asyncio
import threading
import time

MOST_HOSTS = 10_000  #: hosts that are remembered; those whose pause is over are forgotten first


class HostPacing:
    """The time at which each host may be asked again. Callers of all threads and event loops share it."""

    def __init__(self) -> None:
        self._free_at: dict[str, float] = {}
        self._lock = threading.Lock()

    async def wait(self, host: str, pause: float) -> None:
        """Waits for this caller's turn; the next caller's is at least `pause` seconds later."""
        if pause <= 0:
            return
        await asyncio.sleep(self.reserve(host, pause, time.monotonic()))

    def reserve(self, host: str, pause: float, now: float) -> float:
        """The seconds until this caller's turn."""
        with self._lock:
            if len(self._free_at) >= MOST_HOSTS and host not in self._free_at:
                self._free_at = {name: at for name, at in self._free_at.items() if at > now}
            turn = max(now, self._free_at.get(host, now))
            self._free_at[host] = turn + pause
        return turn - now


#: The pacing of this process.
PACING = HostPacing()
