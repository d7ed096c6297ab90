"""A worker's start: checks its arguments, then its queues against every database."""

from __future__ import annotations

import re
import uuid
from collections.abc import Sequence

from tabellion.engine.environment import Environment
from tabellion.engine.queue import Queue, check_together
from tabellion.engine.worker.environment import WorkerEnvironment
from tabellion.errors import ConfigurationError, DeclarationError, DeclarationProblem


def make_id(id: str | None, name: str | None) -> str | None:  # noqa: A002 - the public name
    """The worker's id, or its name with a UUID; None if it has neither."""
    if id is not None and name is not None:
        raise ConfigurationError(f"worker id {id!r} and name {name!r}: use one of them")
    for argument, value in (("id", id), ("name", name)):
        if value is not None and not re.fullmatch(r"[A-Za-z0-9_.@:-]+", value):
            raise ConfigurationError(f"worker {argument} {value!r}: use letters, digits and - _ . @ : only")
    return id if name is None else f"{name}-{uuid.uuid4()}"


def check_arguments(environments: Sequence[Environment], queues: Sequence[Queue]) -> None:
    """Refuses invalid environments and queues before any database is used."""
    if not environments:
        raise ConfigurationError("a worker requires an environment: Environment('prod', 'postgresql://…')")
    names = [environment.name for environment in environments]
    for name in sorted({name for name in names if names.count(name) > 1}):
        raise ConfigurationError(f"two environments are named {name!r}")
    if not queues:
        raise ConfigurationError("a worker requires a queue")
    idle = [queue for queue in queues if queue.function is None]
    if idle:
        raise DeclarationError(
            "this worker",
            [
                DeclarationProblem(
                    f"queue {queue.name!r} has no handler", f"decorate a function: @{queue.name}.handler"
                )
                for queue in idle
            ],
        )
    check_together(queues)


def check_environments(environments: Sequence[WorkerEnvironment], queues: Sequence[Queue]) -> None:
    """Raises if a queue cannot work in any environment; if it can work in some, it is skipped in the others.

    A database that is not connected yet counts as one where it can.
    """
    for environment in environments:
        if environment.fatal is not None:
            raise environment.fatal
    wrong = [queue for queue in queues if all(queue in environment.skipped for environment in environments)]
    if not wrong:
        return
    problems: list[DeclarationProblem] = []
    for queue in wrong:
        for environment in environments:
            where = f"{environment.name}: " if len(environments) > 1 else ""
            problems += [
                DeclarationProblem(f"{where}{problem.what}", problem.fix)
                for problem in environment.skipped[queue].problems
            ]
    names = sorted(queue.name for queue in wrong)
    raise DeclarationError(
        f"queue {names[0]!r}" if len(names) == 1 else f"queues {', '.join(map(repr, names))}", problems
    )


def plan_of(environments: Sequence[Environment], queues: Sequence[Queue], concurrency: int) -> str:
    """What a worker is about to do, for the log line at its start."""
    places = ", ".join(f"{environment.name} ({environment.address})" for environment in environments)
    return f"{', '.join(queue.name for queue in queues)} in {places}, {concurrency} jobs at once"
