"""The table `tabellion_review_drafts`: unsaved input of people, which nobody else sees."""

from __future__ import annotations

import json
from typing import Any

from tabellion.accounts.audit import Statement
from tabellion.engine import sql
from tabellion.engine.moves import Numbered
from tabellion.engine.sql import NOW
from tabellion.engine.store import Store
from tabellion.engine.timestamps import iso


def save(item: str, person: str, body: str) -> Numbered:
    """Stores a person's input for an item; returns the item's id."""
    text = f"""INSERT INTO tabellion_review_drafts (item_id, person, body, saved_at) VALUES ($1, $3, $2, {NOW})
ON CONFLICT (item_id, person) DO UPDATE SET body = excluded.body, saved_at = excluded.saved_at RETURNING item_id"""
    return text, [item, body, person]


async def load(store: Store, item: str, person: str) -> dict[str, Any] | None:
    """A person's input for an item, with the time when it was saved."""
    found = await store.database.fetch(
        f"""SELECT body, {sql.epoch("saved_at", store.dialect)} AS saved_at FROM tabellion_review_drafts
WHERE item_id = $1 AND person = $2""",
        item, person,
    )  # fmt: skip
    return dict(json.loads(found[0]["body"])) | {"saved_at": iso(found[0]["saved_at"])} if found else None


def delete(item: str) -> Statement:
    """Deletes the drafts of an item."""
    return "DELETE FROM tabellion_review_drafts WHERE item_id = :id", {"id": item}
