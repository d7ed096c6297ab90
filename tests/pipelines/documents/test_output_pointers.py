"""A document's row always points at an existing file with its row, whatever is compacted and removed."""

from __future__ import annotations

import asyncio
import hashlib
import io
from datetime import UTC, datetime
from typing import Any

import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest

from tabellion import Store
from tabellion.pipelines.documents.compact import Compacted, compact, templates_of
from tabellion.pipelines.documents.output_pointers import MovedOutput, point_with
from tabellion.pipelines.documents.reprocess import delete, reprocess
from tabellion.pipelines.documents.settings import Settings
from tabellion.storage.lake import LakeError
from tests.pipelines.documents.papers import document, process_all, rows, submit_bills
from tests.workers import ask


def compact_today(url: str, settings: Settings, **options: Any) -> Compacted:
    """Compact today's files, as `tabellion compact --remove` does."""

    async def go(store: Store) -> Compacted:
        given: dict[str, Any] = {
            "remove": True,
            "grace": 0,
            "point": point_with(store.database.fetch, store.dialect),
        } | options
        return await compact(settings.lake, datetime.now(UTC).date(), templates_of([]), **given)

    return ask(url, go)


def output_paths(url: str, settings: Settings) -> dict[str, str]:
    """Where each document's row is; asserts that the file exists, matches its hash and has the row."""
    found = {}
    for row in rows(url, "SELECT id, version, parquet_path, parquet_sha256 FROM tabellion_documents"):
        data = asyncio.run(settings.lake.get(row["parquet_path"]))
        assert hashlib.sha256(data).hexdigest() == row["parquet_sha256"]
        versions = {one["id"]: one["version"] for one in pq.read_table(io.BytesIO(data)).to_pylist()}
        assert versions[row["id"]] == row["version"]
        found[row["id"]] = row["parquet_path"]
    return found


def test_documents_point_at_the_day_file(url: str, settings: Settings) -> None:
    """After it was written, and rewritten because one was reprocessed or deleted."""
    one, two, three = (made.id for made in submit_bills(url, settings, 0, 1, 2, type="invoice"))
    process_all(url, settings)
    assert compact_today(url, settings).removed == 3
    first = output_paths(url, settings)
    assert len(set(first.values())) == 1
    assert "/daily/" in first[one]
    ask(url, lambda store: reprocess(store, settings, one))
    process_all(url, settings)
    again = output_paths(url, settings)
    assert again[one] == f"parquet/{first[one].partition('daily/')[2].rpartition('/')[0]}/{one}.parquet"
    assert again[two] == first[two]
    compact_today(url, settings)
    newer = output_paths(url, settings)
    assert len(set(newer.values())) == 1
    assert newer[two] != first[two]
    assert first[two] not in {entry.path for entry in asyncio.run(settings.lake.list())}
    ask(url, lambda store: delete(store, settings, three))
    last = output_paths(url, settings)
    assert set(last) == {one, two}
    assert last[one] == last[two] != newer[one]
    assert document(url, one)["outputs"]["parquet"] == last[one]


def test_nothing_is_removed_that_rows_still_point_at(url: str, settings: Settings) -> None:
    """A database that does not answer keeps the small files."""
    submit_bills(url, settings, 0, 1, type="invoice")
    process_all(url, settings)

    async def refuse(moved: Any) -> None:
        raise LakeError("no answer")

    with pytest.raises(LakeError):
        compact_today(url, settings, point=refuse)
    assert all("/daily/" not in path for path in output_paths(url, settings).values())
    assert compact_today(url, settings).removed == 2
    output_paths(url, settings)


def test_a_document_written_meanwhile_is_left(url: str, settings: Settings) -> None:
    """It already points elsewhere."""
    [one] = submit_bills(url, settings, 0, type="invoice")
    process_all(url, settings)
    before = output_paths(url, settings)
    ask(
        url,
        lambda store: point_with(store.database.fetch, store.dialect)([MovedOutput(one.id, "elsewhere", "new", "0")]),
    )
    assert output_paths(url, settings) == before
