"""One portal, one Chromium and one event loop for the tests of a module, and a worker that uses them."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from tabellion import Environment, Event, Worker, config
from tabellion.engine.gates.state import GateSettings
from tabellion.extractions.storage import files_of
from tabellion.net.chromium import Chromium
from tabellion.net.guard import Rules
from tabellion.pipelines.registries.handlers import RegistryHandlers
from tabellion.pipelines.registries.pipeline import PIPELINE
from tabellion.pipelines.registries.portal.server import RunningPortal, run_portal
from tabellion.pipelines.registries.portal.state import PortalState
from tabellion.pipelines.registries.queues import registry_queues
from tabellion.pipelines.registries.settings import RegistrySettings, settings_of
from tests.browser.chromium import why_not

QUICK = GateSettings(rate=50, max_rate=100)  #: nothing here minds haste
ALL = "SELECT * FROM {table} ORDER BY {order}"


class LastingChromium(Chromium):
    """A browser that outlives the workers that use it."""

    async def close(self) -> None:
        """Does nothing: the module closes the browser."""

    async def end(self) -> None:
        """Closes the browser."""
        await super().close()


@dataclass
class Visiting:
    """The portal, browser and loop that the tests of a module share."""

    portal: RunningPortal
    runner: asyncio.Runner
    chromium: LastingChromium

    @property
    def state(self) -> PortalState:
        """The portal's state."""
        return self.portal.state

    def run(self, coroutine: Any) -> Any:
        """Runs a coroutine in the browser's loop."""
        return self.runner.run(coroutine)

    def reset(self) -> None:
        """Clears the faults and counts of the last test."""
        fresh = PortalState()
        for name in ("faults", "sessions", "wrong", "counts"):
            setattr(self.state, name, getattr(fresh, name))


@contextmanager
def visiting() -> Iterator[Visiting]:
    """A portal and a browser within a block."""
    if sentence := why_not():
        pytest.skip(sentence)
    with run_portal() as portal, asyncio.Runner() as runner:
        shared = Visiting(portal, runner, LastingChromium(Rules.of(["127.0.0.1/32"])))
        try:
            yield shared
        finally:
            runner.run(shared.chromium.end())


@dataclass
class LocalInstallation:
    """An installation with the tables of registries, and a worker that uses the shared browser."""

    shared: Visiting
    config: config.Config
    settings: RegistrySettings
    events: list[Event] = field(default_factory=list)

    @classmethod
    def open(cls, shared: Visiting, folder: Path, url: str = "", **variables: str) -> LocalInstallation:
        """An installation with an empty database."""
        all_variables = {
            "TABELLION_DATA": str(folder),
            "TABELLION_REGISTRIES_PORTAL": shared.portal.url,
            **variables,
        }
        if url:
            all_variables["DATABASE_URL"] = url
        loaded = config.load(variables=all_variables)
        with pytest.MonkeyPatch.context() as patch:  # accounts are not part of the configuration
            for name, value in variables.items():
                patch.setenv(name, value)
            settings = replace(settings_of(loaded), retry_base=0.05)
        profiles = {queue: replace(one, timeout=8, wait=0.2) for queue, one in settings.profiles.items()}
        installation = cls(shared, loaded, replace(settings, profiles=profiles))
        shared.run(installation._prepare())
        return installation

    async def _prepare(self) -> None:
        async with self.environment.store() as store:
            await PIPELINE.prepare(store)

    @property
    def environment(self) -> Environment:
        """Its only environment."""
        return self.config.environments[0]

    def fetch(self, text: str, *values: Any) -> list[dict[str, Any]]:
        """Runs a query."""

        async def ask() -> list[dict[str, Any]]:
            async with self.environment.store() as store:
                return [dict(row) for row in await store.database.fetch(text, *values)]

        found: list[dict[str, Any]] = self.shared.run(ask())
        return found

    def add(self, table: str, **values: Any) -> None:
        """Adds a row."""
        marks = ", ".join(f"${number}" for number in range(1, len(values) + 1))
        self.fetch(f"INSERT INTO {table} ({', '.join(values)}) VALUES ({marks})", *values.values())

    def add_and_list(self, table: str) -> list[str]:
        """Adds a row, and returns the columns of its table."""
        self.add(table, status="failed")
        return list(self.fetch(f"SELECT * FROM {table}")[0])

    def rows(self, table: str) -> list[dict[str, Any]]:
        """Every row, oldest first."""
        # Rows that were added within a millisecond have the same time on SQLite.
        order = "rowid" if self.environment.url.startswith("sqlite") else "created_at"
        return self.fetch(ALL.format(table=table, order=order))

    def files(self) -> list[Path]:
        """The stored files."""
        return sorted(path for path in (self.config.data / "extractions").rglob("*.pdf"))

    def worker(self, gates: Mapping[str, GateSettings] | None = None) -> Worker:
        """A worker of the three queues."""
        handlers = RegistryHandlers(self.settings, lambda _: files_of(self.config), self.shared.chromium)
        quick = dict.fromkeys(self.settings.gates(), QUICK)
        return Worker(
            [self.environment], registry_queues(self.settings, handlers), poll=0.05, gates={**quick, **(gates or {})},
            listeners=[self.events.append],
        )  # fmt: skip

    def work(self, gates: Mapping[str, GateSettings] | None = None) -> None:
        """Runs a worker until nothing is left to do."""

        async def go() -> None:
            async with asyncio.timeout(120):
                await self.worker(gates).serve(until_idle=True)

        self.shared.run(go())

    def forget_sessions(self) -> None:
        """Removes the files of accounts."""
        shutil.rmtree(self.settings.folder, ignore_errors=True)
