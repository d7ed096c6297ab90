"""Gates as shown to people."""

from __future__ import annotations

from tabellion import Store
from tabellion.engine.gates.row import GateRow
from tabellion.engine.gates.state import CallOutcomes, GateSettings
from tabellion.engine.timestamps import iso
from tabellion.monitor.gates import gates
from tabellion.testing import Clock
from tests.engine.made_tables import asynchronous


@asynchronous
async def test_configured_and_used_gates_are_listed(store: Store, clock: Clock) -> None:
    """Also one without a call yet; a closed one says why and for how long."""
    settings = {"gemini": GateSettings(budget=10.0, threshold=2), "idle": GateSettings()}
    assert [one["name"] for one in await gates(store, settings)] == ["gemini", "idle"]
    await GateRow(store, "gemini", settings["gemini"]).turn(CallOutcomes(failed=3, why="503", spent=1.5), 0)
    await GateRow(store, "stray", GateSettings()).turn(CallOutcomes(ok=2), 0)
    found = {one["name"]: one for one in await gates(store, settings)}
    assert list(found) == ["gemini", "idle", "stray"]
    closed = found["gemini"]
    assert (closed["state"], closed["breaker"], closed["failed"]) == ("closed", "open", 3)
    assert "503" in (closed["reason"] or "")
    assert closed["reopens_at"] == iso(clock.at + 60.0)
    assert (closed["spent"], closed["budget"]) == (1.5, 10.0)
    assert (found["stray"]["state"], found["stray"]["calls"], found["stray"]["reason"]) == ("open", 2, None)
