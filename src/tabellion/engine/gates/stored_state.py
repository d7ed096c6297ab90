"""Reads the state of a gate from its row in the database."""

from __future__ import annotations

from tabellion.engine import sql
from tabellion.engine.database import Database
from tabellion.engine.gates.state import GateSettings, GateState
from tabellion.engine.sql import NOW


async def read_state(database: Database, name: str, settings: GateSettings) -> tuple[GateState, int, float]:
    """The state of a gate, its version, and the database's time."""
    clock = sql.epoch(NOW, database.dialect)
    [row] = await database.fetch(
        f"""SELECT g.version, g.state, n.now FROM (SELECT {clock} AS now) AS n
LEFT JOIN tabellion_gates AS g ON g.name = $1""",
        name,
    )
    return GateState.load(settings, row["state"]), row["version"] or 0, float(row["now"])


async def describe_closure(database: Database, name: str) -> str:
    """Why this gate is closed, as far as this database knows; empty when it is open."""
    state, _, now = await read_state(database, name, GateSettings())
    return state.closure(now)[0]
