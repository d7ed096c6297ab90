"""Streams report every document, however many there are."""

from __future__ import annotations

from typing import Any

import pytest

from tabellion import Store
from tabellion.engine.sql import NOW
from tabellion.pipelines.documents import tables
from tabellion.pipelines.documents.routes import updates
from tabellion.pipelines.documents.routes.updates import DocumentUpdate, Updates
from tests.pipelines.documents.review.items import put_document
from tests.workers import ask


@pytest.mark.parametrize("column", ["created_at", "completed_at"])
def test_a_document_deleted_between_two_pages_hides_no_other(
    url: str, column: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next page continues where the last one ended, whether or not its last document still exists."""
    monkeypatch.setattr(updates, "MOST", 2)

    async def go(store: Store) -> tuple[list[str], list[str]]:
        await tables.SCHEMA.prepare(store)
        ids = sorted([await put_document(store) for _ in range(7)])
        # They were created one after the other and ended at the same time, so that the id decides among them.
        await store.database.fetch(f"UPDATE tabellion_documents SET completed_at = {NOW}")
        watching = Updates(store)
        fetch = watching._fetch

        async def fetch_and_delete(where: str, *values: Any) -> list[DocumentUpdate]:
            rows = await fetch(where, *values)
            for last in rows[-1:]:
                await store.database.fetch("DELETE FROM tabellion_documents WHERE id = $1", last.id)
            return rows

        monkeypatch.setattr(watching, "_fetch", fetch_and_delete)
        found = await watching._since(column, 0.0)
        return ids, [update.id for update in found]

    ids, found = ask(url, go)
    assert found == ids
