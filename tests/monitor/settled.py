"""Past work, created by the real moves: claimed and settled, one job at a time."""

from __future__ import annotations

from typing import Any

from tabellion import Queue, Store
from tabellion.engine.settlement import Outcome, Settlement
from tests.engine.made_tables import claim_one


async def settle(store: Store, queue: Queue, outcome: Outcome = "done", **options: Any) -> str:
    """Claim the next row and end it like this; return its key."""
    job = await claim_one(store, queue)
    job.cost = options.pop("cost", None)
    [verdict] = await store.settle([Settlement(job, outcome, **options)])
    assert verdict.is_accepted
    return job.text_key


async def fail(store: Store, queue: Queue, *errors: str) -> None:
    """Fail the next rows, each with its own error."""
    for error in errors:
        await settle(store, queue, "failed", error=error)
