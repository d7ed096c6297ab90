"""Periodic tasks: what workers do in a database every so often besides their jobs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from tabellion.engine.store import Store


class Emit(Protocol):
    """Emits an event of the worker."""

    def __call__(self, name: str, *, note: str) -> None:
        """The event's name, and what it is about."""


@dataclass(frozen=True, slots=True)
class PeriodicTask:
    """Something that every worker of an environment runs about every `every` seconds.

    There is no leader: the task itself decides by a row of the database whose turn it is.
    """

    name: str
    every: float
    run: Callable[[Store, Emit], Awaitable[None]]
