"""A gate's row: shared by processes, changed by one at a time, kept across restarts."""

from __future__ import annotations

import asyncio

from tabellion import Store
from tabellion.engine.gates.row import GateRow, gates
from tabellion.engine.gates.state import CallOutcomes, GateSettings, ThrottledCall
from tests.engine.made_tables import asynchronous


def test_concurrent_turns_never_grant_a_slot_twice(any_url: str) -> None:
    """Ten concurrent takers get different slots, one interval apart, on every database."""

    async def go() -> list[float]:
        async with Store(any_url) as store:
            row = GateRow(store, "gemini", GateSettings(rate=40, min_rate=40, max_rate=40))
            _, began = await row.read()
            rows = [GateRow(store, "gemini", row.settings) for _ in range(10)]

            async def take(one: GateRow) -> list[float]:
                turn = await one.turn(CallOutcomes(), 2)
                _, now = await one.read()
                return [now - began + at for at in turn.slots]

            return sorted(at for slots in await asyncio.gather(*map(take, rows)) for at in slots)

    slots = asyncio.run(go())
    assert len(slots) == 20
    assert slots[-1] - slots[0] > 0.3  # 19 intervals of 25 ms, less what reading the clock late adds


@asynchronous
async def test_learned_state_is_stored_and_shared(url: str) -> None:
    """Another store sees the lowered rate, the failures and the money spent."""
    async with Store(url) as store:
        await GateRow(store, "gemini", GateSettings(rate=20)).turn(
            CallOutcomes(ok=1, throttled=[ThrottledCall(None, 0)], failed=2, why="503", spent=0.25), 0
        )
    async with Store(url) as store:
        state, _ = await GateRow(store, "gemini", GateSettings(rate=20)).read()
        assert state.limiter.speed == 9.5
        assert state.breaker.failures == 2
        assert state.spent == 0.25
        assert list(await gates(store, {"other": GateSettings()})) == ["gemini", "other"]
