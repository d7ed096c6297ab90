"""Finds what a command works on: the configuration, the declared queues, the environment that was meant."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import typer

from tabellion import config as configuration
from tabellion.config import Config
from tabellion.engine.environment import Environment
from tabellion.engine.errors import ConfigurationError
from tabellion.engine.queue import Queue, check_together


def config_of(context: typer.Context) -> Config:
    """The configuration this call runs with."""
    return configuration.load(context.obj["config"])


def queues_of(context: typer.Context, config: Config, *, together: bool = True) -> list[Queue]:
    """The queues the user's module declares, in the order it declares them."""
    name = context.obj["queues"] or config.queues
    if not name:
        raise ConfigurationError(
            "which queues? Name the module that declares them: --queues shop.queues, "
            'or queues = "shop.queues" in tabellion.toml'
        )
    found = declared(name)
    if together:
        check_together(found)
    return found


def declared(name: str) -> list[Queue]:
    """Every Queue in a module, given as `package.module` or as a file."""
    module = _from_file(Path(name)) if name.endswith(".py") else _from_package(name)
    unique: dict[int, Queue] = {id(value): value for value in vars(module).values() if isinstance(value, Queue)}
    if not unique:
        raise ConfigurationError(f"{name} declares no Queue at its top level")
    return list(unique.values())


def queue_named(queues: Sequence[Queue], name: str) -> Queue:
    """The queue of this name."""
    for queue in queues:
        if queue.name == name:
            return queue
    raise ConfigurationError(f"there is no queue {name!r}; there are {', '.join(repr(queue.name) for queue in queues)}")


def environment_named(config: Config, name: str | None) -> Environment:
    """The environment that was meant; with several, it must be said."""
    if name is None:
        if len(config.environments) == 1:
            return config.environments[0]
        names = ", ".join(environment.name for environment in config.environments)
        raise ConfigurationError(f"which environment? Say --environment with one of: {names}")
    for environment in config.environments:
        if environment.name == name:
            return environment
    names = ", ".join(repr(environment.name) for environment in config.environments)
    raise ConfigurationError(f"there is no environment {name!r}; there are {names}")


def _from_package(name: str) -> ModuleType:
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and name.startswith(error.name):
            raise ConfigurationError(
                f"there is no module {name!r} to import queues from (looked in {Path.cwd()} too)"
            ) from error
        raise


def _from_file(path: Path) -> ModuleType:
    if not path.exists():
        raise ConfigurationError(f"{path}: there is no such file")
    sys.path.insert(0, str(path.parent.resolve()))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None  # noqa: S101 - the file is there and ends in .py
    assert spec.loader is not None  # noqa: S101
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module
