"""What makes a row be in a state, for those who look."""

from __future__ import annotations

from tabellion import Store
from tabellion.monitor.counting import counts
from tabellion.monitor.pace import Pace
from tabellion.monitor.rows import rows
from tabellion.monitor.states import holds, words
from tabellion.pipelines.documents import tables
from tabellion.review.queue import ENDINGS, review_queue
from tests.engine.tables import asynchronous, tasks_queue
from tests.review.items import put_item


@asynchronous
async def test_a_review_is_done_in_every_way_it_ends(store: Store) -> None:
    """Approved, corrected and rejected items are counted and listed together."""
    await tables.prepare(store)
    for number, status in enumerate(("pending", "in_review", *ENDINGS)):
        await put_item(store, f"d{number}", status=status)
    for ending in ENDINGS:
        found = await counts(store, review_queue(ending), Pace())
        assert (found.ready, found.running, found.done, found.failed) == (1, 1, 3, 0)
    listed, _ = await rows(store, review_queue(), "done", None, 10)
    assert len(listed) == 3
    assert words(review_queue(), "done") == "status = 'approved' or status = 'corrected' or status = 'rejected'"


def test_other_states_are_as_declared() -> None:
    """And so is a queue of the same name on another table."""
    assert holds(tasks_queue(name="review"), "done", "sqlite") == "t.\"status\" = 'done'"
    assert words(review_queue("rejected"), "ready") == "status = 'pending'"
