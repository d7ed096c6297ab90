"""An item with everything that is shown of it."""

from __future__ import annotations

import json
from typing import Any

from tabellion import Store
from tabellion.pipelines.documents.review import item_view, items
from tabellion.pipelines.documents.review.people import Person
from tests.pipelines.documents.review.items import put, types
from tests.workers import ask

DIFFERS = {
    "code": "xml_differs", "severity": "warning", "message": "the XML says 12.00", "fields": ["total"],
    "rule": "the same invoice twice",
}  # fmt: skip


def test_findings_are_shown_after_outputs_were_rewritten(url: str) -> None:
    """Outputs leave out what people settled; unlocking a field shows it again, here and while typing."""

    async def go(store: Store) -> Any:
        item = await put(store)
        document = (await items.row(store, item))["document_id"]
        [row] = await store.database.fetch("SELECT result FROM tabellion_documents WHERE id = $1", document)
        result = json.loads(row["result"]) | {"issues": [], "read_issues": [DIFFERS]}
        await store.database.fetch(
            "UPDATE tabellion_documents SET result = $2 WHERE id = $1", document, json.dumps(result)
        )
        whole = await item_view.get(store, types, item, Person("anna", 2))
        return whole["issues"], (await item_view.check(store, types, item, {}))["issues"]

    shown, checked = ask(url, go)
    assert [one["code"] for one in shown] == [one["code"] for one in checked] == ["xml_differs"]
