"""The pipelines that are installed: those of this package, and those of others, found by their entry points."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Sequence
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING

from tabellion import messages
from tabellion.errors import ConfigurationError
from tabellion.pipeline import Pipeline

if TYPE_CHECKING:
    from tabellion.config import Config
    from tabellion.engine.gates.state import GateSettings

EVENTS = ("sla.breached", "sla.recovered")  #: events of every installation
GROUP = "tabellion.pipelines"  #: our package of pipelines, and the entry point group of other packages


def installed_pipelines() -> dict[str, Pipeline]:
    """Every installed pipeline by name: those in this package, then those of other packages."""
    return dict(_load_installed())


def find_pipelines(names: Sequence[str]) -> list[Pipeline]:
    """The pipelines of these names; raises a ConfigurationError that lists the known ones."""
    installed = installed_pipelines()
    names = list(dict.fromkeys(names))
    for name in names:
        if name not in installed:
            raise ConfigurationError(f"unknown pipeline {name!r}; known: {', '.join(map(repr, installed))}")
    return [installed[name] for name in names]


def is_included(pipeline: Pipeline) -> bool:
    """Whether a pipeline comes with this package."""
    return type(pipeline).__module__.startswith(f"{GROUP}.")


def gates_of(config: Config, pipelines: Sequence[Pipeline]) -> dict[str, GateSettings]:
    """The settings of the gates that these pipelines use; the configuration overrides them and adds others."""
    defaults = {gate: settings for pipeline in pipelines for gate, settings in pipeline.gates(config).items()}
    return {**defaults, **config.gates}


def known_events() -> list[str]:
    """The events that webhook endpoints can subscribe to."""
    return [*EVENTS, *(event for pipeline in installed_pipelines().values() for event in pipeline.events)]


def default_pipelines() -> list[Pipeline]:
    """The pipelines that run if none was selected."""
    return [pipeline for pipeline in installed_pipelines().values() if pipeline.default]


_cache: dict[str, Pipeline] = {}


def _load_installed() -> dict[str, Pipeline]:
    if not _cache:
        try:
            for module in pkgutil.iter_modules(importlib.import_module(GROUP).__path__):
                _add(importlib.import_module(f"{GROUP}.{module.name}.pipeline").PIPELINE)
            for point in entry_points(group=GROUP):
                _add(_load_entry_point(point), point)
        except ConfigurationError:
            _cache.clear()
            raise
    return _cache


def _load_entry_point(point: EntryPoint) -> Pipeline:
    try:
        return point.load()  # type: ignore[no-any-return]
    except Exception as error:
        raise ConfigurationError(
            f"{_describe(point)} cannot be loaded ({type(error).__name__}: {error}): fix the package, or uninstall it"
        ) from error


def _describe(point: EntryPoint) -> str:
    package = point.dist.name if point.dist is not None else point.value
    return f"the pipeline {point.name!r} of the package {package}"


def _add(pipeline: Pipeline, point: EntryPoint | None = None) -> None:
    if not isinstance(pipeline, Pipeline) or not pipeline.name:
        raise ConfigurationError(f"{pipeline!r} is not a pipeline: it must be a tabellion.Pipeline with a name")
    if pipeline.name in _cache:
        raise ConfigurationError(f"two pipelines are named {pipeline.name!r}: uninstall one of the packages")
    _cache[pipeline.name] = pipeline
    for package in pipeline.catalogues:
        try:
            messages.add(package, check=point is not None)  # our own catalogues are tested, and read when needed
        except messages.CatalogueError as error:
            where = _describe(point) if point is not None else pipeline.name
            raise ConfigurationError(f"{where} cannot be used: {error}: fix the package, or uninstall it") from error
