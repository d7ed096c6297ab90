"""Loads what a command works on: the configuration, the declared queues, the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import typer

from tabellion import config as configuration
from tabellion.cli.queue_module import declared_queues
from tabellion.config import Config
from tabellion.config_values import BROKERS
from tabellion.delivery.outbox import webhooks_queue
from tabellion.engine.environment import Environment
from tabellion.engine.queue import Queue, check_together
from tabellion.errors import ConfigurationError
from tabellion.installed_pipelines import default_pipelines, find_pipelines
from tabellion.net.guard import Rules
from tabellion.pipeline import Pipeline

WHICH = (
    'which queues? Name the module that declares them: --queues shop.queues, or queues = "shop.queues" in '
    "tabellion.toml. Those of a pipeline are --with its name, e.g. --with documents"
)
NO_OPTIONS: Mapping[str, Any] = MappingProxyType({"config": None, "queues": None, "with": (), "data": None})


def _options(context: typer.Context | None) -> Mapping[str, Any]:
    """The global options of a call; none where the configuration says everything."""
    options: Mapping[str, Any] = NO_OPTIONS if context is None else context.obj
    return options


def config_of(context: typer.Context | None) -> Config:
    """The configuration of this call."""
    data = _options(context).get("data")
    variables = {**os.environ, "TABELLION_DATA": str(data.expanduser().absolute())} if data is not None else None
    return configuration.load(_options(context)["config"], variables)


def load_pipelines(context: typer.Context | None, config: Config) -> list[Pipeline]:
    """The pipelines selected by this call or by the configuration."""
    names: tuple[str, ...] = _options(context)["with"] or config.pipelines
    return find_pipelines(names)


def pipelines_of(context: typer.Context | None, config: Config) -> list[Pipeline]:
    """The selected pipelines, or the default ones if neither a database, a module of queues nor a pipeline was
    named."""
    selected = load_pipelines(context, config)
    if selected or not config.has_own_database or module_of(context, config) is not None:
        return selected
    return default_pipelines()


def with_option(context: typer.Context, config: Config) -> str:
    """The `--with` that a next command needs, with a space before it; empty if it would find pipelines without one."""
    names: tuple[str, ...] = context.obj["with"]
    if not names and not pipelines_of(context, config):
        names = tuple(pipeline.name for pipeline in default_pipelines())
    return "".join(f" --with {name}" for name in names)


def queues_of(context: typer.Context | None, config: Config, *, together: bool = True) -> list[Queue]:
    """The queues of the user's module, in the order it declares them, then those of the selected pipelines."""
    name, pipelines = module_of(context, config), pipelines_of(context, config)
    if name is None and not pipelines:
        raise ConfigurationError(WHICH)
    if name is None and not load_pipelines(context, config) and (missing := config.environments[0].missing_file()):
        raise ConfigurationError(
            f"{WHICH}, and there is none at {_absolute(missing)}: name its data folder with --data"
        )

    queues = declared_queues(name) if name is not None else []
    for pipeline in pipelines:
        queues += pipeline.queues(config)
    if pipelines:
        queues.append(webhooks_queue(Rules.of(config.allow)))
    if together:
        check_together(queues)
    return queues


def module_of(context: typer.Context | None, config: Config) -> str | None:
    """The name of the user's module of queues."""
    name: str | None = _options(context)["queues"] or config.queues
    return name


def broker_of(config: Config) -> str:
    """The URL of Celery's broker."""
    if config.broker is None:
        ignored = ""
        if os.environ.get("REDIS_URL"):  # not quoted: it may have a password
            ignored = f" (it is set, but begins with none of {', '.join(f'{scheme}://' for scheme in BROKERS)})"
        raise ConfigurationError(
            f"which broker? Set celery.broker in tabellion.toml, or REDIS_URL{ignored}, e.g. redis://127.0.0.1:6379/0"
        )
    return config.broker


def find_queue(queues: Sequence[Queue], name: str) -> Queue:
    """The queue of this name."""
    for queue in queues:
        if queue.name == name:
            return queue
    raise ConfigurationError(f"unknown queue {name!r}; known: {', '.join(repr(queue.name) for queue in queues)}")


def find_environment(config: Config, name: str | None, *, new: bool = False) -> Environment:
    """The environment of this name; with several, a name is required. `new`: its database need not exist yet."""
    if name is None:
        if len(config.environments) == 1:
            return config.environments[0] if new else present(config.environments[0])
        names = ", ".join(environment.name for environment in config.environments)
        raise ConfigurationError(f"which environment? Use --environment with one of: {names}")
    for environment in config.environments:
        if environment.name == name:
            return environment if new else present(environment)
    names = ", ".join(repr(environment.name) for environment in config.environments)
    raise ConfigurationError(f"unknown environment {name!r}; known: {names}")


def present(environment: Environment) -> Environment:
    """The environment, if its database exists: opening a missing file would create an empty one."""
    if missing := environment.missing_file():
        raise ConfigurationError(
            f"there is no database file {_absolute(missing)}: name the data folder that has it with --data, or correct "
            "the URL; `tabellion up` and `tabellion migrate` create a new one"
        )
    return environment


def _absolute(path: str) -> Path:
    return Path(path).absolute()
