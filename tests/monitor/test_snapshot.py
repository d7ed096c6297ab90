"""The state of one environment, as `tabellion status` prints it."""

from __future__ import annotations

from tabellion import Queue, Store
from tabellion.engine import controls
from tabellion.monitor import snapshot
from tests.engine.made_tables import asynchronous, tasks
from tests.monitor.settled import fail, settle


@asynchronous
async def test_errors_are_those_of_currently_failed_rows(store: Store) -> None:
    """Each row counts once, with its last error: as many as `retry --error` would retry."""
    queue = await tasks(store, 5)
    await fail(store, queue, "full", "full", "torn")
    assert [(one["error"], one["n"]) for one in await snapshot.errors(store, queue)] == [("full", 2), ("torn", 1)]
    assert await controls.restart(store, queue, ["1", "2"]) == 2
    assert [(one["error"], one["n"]) for one in await snapshot.errors(store, queue)] == [("torn", 1)]
    await settle(store, queue)
    await fail(store, queue, "torn")
    assert [(one["error"], one["n"]) for one in await snapshot.errors(store, queue)] == [("torn", 2)]
    assert await controls.restart(store, queue, error="torn") == 2
    assert await snapshot.errors(store, queue) == []


@asynchronous
async def test_a_queue_that_does_not_match_its_table_has_no_errors(store: Store) -> None:
    """Its problem is reported elsewhere."""
    await store.open()
    assert await snapshot.errors(store, Queue("nowhere", ready=1, running=2, done=3, failed=4)) == []
