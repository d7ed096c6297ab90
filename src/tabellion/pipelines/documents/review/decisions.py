"""People's decisions on fields, stored by the bytes and type of a document: later readings of the same start with
them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tabellion.accounts.audit import Statement
from tabellion.engine.moves import Numbered
from tabellion.engine.retention import PruneStep
from tabellion.engine.sql import NOW
from tabellion.engine.store import Store
from tabellion.engine.tables.table_walk import prune_window

TABLE = "tabellion_field_decisions"
#: The columns that a decision stores.
KEPT = ("value", "page", "box", "quote", "reasons", "state", "locked", "corrected_by", "old_value")


def note(sha256: str, type_name: str, name: str, columns: Mapping[str, Any]) -> Numbered:
    """The statement that stores a person's last decision on a field; an unlocked field has none."""
    if columns["state"] is None:
        return (
            "DELETE FROM tabellion_field_decisions WHERE sha256 = $1 AND type = $2 AND name = $3",
            [sha256, type_name, name],
        )
    marks = ", ".join(f"${place}" for place in range(4, len(KEPT) + 4))
    updates = ", ".join(f"{column} = excluded.{column}" for column in (*KEPT, "decided_at"))
    text = f"""INSERT INTO tabellion_field_decisions (sha256, type, name, {", ".join(KEPT)}, decided_at)
VALUES ($1, $2, $3, {marks}, {NOW}) ON CONFLICT (sha256, type, name) DO UPDATE SET {updates}"""
    return text, [sha256, type_name, name, *(columns[column] for column in KEPT)]


async def prune(store: Store, position: str | None, cutoff: str, *, dry_run: bool) -> PruneStep:
    """Deletes decisions of one window that were made before this time, on bytes that no document has any more."""
    if await store.table(TABLE) is None:
        return PruneStep()
    condition = f"""t.decided_at < {cutoff}
  AND NOT EXISTS (SELECT 1 FROM tabellion_documents AS d WHERE d.sha256 = t.sha256)"""
    return await prune_window(store, TABLE, position, condition, "t.decided_at", dry_run=dry_run)


def forget(sha256: str) -> Statement:
    """The statement that deletes decisions on bytes that no document has any more."""
    text = """DELETE FROM tabellion_field_decisions
WHERE sha256 = :sha256 AND NOT EXISTS (SELECT 1 FROM tabellion_documents AS d WHERE d.sha256 = :sha256)"""
    return text, {"sha256": sha256}
