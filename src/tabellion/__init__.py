"""Tabellion turns the tables you already have into safe work queues."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tabellion.config import model
    from tabellion.document import aread, read
    from tabellion.engine.environment import Environment
    from tabellion.engine.events import Event
    from tabellion.engine.gates.state import GateSettings
    from tabellion.engine.job import Job
    from tabellion.engine.log import log_to_stderr
    from tabellion.engine.queue import Queue
    from tabellion.engine.store import Store
    from tabellion.engine.worker.worker import Worker
    from tabellion.errors import DeclarationError, LeaseLost, Permanent, RateLimited
    from tabellion.pipeline import Pipeline

__version__ = "0.1.0"

__all__ = [
    "DeclarationError",
    "Environment",
    "Event",
    "GateSettings",
    "Job",
    "LeaseLost",
    "Permanent",
    "Pipeline",
    "Queue",
    "RateLimited",
    "Store",
    "Worker",
    "aread",
    "log_to_stderr",
    "model",
    "read",
]

_HOMES = {
    "DeclarationError": "errors",
    "Environment": "engine.environment",
    "Event": "engine.events",
    "GateSettings": "engine.gates.state",
    "Job": "engine.job",
    "LeaseLost": "errors",
    "Permanent": "errors",
    "Pipeline": "pipeline",
    "Queue": "engine.queue",
    "RateLimited": "errors",
    "Store": "engine.store",
    "Worker": "engine.worker.worker",
    "aread": "document",
    "log_to_stderr": "engine.log",
    "model": "config",
    "read": "document",
}


def __getattr__(name: str) -> object:
    """Loads a public name when it is first used, so that `tabellion --help` does not load the engine."""
    if name not in _HOMES:
        raise AttributeError(f"module 'tabellion' has no attribute {name!r}")
    import importlib

    from tabellion import extras

    with extras.explain_missing():
        value: object = getattr(importlib.import_module(f"tabellion.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
