"""Review's tables come with version 2 of the document tables, also where version 1 has rows already."""

from __future__ import annotations

from typing import Any

import pytest

from tabellion import Store
from tabellion.accounts import audit
from tabellion.accounts import tables as accounts
from tabellion.accounts.tables import GENESIS
from tabellion.errors import StoreError
from tabellion.pipelines.documents import tables
from tests.table_owner import owning
from tests.workers import ask

ITEM = """INSERT INTO tabellion_review_items
  (id, document_id, priority, confidence, complexity, value, reasons, created_at,
  due_at) VALUES ('i1', 'd1', 0.5, 0.5, 0.5, 0.5, '[]', {now}, {now})"""
FIELDS = """INSERT INTO tabellion_extracted_fields
  (document_id, name, place, value, confidence, source, reasons, locked)
  VALUES ('d1', 'total', 0, '"1.00"', 1, 'person', '[]', TRUE), ('d1', 'vendor', 1, '"x"', 0.5, 'text', '[]', FALSE)"""


def test_version_1_is_migrated(url: str) -> None:
    """Existing rows stay, locked fields count as corrected, and the end of the chain is there."""
    dialect = Store(url).dialect
    now = "now()" if dialect == "postgresql" else "0"
    whole = tables.SCHEMA.statements(dialect, 0)
    cut = next(place for place, step in enumerate(whole) if "VALUES (1," in step and "documents_schema" in step) + 1
    with owning(url, create=False) as owner:
        for step in [*whole[:cut], ITEM.format(now=now), FIELDS]:
            owner(step)

    async def go(store: Store) -> tuple[list[dict[str, object]], list[dict[str, object]]]:
        before = await tables.SCHEMA.version(store.database)
        await tables.SCHEMA.prepare(store)
        assert (before, await tables.SCHEMA.version(store.database)) == (1, tables.SCHEMA.current)
        assert (await audit.verify(store)).whole
        items = await store.database.fetch("SELECT id, proximity, assigned_to, status FROM tabellion_review_items")
        fields = await store.database.fetch(
            "SELECT name, state, manually_corrected, read_value FROM tabellion_extracted_fields ORDER BY place"
        )
        return items, fields

    items, fields = ask(url, go)
    assert items == [{"id": "i1", "proximity": 0, "assigned_to": None, "status": "pending"}]
    assert [(row["name"], row["state"], bool(row["manually_corrected"])) for row in fields] == [
        ("total", "corrected", True),
        ("vendor", None, False),
    ]


def test_version_3_is_migrated(url: str) -> None:
    """A draft stays its author's, the chain continues, and no entry is earlier than its last."""
    dialect = Store(url).dialect
    now = "now()" if dialect == "postgresql" else "0"
    whole = tables.SCHEMA.statements(dialect, 0)
    cut = next(place for place, step in enumerate(whole) if "VALUES (3," in step and "documents_schema" in step) + 1
    body = audit.canonical(audit.AuditEntry("claimed", "anna", "d1", "i1").body())
    at = "2999-01-01T00:00:00.000000Z" if dialect == "postgresql" else "2999-01-01T00:00:00.000Z"
    mark = audit.digest(GENESIS, 1, at, body)
    with owning(url, create=False) as owner:
        for step in [*accounts.SCHEMA.steps(dialect, 1), *whole[:cut], ITEM.format(now=now)]:
            owner(step)
        owner(f"UPDATE tabellion_review_items SET draft = '{{}}', draft_by = 'anna', draft_at = {now}")
        owner(
            """INSERT INTO tabellion_audit_log (n, at, document_id, item_id, actor, action, body, previous, hash)
VALUES (1, $1, 'd1', 'i1', 'anna', 'claimed', $2, $3, $4)""",
            at, body, GENESIS, mark,
        )  # fmt: skip
        if dialect == "postgresql":
            owner("UPDATE tabellion_audit_head SET n = 1, hash = $1", mark)

    async def go(store: Store) -> Any:
        await tables.SCHEMA.prepare(store)
        drafts = await store.database.fetch("SELECT item_id, person, body FROM tabellion_review_drafts")
        await store.database.transact(
            [audit.bind_entry(store.dialect, audit.AuditEntry("released", "anna", "d1", "i1"))]
        )
        return drafts, await audit.verify(store), [one["at"] for one in await audit.history(store, item="i1")]

    drafts, verdict, times = ask(url, go)
    assert drafts == [{"item_id": "i1", "person": "anna", "body": "{}"}]
    assert (verdict.whole, verdict.n) == (True, 2)
    assert times == [at, at]


@pytest.mark.parametrize(
    "statement",
    ["UPDATE tabellion_audit_log SET actor = 'nobody'", "DELETE FROM tabellion_audit_log", "DELETE "
    "FROM tabellion_audit_log WHERE n = 1",
     "INSERT OR REPLACE INTO tabellion_audit_log (n, at, actor, action, body, previous, hash) "
     "VALUES (1, '', '', '', '', '', '')",
     "TRUNCATE audit_log", "UPDATE tabellion_audit_head SET n = 0", "UPDATE tabellion_audit_head SET n = n + 1",
     "UPDATE tabellion_audit_head SET n = n - 1, hash = previous", "DELETE "
     "FROM tabellion_audit_head", "TRUNCATE audit_head",
     "UPDATE tabellion_audit_head SET at = NULL",
     "INSERT OR REPLACE INTO tabellion_audit_head (id, n, previous, hash) VALUES (1, 0, '', '')"],
)  # fmt: skip
def test_the_audit_trail_cannot_be_changed(url: str, statement: str) -> None:
    """On both databases, by anyone."""

    async def go(store: Store) -> None:
        await tables.SCHEMA.prepare(store)
        await store.database.transact([audit.bind_entry(store.dialect, audit.AuditEntry("deleted", "anna", "d1"))])
        await store.database.fetch(statement)

    with pytest.raises(StoreError):
        ask(url, go)
    assert ask(url, audit.verify).n == 1
