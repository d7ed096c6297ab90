"""Review items and people of tests, put straight into the tables."""

from __future__ import annotations

from typing import Any

from tabellion import Store
from tabellion.engine import sql
from tabellion.engine.sql import NOW
from tabellion.pipelines.documents.submit import new_id


async def put_user(
    store: Store, name: str, role: str = "reviewer", *, available: bool = True, disabled: bool = False
) -> None:
    """A person who may sign in."""
    await store.database.fetch(
        f"""INSERT INTO users (id, name, role, available, created_at, disabled_at)
VALUES ($1, $2, $3, $4, {NOW}, {NOW if disabled else "NULL"})""",
        new_id(), name, role, available,
    )  # fmt: skip


async def put_item(store: Store, document: str, **columns: Any) -> str:
    """An item that waits, due in an hour; its id."""
    given = {
        "id": new_id(), "document_id": document, "priority": 0.5, "confidence": 0.5, "complexity": 0.0, "value": 0.0,
        "reasons": "[]",
    } | columns  # fmt: skip
    marks = ", ".join(f"${place}" for place in range(1, len(given) + 1))
    await store.database.fetch(
        f"""INSERT INTO review_items ({", ".join(given)}, created_at, due_at)
VALUES ({marks}, {NOW}, {sql.later("3600", store.dialect)})""",
        *given.values(),
    )
    return str(given["id"])
