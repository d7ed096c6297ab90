"""Whether documents are reviewed on time."""

from __future__ import annotations

from tabellion import Store
from tabellion.engine.sql import instant
from tabellion.engine.timestamps import iso
from tabellion.monitor.answer_cache import AnswerCache
from tabellion.pipelines.documents import tables
from tabellion.pipelines.documents.review.sla import DAY, SOON, sla
from tabellion.testing import Clock
from tests.engine.made_tables import asynchronous, run
from tests.pipelines.documents.review.items import put_item


async def put(
    store: Store, name: str, due_at: float, status: str = "pending", finished_at: float | None = None
) -> None:
    """Add an item due, and finished, at these times."""
    await put_item(store, name, status=status)
    finished = "NULL" if finished_at is None else instant(finished_at, store.dialect)
    await run(
        store,
        f"""UPDATE tabellion_review_items SET due_at = {instant(due_at, store.dialect)}, finished_at = {finished}
WHERE document_id = '{name}'""",
    )


@asynchronous
async def test_open_items_are_due_soon_or_late(store: Store, clock: Clock) -> None:
    """Late from the deadline on; soon from two hours before; the next one is named."""
    await tables.SCHEMA.prepare(store)
    now = clock.at
    empty = await sla(store, AnswerCache())
    assert (empty["open"], empty["overdue"], empty["soon"], empty["next_at"]) == (0, 0, 0, None)
    assert (empty["due"], empty["compliance"]) == (0, None)
    await put(store, "late", now - 1, "in_review")
    await put(store, "soon", now + SOON - 1)
    await put(store, "later", now + SOON + 1)
    await put(store, "done", now - 100, "approved", now - 200)
    found = await sla(store, AnswerCache())
    assert (found["open"], found["in_review"], found["overdue"], found["soon"]) == (3, 1, 1, 1)
    assert found["next_at"] == iso(now + SOON - 1)


@asynchronous
async def test_the_share_reviewed_on_time_in_a_week(store: Store, clock: Clock) -> None:
    """Of the items finished within seven days and those late now, the share finished before the deadline."""
    await tables.SCHEMA.prepare(store)
    now = clock.at
    await put(store, "kept", now, "corrected", now - 10)
    await put(store, "kept too", now - DAY, "rejected", now - DAY)
    await put(store, "missed", now - DAY - 10, "approved", now - DAY)
    await put(store, "long ago", now - 9 * DAY, "approved", now - 8 * DAY)
    await put(store, "still open", now - 1)
    found = await sla(store, AnswerCache())
    assert [(one["finished"], one["kept"]) for one in found["days"]] == [(0, 0)] * 5 + [(2, 1), (1, 1)]
    assert found["days"][-1]["at"] == iso(now // DAY * DAY)
    assert (found["kept"], found["due"], found["compliance"]) == (2, 4, 0.5)
