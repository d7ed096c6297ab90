"""What is read for the progress of a batch."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tabellion.engine.store import Store
from tabellion.pipelines.batches import lookup
from tabellion.pipelines.batches.pipeline import PIPELINE
from tests.pipelines.batches.material import rows
from tests.workers import ask

REFS = 2000  #: of a batch that has ended


def test_the_progress_of_a_batch_reads_only_its_refs(pg_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if the statistics are of a time before any ref had ended: those of other batches are not read."""
    ask(pg_url, PIPELINE.prepare)
    for name, refs in (("ended", REFS), ("open", 3)):
        rows(pg_url, "INSERT INTO batches (id, status) VALUES ($1, 'processing')", name)
        rows(
            pg_url,
            """INSERT INTO batch_chunks (id, batch_id, chunk_id, phase, content_hash, total_pis, total_refs)
VALUES ($1, $1, '0', 'PROCESSING', 'x', 1, $2)""",
            name, refs,
        )  # fmt: skip
        rows(
            pg_url,
            """INSERT INTO batch_refs (id, chunk, pi_position, filename, staging_key, cdn_url)
SELECT CAST($1 AS text) || n, $1, 0, 'f', 'k', 'u' FROM generate_series(1, CAST($2 AS integer)) AS n""",
            name, refs,
        )  # fmt: skip
    rows(pg_url, "ANALYZE batch_chunks, batch_refs")
    rows(pg_url, "UPDATE batch_refs SET status = 'done' WHERE chunk = 'ended' OR id = 'open1'")
    rows(pg_url, "UPDATE batch_chunks SET phase = 'DONE', done_refs = total_refs WHERE id = 'ended'")

    async def read(store: Store) -> tuple[lookup.Batch | None, int]:
        sent: list[tuple[str, tuple[Any, ...]]] = []
        fetch = store.database.fetch

        async def record(text: str, *values: Any) -> list[Any]:
            sent.append((text, values))
            return await fetch(text, *values)

        monkeypatch.setattr(store.database, "fetch", record)
        batch = await lookup.get_batch(store, "open")
        plans = [
            json.loads(next(iter((await fetch(f"EXPLAIN (ANALYZE, FORMAT JSON) {text}", *values))[0].values())))
            for text, values in sent
        ]
        return batch, sum(
            round(node["Actual Rows"] * node["Actual Loops"])
            for [plan] in plans
            for node in nodes(plan["Plan"])
            if node.get("Relation Name") == "batch_refs"
        )

    batch, refs_read = ask(pg_url, read)
    assert batch is not None
    assert batch["progress"] == {"total_refs": 3, "completed": 1, "failed": 0, "pending": 2}
    assert refs_read == 1


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The nodes of a plan."""
    yield plan
    for below in plan.get("Plans", []):
        yield from nodes(below)
