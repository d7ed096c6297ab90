"""The tables of batches: rows of an earlier version, and the index that claims of refs use."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tabellion.engine import sql
from tabellion.engine.schema import Schema
from tabellion.engine.store import Store
from tabellion.pipelines.batches import tables
from tabellion.pipelines.batches.callbacks import message_id
from tabellion.pipelines.batches.pipeline import PIPELINE
from tabellion.pipelines.batches.queues import refs_queue
from tests.pipelines.batches.material import rows, settings_in
from tests.workers import ask


def test_rows_of_the_first_version_are_kept(url: str) -> None:
    """Their callbacks have the ids that they had; failed refs of ended chunks wait for their chunk from now on."""
    first = Schema("batches", tables.SCHEMA.versions[:1], tables.SCHEMA.tables, needs=tables.SCHEMA.needs)

    async def fill(store: Store) -> None:
        await first.prepare(store)
        for name, phase in (("ended", "DONE"), ("open", "PROCESSING")):
            await store.database.fetch(
                f"""INSERT INTO batch_chunks (id, batch_id, chunk_id, phase, content_hash, total_pis, total_refs)
VALUES ('{name}', 'b', '{name}', '{phase}', 'x', 1, 2)"""
            )
            for status in ("error", "done"):
                await store.database.fetch(
                    f"""INSERT INTO batch_refs (id, chunk, pi_position, filename, staging_key, cdn_url, status)
VALUES ('{name}-{status}', '{name}', 0, 'f', 'k', 'u', '{status}')"""
                )

    ask(url, fill)
    ask(url, PIPELINE.prepare)
    found = rows(url, "SELECT id, chunk_ended FROM batch_refs ORDER BY id")
    assert [ref["id"] for ref in found if ref["chunk_ended"]] == ["ended-error"]
    [chunk] = rows(url, "SELECT id, identity, run FROM batch_chunks WHERE id = 'ended'")
    assert message_id(chunk) == message_id({"id": "ended", "identity": None, "run": 1})
    assert message_id(chunk) != message_id({**chunk, "run": 2})


def test_claims_of_refs_use_their_index(url: str, tmp_path: Path) -> None:
    """Refs that wait for their chunk are not in it: claims would read all of them again and again."""
    ask(url, PIPELINE.prepare)
    queue = refs_queue(settings_in(tmp_path))

    async def explain(store: Store) -> list[Any]:
        ready = f"{sql.holds(queue.states['ready'], store.dialect)} AND (\n{queue.where}\n)"
        query = f"SELECT t.id FROM batch_refs AS t WHERE {ready} ORDER BY t.id LIMIT 10"
        if store.dialect == "sqlite":
            return await store.database.fetch(f"EXPLAIN QUERY PLAN {query}")
        plan = [("SET LOCAL enable_seqscan = off", ()), (f"EXPLAIN {query}", ())]
        return (await store.database.transact(plan))[1]

    assert "batch_refs_claimable" in "".join(str(list(row.values())) for row in ask(url, explain))
