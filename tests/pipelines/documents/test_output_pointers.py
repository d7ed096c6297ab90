"""A document's row always points at a file that is there and has its row, whatever is put together and removed."""

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
from tests.pipelines.documents.papers import document, processed, rows, submitted
from tests.working import ask


def put_together(url: str, settings: Settings, **options: Any) -> Compacted:
    """Today's files, as `tabellion compact --remove` does it."""

    async def go(store: Store) -> Compacted:
        given: dict[str, Any] = {
            "remove": True,
            "grace": 0,
            "point": point_with(store.database.fetch, store.dialect),
        } | options
        return await compact(settings.lake, datetime.now(UTC).date(), templates_of([]), **given)

    return ask(url, go)


def pointed(url: str, settings: Settings) -> dict[str, str]:
    """Where each document's row is; the file is there, its hash is the row's, and the row is in it."""
    found = {}
    for row in rows(url, "SELECT id, version, parquet_path, parquet_sha256 FROM tabellion_documents"):
        data = asyncio.run(settings.lake.get(row["parquet_path"]))
        assert hashlib.sha256(data).hexdigest() == row["parquet_sha256"]
        told = {one["id"]: one["version"] for one in pq.read_table(io.BytesIO(data)).to_pylist()}
        assert told[row["id"]] == row["version"]
        found[row["id"]] = row["parquet_path"]
    return found


def test_documents_point_at_the_file_of_their_day(url: str, settings: Settings) -> None:
    """After it was made, made anew because one was read again, and made anew because one was deleted."""
    one, two, three = (made.id for made in submitted(url, settings, 0, 1, 2, type="invoice"))
    processed(url, settings)
    assert put_together(url, settings).removed == 3
    first = pointed(url, settings)
    assert len(set(first.values())) == 1
    assert "/daily/" in first[one]
    ask(url, lambda store: reprocess(store, settings, one))
    processed(url, settings)
    again = pointed(url, settings)
    assert again[one] == f"parquet/{first[one].partition('daily/')[2].rpartition('/')[0]}/{one}.parquet"
    assert again[two] == first[two]
    put_together(url, settings)
    newer = pointed(url, settings)
    assert len(set(newer.values())) == 1
    assert newer[two] != first[two]
    assert first[two] not in {entry.path for entry in asyncio.run(settings.lake.list())}
    ask(url, lambda store: delete(store, settings, three))
    last = pointed(url, settings)
    assert set(last) == {one, two}
    assert last[one] == last[two] != newer[one]
    assert document(url, one)["outputs"]["parquet"] == last[one]


def test_nothing_goes_that_could_not_be_pointed_away_from(url: str, settings: Settings) -> None:
    """A database that does not answer keeps the small files where they are."""
    submitted(url, settings, 0, 1, type="invoice")
    processed(url, settings)

    async def refuse(moved: Any) -> None:
        raise LakeError("no answer")

    with pytest.raises(LakeError):
        put_together(url, settings, point=refuse)
    assert all("/daily/" not in path for path in pointed(url, settings).values())
    assert put_together(url, settings).removed == 2
    pointed(url, settings)


def test_a_document_that_was_written_meanwhile_is_left(url: str, settings: Settings) -> None:
    """It points elsewhere by itself."""
    [one] = submitted(url, settings, 0, type="invoice")
    processed(url, settings)
    before = pointed(url, settings)
    ask(
        url,
        lambda store: point_with(store.database.fetch, store.dialect)([MovedOutput(one.id, "elsewhere", "new", "0")]),
    )
    assert pointed(url, settings) == before
