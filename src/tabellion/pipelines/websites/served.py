"""The state that the web application holds for websites in one environment."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from starlette.requests import Request

from tabellion.engine.store import Store
from tabellion.pipelines.websites.settings import WebsiteSettings, settings_of
from tabellion.web.blueprint import PipelineHealth, Served
from tabellion.web.storage_check import StorageCheck

if TYPE_CHECKING:
    from tabellion.config import Config


@dataclass(slots=True)
class ServedWebsites(Served):
    """What the routes of websites need in one environment."""

    name: str
    store: Store
    settings: WebsiteSettings
    _check: StorageCheck = field(init=False)

    def __post_init__(self) -> None:
        self._check = StorageCheck(self.settings.blobs.check)

    async def health(self) -> PipelineHealth:
        """Whether what visits find can be stored."""
        if await self._check.is_writable():
            return PipelineHealth()
        return PipelineHealth(reasons=["the storage of websites is not writable: what visits find cannot be stored"])

    async def close(self) -> None:
        """Nothing is running."""


def serve(config: Config, environment: str, store: Store) -> ServedWebsites:
    """The implementation of `Pipeline.serve`."""
    place = next((known for known in config.environments if known.name == environment), None)
    return ServedWebsites(environment, store, settings_of(config, place))


def served_websites(request: Request) -> ServedWebsites:
    """The websites of the request's environment."""
    served: ServedWebsites = request.state.environment.served["websites"]
    return served
