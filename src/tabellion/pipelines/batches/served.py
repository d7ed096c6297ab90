"""The state that the web application holds for batches in one environment."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from starlette.requests import Request

from tabellion.engine.gates.state import GateSettings
from tabellion.engine.store import Store
from tabellion.pipelines.batches.rate_limiter import RateLimiter, read_limiter
from tabellion.pipelines.batches.settings import BatchSettings, settings_of
from tabellion.web.blueprint import PipelineHealth, Served
from tabellion.web.storage_check import StorageCheck

if TYPE_CHECKING:
    from tabellion.config import Config

SUBMIT_DEADLINE = 600.0  #: seconds that the transaction of a large batch may take


@dataclass(slots=True)
class ServedBatches(Served):
    """What the routes of batches need in one environment."""

    name: str
    store: Store
    settings: BatchSettings
    gates_at: Store  #: whose database has the gates
    gate_settings: GateSettings | None = None
    submissions: Store = field(init=False)  #: the same database, with time for large transactions
    _check: StorageCheck = field(init=False)

    def __post_init__(self) -> None:
        self._check = StorageCheck(self.settings.staging.lake.check)
        self.submissions = Store(self.store.url, deadline=SUBMIT_DEADLINE, connections=2)

    async def limiter(self) -> RateLimiter:
        """The state of the gate that all chunks share."""
        return await read_limiter(self.gates_at, self.settings.gate, self.gate_settings, self.settings.slots)

    async def health(self) -> PipelineHealth:
        """Whether ref files can be written."""
        if await self._check.is_writable():
            return PipelineHealth()
        return PipelineHealth(
            reasons=["the staging store of batches is not writable: refs wait until texts can be written"]
        )

    async def close(self) -> None:
        """Closes connections."""
        await self.submissions.close()
        await self.settings.content.close()
        if self.gates_at is not self.store:
            await self.gates_at.close()


def serve(config: Config, environment: str, store: Store) -> ServedBatches:
    """The implementation of `Pipeline.serve`."""
    place = next((known for known in config.environments if known.name == environment), None)
    settings = settings_of(config, place)
    home = config.gates_at
    gates_at = home.store() if home is not None and home.url != store.url else store
    gate = config.gates.get(settings.gate) if settings.gate is not None else None
    return ServedBatches(environment, store, settings, gates_at, gate)


def served_batches(request: Request) -> ServedBatches:
    """The batches of the request's environment."""
    served: ServedBatches = request.state.environment.served["batches"]
    return served
