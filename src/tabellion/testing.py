"""For users' tests: run one job inline, set the clock, assert on outcomes, talk to a fake model, check a webhook."""

from __future__ import annotations

import asyncio
import inspect
import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tabellion.delivery.signature import BadSignature, verify
from tabellion.engine.job import Job
from tabellion.engine.queue import Queue
from tabellion.engine.settlement import Outcome, Settlement
from tabellion.engine.store import Store
from tabellion.engine.worker.runner import Run, settle_error, settle_result
from tabellion.models.fake.serving import Serving, serving

__all__ = ["BadSignature", "Clock", "Result", "Serving", "run_job", "serving", "verify", "work_off"]

_numbers = itertools.count(1)


class Clock:
    """A clock that moves only when it is advanced: `Store(url, clock=clock)`."""

    def __init__(self, at: float = 1_000_000_000.0) -> None:
        self.at = at

    def __call__(self) -> float:
        """The time now, in seconds since 1970."""
        return self.at

    def advance(self, seconds: float) -> None:
        """Moves the clock forward."""
        self.at += seconds


@dataclass(frozen=True, slots=True)
class Result:
    """How a job ended."""

    outcome: Outcome
    values: Mapping[str, Any] = field(default_factory=dict)
    error: str | None = None
    after: float | None = None
    notes: tuple[str, ...] = ()
    also: tuple[tuple[str, dict[str, Any]], ...] = ()
    job: Job | None = None


def run_job(queue: Queue, row: Mapping[str, Any], *, attempt: int = 1, key: Any = None) -> Result:
    """Runs the queue's handler on a row, without a database: what would be written is in the result.

    >>> result = run_job(invoices, {"id": 7, "url": "https://…"})
    >>> assert result.outcome == "done" and result.values["total"] == 12
    """
    if queue.function is None:
        raise ValueError(f"queue {queue.name!r} has no handler")
    number = next(_numbers)
    key = row.get(queue.key or "id", number) if key is None else key
    job = Job(queue, key, str(key), dict(row), n=attempt, token=f"test-{number}", attempt=attempt, worker="test")
    notes: list[str] = []
    job._on_note = lambda noted: notes.append(noted._note or "")
    settlement = _run(job)
    return Result(
        settlement.outcome,
        dict(settlement.values),
        settlement.error,
        settlement.after,
        tuple(notes),
        tuple(job._also),
        job,
    )


async def work_off(store: Store, queue: Queue, *, limit: int = 1000, worker: str = "test") -> list[Result]:
    """Claims and runs every due row of the queue in this task, one after the other; returns the results."""
    results: list[Result] = []
    while len(results) < limit:
        jobs = await store.claim(queue, 1, worker)
        if not jobs:
            break
        job = jobs[0]
        settlement = await _settlement(job)
        [verdict] = await store.settle([settlement])
        results.append(
            Result(
                verdict.outcome or "superseded",
                dict(settlement.values),
                verdict.error or settlement.error,
                settlement.after,
                job=job,
            )
        )
    return results


def _run(job: Job) -> Settlement:
    return asyncio.run(_settlement(job))


async def _settlement(job: Job) -> Settlement:
    """Runs the handler as a worker would, here and now."""
    run = Run(job)
    try:
        result = job.queue.function(job)  # type: ignore[misc]
        settlement = settle_result(job, await result if inspect.isawaitable(result) else result)
    except Exception as error:
        settlement = settle_error(run, error) or Settlement(job, "released")
    finally:
        job.close()
    return settlement
