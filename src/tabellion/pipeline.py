"""A pipeline: everything that one kind of work adds to an installation."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tabellion.errors import ConfigurationError, NotMigrated

if TYPE_CHECKING:
    import asyncio

    from tabellion.config import Config
    from tabellion.engine.environment import Environment
    from tabellion.engine.gates.state import GateSettings
    from tabellion.engine.queue import Queue
    from tabellion.engine.retention import RetentionRule
    from tabellion.engine.schema import Schema
    from tabellion.engine.store import Store
    from tabellion.monitor.metrics.metric import MetricSource
    from tabellion.monitor.sla.target import Target
    from tabellion.monitor.verify import Violation
    from tabellion.monitor.view import QueueView
    from tabellion.web.blueprint import Blueprint, Served


@dataclass(frozen=True, slots=True)
class UpOption:
    """An option that a pipeline adds to `tabellion up`; `Background.options` has its value."""

    help: str
    type: type = str  #: `bool` for a flag, `Path` for a folder
    variable: str | None = None  #: the environment variable that it sets, also for worker processes


Key = tuple[type | tuple[type, ...], str]  #: a configuration key: its type, and one line of documentation


class Pipeline:
    """What a pipeline adds. Only `name` is required; what is not overridden adds nothing.

    Methods import what they need, so that neither a worker nor `--help` loads a web framework.

    >>> class Greetings(Pipeline):
    ...     name = "greetings"
    ...     def queues(self, config, environment=None):
    ...         return [greetings]
    """

    name: str = ""
    title: str = ""  #: shown to people
    default: bool = False  #: whether `tabellion up` runs it if no pipeline was selected
    commands: Mapping[str, str] = {}  #: commands of the command line, and their modules
    keys: Mapping[str, Key] = {}  #: of the configuration, as `section.key`
    choices: Mapping[str, Sequence[str]] = {}  #: the allowed values of keys
    zeros: Collection[str] = ()  #: keys of numbers that may be 0; others must be more
    variables: Mapping[str, str] = {}  #: environment variables that set such keys
    options: Mapping[str, UpOption] = {}  #: of `tabellion up`, by name
    events: Sequence[str] = ()  #: events that webhook endpoints can subscribe to
    extras: str = ""  #: the extras of this package that it needs
    begun_by_requests: Sequence[str] = ()  #: tables whose rows' traces begin with the request that made the row
    row_pages: Mapping[str, str] = {}  #: the URL of the page of a row, with {} for its key, by table
    catalogues: Sequence[str] = ()  #: packages with its texts: `locale/<language>/messages.po` and `pages.po`

    # What it works on.

    def check(self, config: Config) -> None:
        """Raises a ConfigurationError if it cannot work as configured; called before anything starts."""

    def schemas(self) -> Sequence[Schema]:
        """The schemas of its tables; `Schema.needs` names shared ones."""
        return ()

    def queues(self, config: Config, environment: Environment | None = None) -> Sequence[Queue]:
        """Its queues with their handlers, for all environments or for one."""
        return ()

    def gates(self, config: Config) -> Mapping[str, GateSettings]:
        """Default settings of the gates it uses; the configuration overrides them."""
        return {}

    def worker_defaults(self, config: Config) -> Mapping[str, Any]:
        """The `name`, `poll` and `processes` of a `tabellion worker` that runs only such pipelines, and its slots for
        this one (`concurrency`, required); empty: the general defaults."""
        return {}

    def retention(self, config: Config, environment: Environment) -> Sequence[RetentionRule]:
        """What of it is removed after a time, also if that is never: deletions may have left files behind.

        The time of a rule NAME is the configuration key `retention.NAME`, which `keys` has: `config.keep(NAME)`.
        """
        return ()

    def targets(self, config: Config, environment: Environment | None = None) -> Sequence[Target]:
        """SLA targets of its own, in addition to those that every queue can have, from keys `sla.NAME` in `keys`.

        Raises a ConfigurationError if one cannot be as configured.
        """
        return ()

    # What is shown of it.

    def views(self, config: Config, environment: Environment | None = None) -> Sequence[QueueView]:
        """Its queues as they are shown to people."""
        from tabellion.monitor.view import QueueView

        return [QueueView(queue, page=self.row_pages.get(queue.table)) for queue in self.queues(config, environment)]

    def metrics(self, config: Config, environment: Environment | None = None) -> MetricSource | None:
        """Metrics of its own, in addition to those that every queue has, and how they are read from a database."""
        return None

    def blueprint(self) -> Blueprint | None:
        """Its routes, pages and texts."""
        return None

    def serve(self, config: Config, environment: str, store: Store) -> Served | None:
        """What its routes need in one served environment."""
        return None

    async def verify(
        self, config: Config, environment: Environment, store: Store, *, files: int | None = 0
    ) -> Sequence[Violation]:
        """What `tabellion verify` finds wrong in its tables, read-only; each was looked at twice.

        `files` is how many files are compared with their hashes: 0 none, None all of them.
        """
        return ()

    # What `tabellion up` does with it besides serving and working.

    async def background(self, run: Background) -> None:
        """Runs beside the server and the worker until `run.stopping` is set."""

    async def demo(self, run: Background, *, live: bool) -> tuple[str, Mapping[str, Any]]:
        """Runs it on samples; returns a text for people and the facts for programs."""
        raise ConfigurationError(f"the pipeline {self.name} has no demo")

    async def is_idle(self, run: Background) -> bool:
        """Whether nothing is left to do: none of its rows is ready or running."""
        for queue in self.queues(run.config, run.environment):
            counts = await run.store.counts(queue)
            if counts["ready"] or counts["running"]:
                return False
        return True

    def close(self) -> None:
        """Stops at once what still runs in this process; called last."""

    # Its tables in a database.

    async def is_present(self, store: Store) -> bool:
        """Whether this database has its tables, of any version; if users may have made some of them (`Schema.shared`),
        those suffice, and `prepare` creates the others."""
        schemas = [schema for schema in self.all_schemas() if schema.shared] or self.schemas()
        return all([await schema.version(store.database) > 0 for schema in schemas])

    async def require(self, environment: Environment) -> None:
        """Raises NotMigrated for an environment without its tables; changes nothing there."""
        async with environment.connect() as store:
            await store.database.open()
            found = await self.is_present(store)
        if not found:
            raise NotMigrated(
                f"the pipeline {self.name} has no tables in {environment.address}: `tabellion up` and "
                f"`tabellion migrate --with {self.name}` create them"
            )

    async def before_migration(self, store: Store) -> None:
        """Runs before the schemas of all pipelines, e.g. to rename tables of an earlier version."""

    async def before_migration_script(self, store: Store) -> str:
        """The SQL of `before_migration`; if there is any, the schemas are printed only after it has been run."""
        return ""

    async def prepare(self, store: Store) -> None:
        """Creates or updates its tables."""
        await store.open()
        await self.before_migration(store)
        for schema in self.all_schemas():
            await schema.prepare(store)

    def all_schemas(self) -> list[Schema]:
        """Its schemas and those they need, needed ones first."""
        from tabellion.engine.schema import in_order

        return in_order(self.schemas())


class Background:
    """The argument of `Pipeline.background` and `Pipeline.demo`: where they run, and until when."""

    def __init__(
        self, config: Config, environment: Environment, store: Store, served: Served | None, stopping: asyncio.Event,
        options: Mapping[str, Any], print_event: Any,
    ) -> None:  # fmt: skip
        self.config, self.environment, self.store, self.served = config, environment, store, served
        self.stopping, self.options, self.print_event = stopping, options, print_event
        self.say = print_event  #: the former name
