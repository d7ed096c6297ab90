"""Failed rows grouped by error."""

from __future__ import annotations

import pytest

from tabellion import Store
from tabellion.engine import controls
from tabellion.engine.timestamps import iso
from tabellion.monitor import failures
from tabellion.monitor.fingerprint import fingerprint
from tabellion.testing import Clock
from tests.engine.made_tables import asynchronous, rows, run, tasks
from tests.monitor.settled import fail, settle


@asynchronous
async def test_similar_errors_are_one_group(store: Store, clock: Clock) -> None:
    """The largest first, with count, first and last time, and the newest as a sample."""
    queue = await tasks(store, 10)
    began = clock.at
    for number in range(3):
        await fail(store, queue, f"no file /in/{number}/x.pdf")
        clock.advance(60.0)
    await fail(store, queue, "HTTP 503")
    await settle(store, queue)
    found = await failures.groups(store, queue)
    assert (found["rows"], found["whole"]) == (4, True)
    [paths, status] = found["groups"]
    assert (paths["count"], paths["shape"], paths["key"]) == (3, "no file <path>", "3")
    assert paths["message"] == "no file …/x.pdf"
    assert (paths["first_at"], paths["last_at"]) == (iso(began), iso(began + 120.0))
    assert (status["count"], status["shape"], status["fingerprint"]) == (1, "HTTP 503", fingerprint("HTTP 503"))


@asynchronous
async def test_only_current_failures_count_by_their_last_error(store: Store) -> None:
    """A row that was retried and is done, or failed otherwise, is not in its old group."""
    queue = await tasks(store, 3)
    await fail(store, queue, "old", "old", "old")
    assert await controls.restart(store, queue, [1, 2]) == 2
    await settle(store, queue)
    await fail(store, queue, "new")
    found = await failures.groups(store, queue)
    assert {group["shape"]: (group["count"], group["key"]) for group in found["groups"]} == {
        "old": (1, "3"), "new": (1, "2"),
    }  # fmt: skip


@asynchronous
async def test_rows_failed_by_others_are_grouped_by_their_own_column(store: Store) -> None:
    """The register does not know them; without an error text they are a group too."""
    queue = await tasks(store)
    await run(store, "INSERT INTO tasks (id, status, error) VALUES (1, 'failed', 'by hand'), (2, 'failed', NULL)")
    found = await failures.groups(store, queue)
    assert sorted(group["shape"] for group in found["groups"]) == ["", "by hand"]
    assert all(group["first_at"] is None for group in found["groups"])
    assert await failures.retry(store, queue, fingerprint(None)) == 1
    assert [one["status"] for one in await rows(store)] == ["failed", "new"]


@asynchronous
async def test_a_group_is_retried_as_a_whole(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many there are, beyond those shown too, and no others."""
    monkeypatch.setattr(failures, "PAGE", 3)
    monkeypatch.setattr(failures, "MOST", 6)
    queue = await tasks(store, 20)
    await fail(store, queue, *[f"row {number} is bad" if number % 2 else "HTTP 500" for number in range(20)])
    found = await failures.groups(store, queue)
    assert (found["rows"], found["whole"]) == (6, False)
    assert await failures.retry(store, queue, fingerprint("row 1 is bad")) == 10
    assert [one["status"] for one in await rows(store)] == ["failed", "new"] * 10
    monkeypatch.undo()
    found = await failures.groups(store, queue)
    assert [(group["shape"], group["count"]) for group in found["groups"]] == [("HTTP 500", 10)]


@asynchronous
async def test_an_unknown_fingerprint_retries_nothing(store: Store) -> None:
    """Zero is an answer."""
    queue = await tasks(store, 1)
    await fail(store, queue, "bad")
    assert await failures.retry(store, queue, "0" * 16) == 0
