"""Due rows: exactly what a worker would claim now."""

from __future__ import annotations

from tabellion import Store
from tabellion.engine import controls
from tabellion.engine.celery.due_rows import count_running, find_due_keys
from tests.table_owner import jobs_queue, owning
from tests.workers import ask


def test_due_rows_are_what_a_claim_would_take(url: str) -> None:
    """Neither a claimed row, nor one whose retry is not due, nor one that `where` excludes; none of a paused queue."""
    queue = jobs_queue(where="size IS NULL OR size < 100")
    with owning(url) as owner:
        owner("INSERT INTO jobs (id, size) VALUES (1, 1), (2, 1), (3, 1), (4, 1), (5, 100)")

    async def look(store: Store) -> None:
        bound = await store.bind(queue)
        assert sorted(await find_due_keys(store.database, bound, 100)) == ["1", "2", "3", "4"]
        assert len(await find_due_keys(store.database, bound, 3)) == 3
        claimed, retried, again = await store.claim(queue, 3, "worker")
        await store.retry(retried, 3600.0, "later")
        await store.retry(again, 0.0, "now")
        assert sorted(await find_due_keys(store.database, bound, 100)) == [again.text_key, "4"]
        assert await count_running(store.database, queue.name) == 1
        await store.release(claimed)
        assert claimed.text_key in await find_due_keys(store.database, bound, 100)
        await controls.pause(store, queue, "for a test")
        assert await find_due_keys(store.database, bound, 100) == []

    ask(url, look)
