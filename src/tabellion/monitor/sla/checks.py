"""The periodic check of one environment: measures targets, changes their states, takes hourly snapshots."""

from __future__ import annotations

from collections.abc import Sequence

from tabellion.engine.periodic import Emit
from tabellion.engine.store import Store
from tabellion.monitor.hourly_snapshots import take_snapshots
from tabellion.monitor.sla.alerts import describe, find_due, record, take_turns
from tabellion.monitor.sla.compliance import measure, read_recorded
from tabellion.monitor.sla.target import Target
from tabellion.monitor.view import QueueView

EVERY = 60.0  #: seconds


class SlaChecks:
    """What is checked in one environment."""

    def __init__(self, environment: str, views: Sequence[QueueView], targets: Sequence[Target], wait: float) -> None:
        self._environment, self._views, self._targets, self._wait = environment, list(views), list(targets), wait

    async def run(self, store: Store, emit: Emit) -> None:
        """Checks the targets whose turn it is, then takes the snapshots of this hour that are missing."""
        for target in await find_due(store, self._targets):
            # One by one: if the database is lost meanwhile, the others do not count as checked.
            turns = await take_turns(store, [target])
            if target.name in turns:
                measured = await measure(store, target)
                changed = await record(store, self._environment, target, turns[target.name], measured, self._wait)
                if changed is not None:
                    note = describe(target, changed, measured["value"])
                    emit(f"sla_{'breached' if changed == 'breached' else 'recovered'}", note=note)
        await take_snapshots(store, self._views, await self._values(store))

    async def _values(self, store: Store) -> dict[str, dict[str, float]]:
        """The recorded values by queue and target."""
        values: dict[str, dict[str, float]] = {}
        for target, picture in zip(self._targets, await read_recorded(store, self._targets), strict=True):
            if picture["value"] is not None:
                values.setdefault(target.queue, {})[target.name] = picture["value"]
        return values
