"""Rejections: stored by code, and read as earlier versions stored them."""

from __future__ import annotations

from typing import Any

import pytest

from tabellion import Store
from tabellion.accounts import audit
from tabellion.accounts.audit import AuditEntry
from tabellion.pipelines.documents import lookup
from tabellion.pipelines.documents.review import claims, finishing, item_view, items
from tabellion.pipelines.documents.review.rejection import (
    REJECTIONS,
    complete_history,
    describe_reason,
    load_rejection,
    store_rejection,
    summarize,
)
from tests.pipelines.documents.review.items import ANNA, put, types
from tests.workers import ask


@pytest.mark.parametrize("note", [None, "page 2: black", "{"])
@pytest.mark.parametrize("code", REJECTIONS)
def test_a_rejection_is_read_as_it_was_stored(code: str, note: str | None) -> None:
    """By its code and the reviewer's note, also in the form of earlier versions."""
    expected = {**describe_reason(code), "note": note}
    loaded = load_rejection(store_rejection(code, note))
    assert loaded == expected
    assert load_rejection(summarize(loaded)) == expected  # earlier versions stored the summary


@pytest.mark.parametrize("stored", [None, "", "it was smudged: twice"])
def test_other_texts_are_no_rejections(stored: str | None) -> None:
    """They are shown as they are."""
    assert load_rejection(stored) is None


def test_items_and_audit_entries_of_earlier_versions_are_readable(url: str) -> None:
    """Their `code: note` gives the same answers as a rejection of today."""

    async def answers(store: Store, item: str) -> list[Any]:
        row = await items.row(store, item)
        shown = item_view.serialize_item(row)
        document = await lookup.get(store, row["document_id"], types)
        assert document is not None
        assert document["review"] is not None
        [last] = complete_history((await audit.history(store, item=item))[-1:])
        more = {name: last["more"][name] for name in ("code", "note")}
        return [shown["reason"], shown["rejection"], document["review"]["reason"], last["reason"], more]

    async def go(store: Store) -> None:
        new, old = await put(store), await put(store)
        for item in (new, old):
            await claims.claim(store, item, ANNA)
            await finishing.reject(store, item, ANNA, "unreadable", "page 2 is black")
        document = (await items.row(store, old))["document_id"]
        entry = AuditEntry("rejected", "anna", document, old, reason="unreadable: page 2 is black")
        former = ("UPDATE tabellion_review_items SET reason = $1 WHERE id = $2", [entry.reason, old])
        await store.database.transact([former, audit.bind_entry(store.dialect, entry)])
        assert await answers(store, old) == await answers(store, new)
        assert (await answers(store, old))[0] == "unreadable: page 2 is black"

    ask(url, go)
