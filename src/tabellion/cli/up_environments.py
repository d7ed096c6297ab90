"""The environments of `tabellion up`: their tables, admin keys and sign-in links."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tabellion.cli import adminkey, pipeline_tables
from tabellion.engine.worker import heartbeat
from tabellion.errors import Busy, StoreError, Unreachable

if TYPE_CHECKING:
    from tabellion.accounts.sessions import Ticket
    from tabellion.config import Config
    from tabellion.engine.environment import Environment
    from tabellion.engine.store import Store
    from tabellion.pipeline import Pipeline


@dataclass(slots=True)
class StartedEnvironment:
    """An environment that is about to be served."""

    place: Environment
    store: Store
    key_file: Path | None  #: of its admin key; None: none is created
    key: str | None = None  #: the admin key, if it is new
    link: Ticket | None = None  #: a sign-in link for the first admin
    problem: str = ""  #: why its database could not be prepared; it is served, and prepared when it answers

    def facts(self, base: str) -> dict[str, Any]:
        """What programs learn about it at the start."""
        from tabellion.accounts import links

        facts = {"name": self.place.name, "database": self.place.address}
        if self.key_file is not None:
            facts["key_file"] = str(self.key_file.absolute())
        if self.link is not None:
            facts["sign_in"] = links.address(base, self.link)
        return facts | ({"key": self.key} if self.key else {}) | ({"problem": self.problem} if self.problem else {})


async def start_environments(
    config: Config,
    places: Sequence[Environment],
    pipelines: Sequence[Pipeline],
    stores: list[Store],
    *,
    with_admin: bool = True,
) -> list[StartedEnvironment]:
    """Prepares the environments and adds their stores, which the caller closes.

    A database that does not answer does not keep the others from being served; raises if none answers.
    """
    started = [
        StartedEnvironment(place, place.store(), adminkey.path_in(config.folder_of(place)) if with_admin else None)
        for place in places
    ]
    stores += [environment.store for environment in started]
    outcomes = await asyncio.gather(*(_prepare(one, pipelines) for one in started), return_exceptions=True)
    for environment, error in zip(started, outcomes, strict=True):
        if error is None:
            continue
        if isinstance(error, StoreError) and len(started) > 1:
            if isinstance(error, Unreachable | Busy):
                environment.problem = str(error)
                continue
            error.args = (f"{environment.place.name}: {error}",)
        raise error
    if all(environment.problem for environment in started):
        raise Unreachable("\n".join(f"{one.place.name}: {one.problem}" for one in started))
    return started


async def _prepare(environment: StartedEnvironment, pipelines: Sequence[Pipeline]) -> None:
    store, name = environment.store, environment.place.name
    await pipeline_tables.prepare(store, pipelines)
    await _end_leases_of_killed_workers(store)
    if environment.key_file is not None:
        environment.key = await adminkey.ensure(store, name, environment.key_file)
        environment.link = await adminkey.link(store, name)


async def _end_leases_of_killed_workers(store: Store) -> None:
    """Those of this machine, so that their jobs do not wait for the expiry."""
    for worker in await heartbeat.find_killed(store):
        await heartbeat.leave(store, worker, "was killed", crashed=True)
