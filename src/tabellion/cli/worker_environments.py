"""The environments of a worker: prepares those that it can use, and reports what it has to leave out."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from tabellion.cli import pipeline_tables
from tabellion.engine.events import Event
from tabellion.engine.log import LogListener
from tabellion.errors import Busy, Forbidden, Unreachable
from tabellion.monitor.rights import MissingRight, missing_rights

if TYPE_CHECKING:
    from tabellion.config import Config
    from tabellion.engine.environment import Environment
    from tabellion.engine.queue import Queue
    from tabellion.pipeline import Pipeline


def prepare_worker(
    config: Config, environments: Sequence[Environment], pipelines: Sequence[Pipeline], queues: Sequence[Queue]
) -> list[Environment]:
    """The environments in which a worker can work, with the tables of its pipelines up to date; logs the others."""
    for pipeline in pipelines:
        pipeline.check(config)
    prepared = pipeline_tables.prepare_environments(environments, pipelines, queues)
    check_rights(prepared, queues)
    listen = LogListener()
    for place, error in prepared.skipped.items():
        listen(Event("environment_skipped", environment=place, error=error))
    for (pipeline_name, place), error in prepared.missing.items():
        listen(Event("queue_skipped", queue=pipeline_name, environment=place, error=error))
    return prepared.usable


def gates_environment(config: Config, skipped: Collection[Environment]) -> Environment | None:
    """The environment that keeps the gates, whether it is worked on or not. None: use the first usable environment."""
    place = config.gates_at
    return None if place is None or place in skipped or place.missing_file() else place


def check_rights(prepared: pipeline_tables.PreparedEnvironments, queues: Sequence[Queue]) -> None:
    """Raises before anything is created if, for lack of rights, a queue cannot work in any environment.

    A queue that can work in one environment is skipped in the others by the worker; an unreachable database counts as
    one where it may work.
    """
    places = prepared.usable

    async def find_missing(place: Environment) -> list[MissingRight]:
        if place.name in prepared.silent:
            return []
        async with place.connect() as store:
            with contextlib.suppress(Unreachable, Busy):
                await pipeline_tables.open_soon(store)
                return await missing_rights(store, queues)
            return []

    async def find_all_missing() -> list[list[MissingRight]]:
        return await asyncio.gather(*(find_missing(place) for place in places))

    missing_by_place = asyncio.run(find_all_missing())
    for queue in queues:
        if all(any(right.queue in (None, queue.name) for right in missing) for missing in missing_by_place):
            lines = [
                f"{place.name}: {right.problem}"
                for place, rights in zip(places, missing_by_place, strict=True)
                for right in rights
            ]
            raise Forbidden("\n".join(lines))
