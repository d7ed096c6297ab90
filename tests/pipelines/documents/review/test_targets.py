"""Targets of document types: the share of their reviews that were finished in time."""

from __future__ import annotations

import pytest

from tabellion import Store
from tabellion.pipelines.documents import tables
from tabellion.pipelines.documents.review.sla import DAY
from tabellion.pipelines.documents.review.targets import measure_reviewed
from tabellion.testing import Clock
from tests.engine.made_tables import asynchronous, run
from tests.pipelines.documents.review.items import put_document
from tests.pipelines.documents.review.test_sla import put as put_item


async def put(
    store: Store, name: str, due_at: float, status: str = "pending", finished_at: float | None = None
) -> None:
    """Add a document of this id with an item due, and finished, at these times."""
    id = await put_document(store)  # noqa: A001
    await run(store, f"UPDATE tabellion_documents SET id = '{name}' WHERE id = '{id}'")
    await put_item(store, name, due_at, status, finished_at)


@asynchronous
async def test_the_share_of_a_type_that_was_reviewed_in_time(store: Store, clock: Clock) -> None:
    """Of those finished in seven days or overdue now; other types, and older reviews, do not count."""
    await store.open()
    assert await measure_reviewed(store, "bill") is None
    await tables.SCHEMA.prepare(store)
    assert await measure_reviewed(store, "bill") is None
    now = clock.at
    await put(store, "kept", now, "corrected", now - 10)
    await put(store, "kept too", now - DAY, "approved", now - DAY)
    await put(store, "missed", now - DAY - 10, "approved", now - DAY)
    await put(store, "long ago", now - 9 * DAY, "approved", now - 8 * DAY)
    await put(store, "overdue", now - 1)
    await put(store, "not due", now + 1)
    assert await measure_reviewed(store, "bill") == pytest.approx(0.5)
    await run(store, "UPDATE tabellion_documents SET found_type = 'receipt' WHERE id = 'missed'")
    assert await measure_reviewed(store, "bill") == pytest.approx(2 / 3)
    assert await measure_reviewed(store, "receipt") == 0.0
