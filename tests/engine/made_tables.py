"""The table most engine tests use, and short ways to look at it and at the register."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec

from tabellion import Job, Queue, Store

Arguments = ParamSpec("Arguments")

TASKS = """CREATE TABLE tasks (
  id integer PRIMARY KEY,
  status text NOT NULL DEFAULT 'new',
  kind text,
  result text,
  small integer CHECK (small < 100),
  error text,
  worker text,
  attempts integer NOT NULL DEFAULT 0,
  most integer,
  started_at timestamp with time zone,
  finished_at timestamp with time zone
)"""

STATES: dict[str, Any] = {"ready": "new", "running": "working", "done": "done", "failed": "failed"}
MIRRORS: dict[str, Any] = {
    "worker": "worker", "started_at": "started_at", "finished_at": "finished_at", "error": "error",
    "attempts": "attempts",
}  # fmt: skip


def asynchronous(test: Callable[Arguments, Coroutine[Any, Any, None]]) -> Callable[Arguments, None]:
    """Run an async test in its own event loop and close the stores it was given."""

    @functools.wraps(test)
    def run(*args: Arguments.args, **kwargs: Arguments.kwargs) -> None:
        async def story() -> None:
            try:
                await test(*args, **kwargs)
            finally:
                for value in kwargs.values():
                    if isinstance(value, Store):
                        await value.close()

        asyncio.run(story())

    return run


def tasks_queue(**options: Any) -> Queue:
    """Return a queue on the table with every mirror named."""
    return Queue("tasks", **({**STATES, **MIRRORS} | options))


async def tasks(store: Store, n: int = 0, **options: Any) -> Queue:
    """Create the table with ready rows 1 to n and return a queue on it."""
    await store.open()
    await run(store, TASKS)
    queue = tasks_queue(**options)
    if n:
        await store.add_many(queue, [{"id": number} for number in range(1, n + 1)])
    return queue


async def run(store: Store, *statements: str) -> None:
    """Run the owner's own SQL in one transaction."""
    await store.database.transact([(statement, ()) for statement in statements])


async def rows(store: Store, table: str = "tasks", by: str = "id") -> list[dict[str, Any]]:
    """Return every row of a table."""
    return await store.database.fetch(f'SELECT * FROM {table} ORDER BY "{by}"')


async def row(store: Store, key: Any = 1, table: str = "tasks", by: str = "id") -> dict[str, Any]:
    """Return one row of a table as it is now."""
    found: list[dict[str, Any]] = await store.database.fetch(f'SELECT * FROM {table} WHERE "{by}" = $1', key)
    return found[0]


async def attempts(store: Store, key: Any = None) -> list[dict[str, Any]]:
    """Return what the register keeps of one key, or of all, in order."""
    only, values = ("", []) if key is None else ("WHERE key = $1", [str(key)])
    return await store.database.fetch(f"SELECT * FROM tabellion_attempts {only} ORDER BY queue, key, n", *values)


async def outcomes(store: Store, key: Any = None) -> list[str | None]:
    """Return how each attempt ended; None while it is live."""
    return [attempt["outcome"] for attempt in await attempts(store, key)]


async def claim_one(store: Store, queue: Queue, worker: str = "w1") -> Job:
    """Claim exactly one job."""
    [job] = await store.claim(queue, 1, worker)
    return job
