"""Items are assigned to the person with the least to do, in one statement, and the trail says to whom."""

from __future__ import annotations

from typing import Any

from tabellion import Store
from tabellion.accounts import audit
from tabellion.accounts.audit import SYSTEM
from tabellion.pipelines.documents import tables
from tabellion.pipelines.documents.review import item_changes
from tests.pipelines.documents.review.items import put_item, put_user
from tests.workers import ask


async def assigned(store: Store, document: str) -> str | None:
    """Assign, and return to whom."""
    statements = item_changes.assign_to_least_loaded(store.dialect, document)
    await store.database.transact([audit.bind_statement(*one) for one in statements])
    rows = await store.database.fetch("SELECT assigned_to FROM tabellion_review_items WHERE document_id = $1", document)
    return str(rows[0]["assigned_to"]) if rows[0]["assigned_to"] else None


def test_the_person_with_the_least_to_do_gets_it(url: str) -> None:
    """Users who are away, deleted or viewers get nothing; the others take turns."""

    async def go(store: Store) -> Any:
        await tables.SCHEMA.prepare(store)
        for name, role, more in (
            ("anna", "reviewer", {}), ("ben", "admin", {}), ("eve", "viewer", {}),
            ("cleo", "reviewer", {"available": False}), ("dan", "operator", {"disabled": True}),
        ):  # fmt: skip
            await put_user(store, name, role, **more)
        given = []
        for number in range(5):
            await put_item(store, f"d{number}")
            given.append(await assigned(store, f"d{number}"))
        again = await assigned(store, "d0")
        await store.database.fetch("UPDATE tabellion_review_items SET status = 'approved' WHERE assigned_to = 'anna'")
        for number in range(5, 8):
            await put_item(store, f"d{number}")
            given.append(await assigned(store, f"d{number}"))
        return given, again, await audit.history(store, subject="d1"), await audit.verify(store)

    given, again, trail, verdict = ask(url, go)
    assert given == ["anna", "ben", "anna", "ben", "anna", "anna", "anna", "anna"]
    assert again == "anna"
    assert [(one["action"], one["actor"], one["before"], one["after"]) for one in trail] == [
        ("assigned", SYSTEM, None, "ben")
    ]
    assert (verdict.n, verdict.whole) == (8, True)


def test_without_reviewers_nothing_happens(url: str) -> None:
    """No user, no assignment and no entry."""

    async def go(store: Store) -> Any:
        await tables.SCHEMA.prepare(store)
        await put_item(store, "d0")
        return await assigned(store, "d0"), (await audit.verify(store)).n

    assert ask(url, go) == (None, 0)


def test_an_item_is_recorded_once(url: str) -> None:
    """Its creation and its assignment are in the trail; a second reading of the document adds nothing."""

    async def go(store: Store) -> Any:
        await tables.SCHEMA.prepare(store)
        await put_user(store, "anna")
        item = await put_item(store, "d0")
        for _ in range(2):
            statements = item_changes.record_creation(store.dialect, "d0")
            await store.database.transact([audit.bind_statement(*one) for one in statements])
        return item, await audit.history(store, subject="d0")

    item, trail = ask(url, go)
    assert [(one["action"], one["item_id"]) for one in trail] == [("created", item), ("assigned", item)]
    assert trail[1]["after"] == "anna"
