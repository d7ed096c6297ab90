"""Every gate of one process, with the database that keeps them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping

from tabellion.engine.gates.gate import Gate
from tabellion.engine.gates.row import GateRow
from tabellion.engine.gates.state import GateSettings
from tabellion.engine.store import Store

LISTEN_PAUSE = 0.01
LISTEN_AGAIN = 1.0


class OpenGates:
    """Every gate of one process, with their database, which all environments share."""

    def __init__(
        self, url: str, settings: Mapping[str, GateSettings] | None = None, opened: Callable[[], None] = lambda: None,
        changed: Callable[[str, str], None] = lambda _name, _closed: None,
    ) -> None:  # fmt: skip
        # A gate writes often, and losing its last moment in a power failure is harmless: it need not wait for the disk.
        self._store = Store(url, connections=2, durable=False)
        self._settings = settings or {}
        self._opened, self._changed = opened, changed
        self._gates: dict[str, Gate] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._loop = asyncio.get_running_loop()

    def get_gate(self, name: str) -> Gate:
        """The gate of this name; called in the loop that owns the gates."""
        gate = self._gates.get(name)
        if gate is None:
            row = GateRow(self._store, name, self._settings.get(name, GateSettings()))
            gate = self._gates[name] = Gate(row, self._opened, self._changed)
            self._tasks.append(self._loop.create_task(gate.run()))
            if len(self._tasks) == 1:
                self._tasks.append(self._loop.create_task(self._listen()))
        return gate

    async def _listen(self) -> None:
        """Listens for changes by other processes; without wake-ups they are seen at the next turn."""
        while True:
            try:
                await self._store.open()
                # Open both connections now: reporting a failure must not wait for one.
                await asyncio.gather(self._store.version(), self._store.version())
                await self._store.database.listen(self._look, LISTEN_PAUSE)
                return
            except Exception:
                await asyncio.sleep(LISTEN_AGAIN)

    def _look(self, payload: str) -> None:
        """Has the gate that the payload names read its row again; every gate if there is no payload."""
        name, _, epoch = payload.rpartition(" ")
        if name not in self._gates and (payload or self._store.dialect == "postgresql"):
            return
        for gate in [self._gates[name]] if payload else self._gates.values():
            gate.look(epoch)

    async def close(self) -> None:
        """Reports the last outcomes and closes the connections."""
        for gate in self._gates.values():
            with contextlib.suppress(Exception):
                async with asyncio.timeout(2):
                    await gate.flush()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._store.close()
