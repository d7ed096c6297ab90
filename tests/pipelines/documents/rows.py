"""Rows of the document tables, as the pipeline leaves them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from tabellion import Store
from tabellion.pipelines.documents import tables
from tests.pipelines.documents.results import field
from tests.workers import ask

DAY = datetime(2024, 2, 28, 12, tzinfo=UTC).timestamp()


def insert(url: str, *documents: Mapping[str, Any]) -> None:
    """Insert documents with the given columns; `fields` are their values, `review` is their item's status."""

    async def run(store: Store) -> None:
        await tables.SCHEMA.prepare(store)
        for document in documents:
            await _insert(store, document)

    ask(url, run)


async def _insert(store: Store, given: Mapping[str, Any]) -> None:
    more = dict(given)
    fields, review, locked = more.pop("fields", {}), more.pop("review", None), more.pop("locked", ())
    shown = {name: field(value) for name, value in fields.items()}
    row = {
        "id": "", "status": "completed", "found_type": "lease", "type_key": "lease/1/0123456789abcdef",
        "sha256": "ab" * 32, "bytes": 10, "name": "lease.pdf", "media": "application/pdf", "blob": "x", "pages": 2,
        "verdict": "accept", "result": json.dumps({"fields": shown, "issues": [], "pages": [], "notes": ["n"]}),
        "created_at": DAY, "completed_at": DAY + 5,
    } | more  # fmt: skip
    row.setdefault("key", f"key {row['id']}")
    await store.database.fetch(*_statement(store, "tabellion_documents", row))
    for place, (name, one) in enumerate(shown.items()):
        values = {
            "document_id": row["id"], "name": name, "place": place, "value": json.dumps(one["value"]),
            "confidence": one["confidence"], "page": 1, "box": json.dumps(one["box"]), "quote": one["quote"],
            "source": "text", "reasons": json.dumps(one["reasons"]), "locked": name in locked,
        }  # fmt: skip
        await store.database.fetch(*_statement(store, "tabellion_extracted_fields", values))
    if review is not None:
        values = {
            "id": f"r{row['id']}", "document_id": row["id"], "status": review, "priority": 0.5, "confidence": 0.5,
            "complexity": 0.5, "value": 0.5, "reasons": "[]", "created_at": DAY, "due_at": DAY,
        }  # fmt: skip
        await store.database.fetch(*_statement(store, "tabellion_review_items", values))


def _statement(store: Store, table: str, row: Mapping[str, Any]) -> tuple[Any, ...]:
    marks = []
    for number, name in enumerate(row, 1):
        timed = name.endswith("_at") and store.dialect == "postgresql"
        marks.append(f"to_timestamp(CAST(${number} AS double precision))" if timed else f"${number}")
    return (f"INSERT INTO {table} ({', '.join(row)}) VALUES ({', '.join(marks)})", *row.values())
