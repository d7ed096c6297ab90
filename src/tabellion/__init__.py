"""Tabellion turns the tables you already have into safe work queues."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tabellion.engine.environment import Environment
    from tabellion.engine.errors import DeclarationError, LeaseLost, Permanent, RateLimited
    from tabellion.engine.events import Event
    from tabellion.engine.job import Job
    from tabellion.engine.queue import Queue
    from tabellion.engine.store import Store
    from tabellion.engine.worker import Worker

__version__ = "0.1.0"

__all__ = [
    "DeclarationError",
    "Environment",
    "Event",
    "Job",
    "LeaseLost",
    "Permanent",
    "Queue",
    "RateLimited",
    "Store",
    "Worker",
]

_HOMES = {
    "DeclarationError": "errors",
    "Environment": "environment",
    "Event": "events",
    "Job": "job",
    "LeaseLost": "errors",
    "Permanent": "errors",
    "Queue": "queue",
    "RateLimited": "errors",
    "Store": "store",
    "Worker": "worker",
}


def __getattr__(name: str) -> object:
    """Loads a public name when it is first used, so that `tabellion --help` does not load the engine."""
    if name not in _HOMES:
        raise AttributeError(f"module 'tabellion' has no attribute {name!r}")
    import importlib

    value: object = getattr(importlib.import_module(f"tabellion.engine.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
