"""A gate's row in the database, changed by one process at a time, with a notification to the others."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping
from typing import TypeVar

from tabellion.engine.gates.state import CallOutcomes, GateEdits, GateSettings, GateState, TurnResult
from tabellion.engine.gates.stored_state import read_state
from tabellion.engine.sql import CHANNEL, NOW
from tabellion.engine.store import Store
from tabellion.errors import Busy

TRIES = 50  # attempts while other processes change the row, before giving up
T = TypeVar("T")


class GateRow:
    """The state of one gate that all processes share."""

    def __init__(self, store: Store, name: str, settings: GateSettings) -> None:
        self.store = store
        self.name = name
        self.settings = settings
        self.version = 0  #: the newest version that this process has written

    async def turn(self, outcomes: CallOutcomes, want: int) -> TurnResult:
        """Reports outcomes and takes up to `want` slots."""
        return await self._change(lambda state, now: state.turn(now, outcomes, want))

    async def edit(self, changes: GateEdits, *, reset: bool = False) -> GateState:
        """Changes settings at run time, for every process."""

        def change(state: GateState, now: float) -> GateState:
            state.edit(now, changes, reset=reset)
            return state

        return await self._change(change)

    async def read(self) -> tuple[GateState, float]:
        """The state, and the database's time."""
        state, _, now = await self._read()
        return state, now

    async def peek(self) -> TurnResult | None:
        """The current state without slots; None if this process has written a newer one since."""
        state, version, now = await self._read()
        return state.give(now, 0) if version >= self.version else None

    async def _read(self) -> tuple[GateState, int, float]:
        await self.store.open()
        return await read_state(self.store.database, self.name, self.settings)

    async def _change(self, change: Callable[[GateState, float], T]) -> T:
        """Changes the state; if another process did meanwhile, tries again on the new state."""
        for tries in range(TRIES):
            state, version, now = await self._read()
            before = state.epoch
            result = change(state, now)
            notify = state.epoch != before or isinstance(result, GateState)
            if await self._write(version, state.dump(), f"{self.name} {format_epoch(state.epoch)}" if notify else None):
                self.version = version + 1
                return result
            await asyncio.sleep(random.uniform(0, 0.002 * min(tries + 1, 10)))  # noqa: S311 - spreading load
        raise Busy(f"gate {self.name!r}: too many processes change it at once")

    async def _write(self, version: int, state: str, payload: str | None) -> bool:
        """Replaces the state if it still has this version, and notifies the fleet with the payload, if any."""
        values = [self.name, version, state]
        text = (
            f"""INSERT INTO tabellion_gates (name, version, state, updated_at) VALUES ($1, $2 + 1, $3, {NOW})
ON CONFLICT (name) DO NOTHING RETURNING version"""
            if version == 0
            else f"""UPDATE tabellion_gates SET version = version + 1, state = $3, updated_at = {NOW}
WHERE name = $1 AND version = $2 RETURNING version"""
        )
        if payload is not None and self.store.dialect == "postgresql":
            text = f"WITH written AS ({text}) SELECT pg_notify('{CHANNEL}', $4) FROM written"
            values.append(payload)
        return bool(await self.store.database.fetch(text, *values))


def format_epoch(epoch: tuple[int, int] | None) -> str:
    """An epoch as it is written in notifications."""
    return "" if epoch is None else f"{epoch[0]}.{epoch[1]}"


async def gates(store: Store, settings: Mapping[str, GateSettings]) -> dict[str, tuple[GateState, float]]:
    """Every configured or used gate by name: its state, and the database's time."""
    await store.open()
    rows = await store.database.fetch("SELECT name FROM tabellion_gates")
    names = sorted({row["name"] for row in rows} | set(settings))
    return {name: await GateRow(store, name, settings.get(name, GateSettings())).read() for name in names}
