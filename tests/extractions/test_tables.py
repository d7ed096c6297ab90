"""The table of the extraction queue: created if missing, otherwise not changed."""

from __future__ import annotations

import re
import uuid
from typing import Any

from tabellion import Queue, Store
from tabellion.engine.tables import declaration
from tabellion.extractions.row import ExtractionRow
from tabellion.extractions.states import ExtractionStatus
from tabellion.extractions.tables import SCHEMA, TABLE
from tests.extractions.handmade import make_by_hand
from tests.workers import ask

#: Both lives of a row.
QUEUES = (
    Queue(TABLE, name="extraction", status="status_id", ready=1, running=2, done=3, failed=4,
          worker="worker_id", started_at="processing_started_at", error="error_message"),
    Queue(TABLE, name="ocr", status="status_id", ready=3, running=6, done=5, failed=4,
          worker="ocr_worker_id", started_at="ocr_started_at", error="ocr_error", attempts="ocr_attempts",
          max_attempts="ocr_max_attempts"),
)  # fmt: skip


def test_a_new_table_has_the_names_that_its_users_expect(url: str) -> None:
    """Every column of a row, a UUID for its key, and an index for each queue."""

    async def go(store: Store) -> None:
        await SCHEMA.prepare(store)
        table = await store.table(TABLE)
        assert table is not None
        assert set(table.columns) == set(ExtractionRow.__annotations__)
        for queue in QUEUES:
            bound = declaration.bind(queue, table, store.dialect)
            assert bound.has_index()
        [row] = await store.database.fetch(f"INSERT INTO {TABLE} (lot) VALUES ('1 234 567') RETURNING *")
        assert uuid.UUID(row["id"]).version == 4
        assert (row["status_id"], row["document_type"], row["ocr_attempts"], row["ocr_max_attempts"]) == (
            ExtractionStatus.EN_ATTENTE, "index", 0, 3,
        )  # fmt: skip

    ask(url, go)


def test_a_table_made_by_hand_is_left_alone(url: str) -> None:
    """Its columns, rows, indexes and rights are unchanged."""

    async def look(store: Store) -> list[Any]:
        table = await store.table(TABLE)
        assert table is not None
        rows = await store.database.fetch(f"SELECT * FROM {TABLE}")
        rights = []
        if store.dialect == "postgresql":
            query = "SELECT relacl::text, relfilenode FROM pg_class WHERE relname = $1"
            rights = await store.database.fetch(query, TABLE)
        return [list(table.columns.items()), table.indexes, [dict(row) for row in rows], [dict(one) for one in rights]]

    async def go(store: Store) -> None:
        await make_by_hand(store)
        if store.dialect == "postgresql":
            await store.database.fetch("CREATE ROLE extraction_reader")
            await store.database.fetch(f"GRANT SELECT ON {TABLE} TO extraction_reader")
        key = str(uuid.uuid4())
        await store.database.fetch(f"INSERT INTO {TABLE} (id, notes) VALUES ($1, 'kept') RETURNING id", key)
        before = await look(store)
        assert await SCHEMA.version(store.database) == 1
        await SCHEMA.migrate(store.database)
        await SCHEMA.prepare(store)
        assert await look(store) == before
        if store.dialect == "postgresql":
            await store.database.fetch(f"REVOKE ALL ON {TABLE} FROM extraction_reader")
            await store.database.fetch("DROP OWNED BY extraction_reader")
            await store.database.fetch("DROP ROLE extraction_reader")

    ask(url, go)


def test_a_table_we_created_is_not_granted_to_others() -> None:
    """Supabase grants access to tables of `public`: we revoke it on ours, and leave tables made by hand alone."""
    assert re.search(rf"REVOKE ALL ON {TABLE}\b", SCHEMA.script("postgresql", 0))
    assert "REVOKE" not in SCHEMA.script("postgresql", 1)
