"""The registries pipeline: a browser fetches land registry documents, companies and rights from their sites."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tabellion import extras
from tabellion.extractions import keys as extraction_keys
from tabellion.extractions.queues import ExtractionQueue, register
from tabellion.pipeline import Background, Key, Pipeline

if TYPE_CHECKING:
    from tabellion.config import Config
    from tabellion.engine.environment import Environment
    from tabellion.engine.gates.state import GateSettings
    from tabellion.engine.queue import Queue
    from tabellion.engine.schema import Schema
    from tabellion.engine.store import Store
    from tabellion.extractions.storage import ExtractionFiles
    from tabellion.pipelines.registries.served import ServedRegistries
    from tabellion.web.blueprint import Blueprint


class RegistriesPipeline(Pipeline):
    """The plugin that `tabellion.pipelines` registers."""

    name = "registries"
    title = "Registries"
    extras = f"{extras.SERVICE},browser"
    catalogues = ("tabellion.pipelines.registries", "tabellion.extractions")
    row_pages: Mapping[str, str] = {"extraction_queue": "/extractions/{}", "search_sessions": "/registries/{}"}
    commands: Mapping[str, str] = {"registry": "tabellion.pipelines.registries.commands.registry"}
    keys: Mapping[str, Key] = {
        "registries.profiles": (list, 'folders with profiles of your own (["registries"])'),
        "registries.portal": (str, "the address of the practice portal (http://127.0.0.1:8077)"),
        "registries.secrets": (str, "a TOML file with accounts, readable by its owner only (none)"),
        "registries.extraction": (str, "the profile of the land registry (registre-foncier)"),
        "registries.companies": (str, "the profile of the enterprise register (req)"),
        "registries.rights": (str, "the profile of the register of rights (rdprm)"),
        "registries.columns": (dict, 'columns of tables made by hand, e.g. { company = "company_name" }'),
        **extraction_keys.KEYS,
    }
    variables: Mapping[str, str] = {
        "TABELLION_REGISTRIES_PROFILES": "registries.profiles",
        "TABELLION_REGISTRIES_PORTAL": "registries.portal",
        "TABELLION_REGISTRIES_SECRETS": "registries.secrets",
        **extraction_keys.VARIABLES,
    }

    def __init__(self) -> None:
        self._open = contextlib.ExitStack()  #: holds the demo's practice portal

    def check(self, config: Config) -> None:
        """Rejects an invalid profile, and a site without an account."""
        from tabellion.pipelines.registries.accounts import require_accounts
        from tabellion.pipelines.registries.settings import settings_of

        settings = settings_of(config)
        for profile in settings.profiles.values():
            require_accounts(profile, settings.accounts[profile.name])

    def schemas(self) -> Sequence[Schema]:
        """The shared tables, and those for results."""
        from tabellion.extractions import tables as extractions
        from tabellion.pipelines.registries import tables

        return (extractions.SCHEMA, tables.SESSIONS_SCHEMA, tables.RIGHTS_SCHEMA, tables.SCHEMA)

    def queues(self, config: Config, environment: Environment | None = None) -> Sequence[Queue]:
        """Documents first, then companies, then rights."""
        with extras.explain_missing(self.extras):
            from tabellion.extractions.storage import files_of
            from tabellion.pipelines.registries.handlers import RegistryHandlers
            from tabellion.pipelines.registries.queues import registry_queues
            from tabellion.pipelines.registries.settings import settings_of

        by_name = {known.name: known for known in config.environments}

        def files(name: str) -> ExtractionFiles:
            return files_of(config, by_name.get(name, environment))

        settings = settings_of(config)
        return registry_queues(settings, RegistryHandlers(settings, files))

    def worker_defaults(self, config: Config) -> Mapping[str, Any]:
        """One job for each registry at a time, and an id that tells this worker from those of other programs."""
        return {"name": "unified-worker", "concurrency": 3, "poll": 5.0}

    def gates(self, config: Config) -> Mapping[str, GateSettings]:
        """One for each account."""
        from tabellion.pipelines.registries.settings import settings_of

        return settings_of(config).gates()

    def blueprint(self) -> Blueprint:
        """The API and pages of registries, and those that all pipelines on the extraction queue share."""
        from tabellion.extractions.blueprint import EXTRACTIONS
        from tabellion.pipelines.registries import api, pages
        from tabellion.web.blueprint import Blueprint

        return Blueprint(
            routers=(*api.ROUTERS, *pages.ROUTERS), policy=api.POLICY, pages=pages.POLICY, places=pages.PLACES,
            shapes=api.SHAPES, problems=("names_pending",), repeatable=api.REPEATABLE, clashing=api.CLASHING,
            shared=(EXTRACTIONS,), main_queue="extraction", package=__package__,
        )  # fmt: skip

    def serve(self, config: Config, environment: str, store: Store) -> ServedRegistries:
        """The state of the web application for one environment."""
        from tabellion.pipelines.registries.served import serve

        return serve(config, environment, store)

    async def demo(self, run: Background, *, live: bool) -> tuple[str, Mapping[str, Any]]:
        """Starts the practice portal, and fetches documents, companies and rights from it."""
        from tabellion.pipelines.registries import demo

        return await demo.run(run.store, run.config, self._open)

    def close(self) -> None:
        """Stops the demo's portal."""
        self._open.close()


PIPELINE = RegistriesPipeline()
register(ExtractionQueue("extraction", PIPELINE.name, error="error_message"))
