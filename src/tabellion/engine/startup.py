"""What is checked before a worker begins: what it was given."""

from __future__ import annotations

from collections.abc import Sequence

from tabellion.engine.environment import Environment
from tabellion.engine.errors import ConfigurationError, DeclarationError, Problem
from tabellion.engine.queue import Queue, check_together


def check_arguments(environments: Sequence[Environment], queues: Sequence[Queue]) -> None:
    """Refuses environments and queues that no worker can work, before any database is asked."""
    if not environments:
        raise ConfigurationError("a worker needs an environment: Environment('prod', 'postgresql://…')")
    names = [environment.name for environment in environments]
    for name in sorted({name for name in names if names.count(name) > 1}):
        raise ConfigurationError(f"two environments are named {name!r}")
    if not queues:
        raise ConfigurationError("a worker needs a queue to work")
    idle = [queue for queue in queues if queue.function is None]
    if idle:
        raise DeclarationError(
            "this worker",
            [
                Problem(f"queue {queue.name!r} has no handler", f"decorate a function: @{queue.name}.handler")
                for queue in idle
            ],
        )
    check_together(queues)
