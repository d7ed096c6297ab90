"""Review items, documents and people written directly into the tables; and a document type with rules."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from tabellion import Store
from tabellion.engine import sql
from tabellion.engine.ids import new_id
from tabellion.engine.sql import NOW
from tabellion.pipelines.documents import tables
from tabellion.pipelines.documents.review.people import Person
from tabellion.reading.types.doctype import DocumentType
from tabellion.reading.types.typefile import compile_type

TEXT = """
name: bill
version: "3"
title: Bill
fields:
  vendor: {type: name, required: true, title: Vendor}
  date: {type: date}
  currency: {type: currency}
  paid: {type: bool}
  kind: {type: choice, enum: [goods, services]}
  subtotal: {type: money}
  tax: {type: money}
  total: {type: money, required: true}
  lines:
    type: list
    items:
      description: {type: text}
      amount: {type: money}
validation:
  - name: adds_up
    rule: abs(total - (subtotal + tax)) <= tolerance
    tolerance: 0.01
    message: The total is not the subtotal plus the tax.
  - name: small
    rule: total < 1000000
    severity: warning
    message: The total is large.
"""
BILL = compile_type(TEXT)
VALUES: dict[str, Any] = {
    "vendor": "ACME", "date": "2024-05-01", "currency": "EUR", "subtotal": "100.00", "tax": "20.00", "total": "120.00",
    "lines": [{"description": "bolt", "amount": "100.00"}],
}  # fmt: skip
ANNA, BEN, CLEO = Person("anna", 2), Person("ben", 2), Person("cleo", 3)


def types(name: str) -> DocumentType:
    """The types of the tests."""
    if name != "bill":
        raise KeyError(name)
    return BILL


async def put_user(
    store: Store, name: str, role: str = "reviewer", *, available: bool = True, disabled: bool = False
) -> None:
    """Add a person who may sign in."""
    await store.database.fetch(
        f"""INSERT INTO tabellion_users (id, name, role, available, created_at, disabled_at)
VALUES ($1, $2, $3, $4, {NOW}, {NOW if disabled else "NULL"})""",
        new_id(), name, role, available,
    )  # fmt: skip


async def put_item(store: Store, document: str, **columns: Any) -> str:
    """Add a waiting item due in an hour; return its id."""
    given = {
        "id": new_id(), "document_id": document, "priority": 0.5, "confidence": 0.5, "complexity": 0.0, "value": 0.0,
        "reasons": "[]",
    } | columns  # fmt: skip
    marks = ", ".join(f"${place}" for place in range(1, len(given) + 1))
    await store.database.fetch(
        f"""INSERT INTO tabellion_review_items ({", ".join(given)}, created_at, due_at)
VALUES ({marks}, {NOW}, {sql.later("3600", store.dialect)})""",
        *given.values(),
    )
    return str(given["id"])


async def put_document(
    store: Store, values: Mapping[str, Any] | None = None, *, name: str = "bill.pdf", type: str | None = "bill",  # noqa: A002
    status: str = "completed", confidence: float = 0.9,
) -> str:  # fmt: skip
    """Add a processed document with these fields; return its id."""
    id = new_id()  # noqa: A001
    given = VALUES if values is None else values
    read = {
        field: {"value": value, "confidence": confidence, "page": 1, "box": [0.1, 0.1, 0.2, 0.2], "quote": "as printed",
                "source": "text", "reasons": []}
        for field, value in given.items()
    }  # fmt: skip
    page = {"number": 1, "source": "text", "quality": 1.0, "size": [595.0, 842.0], "rotation": 0}
    reading = {"type": type, "type_version": "3", "pages": [page], "fields": read, "issues": []}
    await store.database.fetch(
        f"""INSERT INTO tabellion_documents
  (id, status, type, found_type, type_key, sha256, bytes, name, media, blob, key, pages,
  result, verdict, created_at) VALUES ($1, $2, NULL, $3, 'k', $6, 1, $4, 'application/pdf', 'b', $1, 1, $5, 'warn',
  {NOW})""",
        id, status, type, name, json.dumps(reading), hashlib.sha256(id.encode()).hexdigest(),
    )  # fmt: skip
    for place, (field, one) in enumerate(read.items()):
        await store.database.fetch(
            """INSERT INTO tabellion_extracted_fields
  (document_id, name, place, value, confidence, page, box, quote, source,
  reasons) VALUES ($1, $2, $3, $4, $5, 1, $6, 'as printed', 'text', '[]')""",
            id, field, place, json.dumps(one["value"]), confidence, json.dumps(one["box"]),
        )  # fmt: skip
    return id


async def put(store: Store, values: Mapping[str, Any] | None = None, **columns: Any) -> str:
    """Add a processed document that waits for review; return the item's id."""
    await tables.SCHEMA.prepare(store)
    about = {name: columns.pop(name) for name in ("name", "type", "status_of", "field_confidence") if name in columns}
    document = await put_document(
        store, values, name=about.get("name", "bill.pdf"), type=about.get("type", "bill"),
        status=about.get("status_of", "completed"), confidence=about.get("field_confidence", 0.9),
    )  # fmt: skip
    return await put_item(store, document, **columns)


async def trail(store: Store, item: str) -> list[tuple[str, str]]:
    """Return what happened to an item: actions and actors."""
    from tabellion.accounts import audit

    return [(one["action"], one["actor"]) for one in await audit.history(store, item=item)]
