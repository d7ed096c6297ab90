"""Registries in one environment that is served: the extraction queue's files and table, and how sites are used."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from starlette.requests import Request

from tabellion.extractions import served as extractions
from tabellion.extractions.served import ServedExtractions
from tabellion.pipelines.registries.settings import RegistrySettings, settings_of

if TYPE_CHECKING:
    from tabellion.config import Config
    from tabellion.engine.store import Store


@dataclass(slots=True)
class ServedRegistries(ServedExtractions):
    """What the routes of registries need in one environment."""

    settings: RegistrySettings


def serve(config: Config, environment: str, store: Store) -> ServedRegistries:
    """Registries of one environment."""
    base = extractions.serve(config, environment, store)
    return ServedRegistries(base.name, base.store, base.files, base.choice, base.folder, settings_of(config))


def served_registries(request: Request) -> ServedRegistries:
    """Registries in the environment of this request."""
    served: ServedRegistries = request.state.environment.served["registries"]
    return served
