"""Adding texts and listing them."""

from __future__ import annotations

import uuid
from typing import Any

from tabellion import Store
from tabellion.accounts import audit
from tabellion.engine.sql import NOW


async def add_text(store: Store, content: str, actor: str) -> str:
    """Queues a text and records who did; returns its id."""
    id_ = uuid.uuid4().hex
    insert = f"INSERT INTO tabellion_checksums (id, content, created_at) VALUES ($1, $2, {NOW})"
    entry = audit.AuditEntry("checksum_added", actor, id_)
    await store.database.transact([(insert, [id_, content]), audit.bind_entry(store.dialect, entry)])
    await store.database.wake()
    return id_


async def list_newest(store: Store) -> list[dict[str, Any]]:
    """The last hundred."""
    return await store.database.fetch(
        "SELECT id, status, sha256 FROM tabellion_checksums ORDER BY created_at DESC, id LIMIT 100"
    )
