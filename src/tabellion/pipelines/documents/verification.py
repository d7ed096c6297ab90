"""What `tabellion verify` checks of documents: review items and their holders, duplicates, files."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from tabellion.engine.store import Store
from tabellion.engine.tables.table import Row
from tabellion.monitor.verify import MOST, Violation, confirm, only_places, sample_rows
from tabellion.pipelines.documents.settings import Settings
from tabellion.pipelines.documents.states import TABLE
from tabellion.storage.lake import Lake, NoSuchLakeFile

_READ_AGAIN = "submit the file again, or restore it from a backup"
_REWRITE = "have its outputs written again: POST /api/documents/{}/reprocess"

#: The kind, a query for the ids it is about, what it means, and what to do.
_CHECKS = (
    (
        "two_holders",
        """SELECT r.id, r.reviewer, a.worker FROM tabellion_review_items AS r
JOIN tabellion_attempts AS a ON a.queue = 'review' AND a.key = r.id AND a.settled_at IS NULL
WHERE r.status = 'in_review' AND a.worker <> coalesce(r.reviewer, '')""",
        "review", "r.id", "the item is in review by {reviewer}, and its claim is of {worker}",
        "release it: tabellion release review {id}",
    ),
    (
        "item_lost",
        f"""SELECT r.id, r.document_id FROM tabellion_review_items AS r
WHERE NOT EXISTS (SELECT 1 FROM {TABLE} AS d WHERE d.id = r.document_id)""",
        "review", "r.id", "its document {document_id} does not exist",
        "nobody can review it: remove the row {id} from tabellion_review_items",
    ),
    (
        "original_lost",
        f"""SELECT d.id, d.duplicate_of FROM {TABLE} AS d WHERE d.status = 'duplicate'
AND NOT EXISTS (SELECT 1 FROM {TABLE} AS o WHERE o.id = d.duplicate_of)""",
        "documents", "d.id", "it is a duplicate of {duplicate_of}, which does not exist",
        "read it itself: POST /api/documents/{id}/reprocess",
    ),
    (
        "unhashed",
        f"""SELECT d.id FROM {TABLE} AS d WHERE d.status = 'completed'
AND ((d.json_path IS NULL) <> (d.json_sha256 IS NULL) OR (d.parquet_path IS NULL) <> (d.parquet_sha256 IS NULL))""",
        "documents", "d.id", "it has the path of an output without its hash, or the hash without the path",
        _REWRITE.format("{id}"),
    ),
)  # fmt: skip


async def verify_documents(store: Store, settings: Settings, *, files: int | None = 0) -> list[Violation]:
    """Everything that is wrong with the documents of a database, and with `files` of their files (None: all)."""
    found = await confirm(lambda places: _check_rows(store, places))
    if files != 0:
        found += await confirm(lambda places: _check_files(store, settings, files, places))
    return found


async def _check_rows(store: Store, places: Sequence[str] | None) -> list[Violation]:
    found = []
    for kind, query, queue, column, what, fix in _CHECKS:
        rows = await store.database.fetch(f"{query}{only_places(places, column, store.dialect)} LIMIT {MOST}")
        found += [Violation(kind, f"{queue}/{row['id']}", what.format(**row), fix.format(**row)) for row in rows]
    return found


async def _check_files(
    store: Store, settings: Settings, count: int | None, places: Sequence[str] | None
) -> list[Violation]:
    """Compares the files of documents with their hashes: of all, of some at random, or of those at `places`."""
    query = f"""SELECT d.id, d.status, d.chore, d.sha256, d.json_path, d.json_sha256, d.parquet_path, d.parquet_sha256
FROM {TABLE} AS d WHERE d.id > $1"""
    rows = sample_rows(store, query, "d.id", count, places)
    return [violation async for row in rows for violation in await _check_document(settings, row)]


async def _check_document(settings: Settings, row: Row) -> list[Violation]:
    where, found = f"documents/{row['id']}", []
    if wrong := await settings.blobs.compare(row["sha256"]):
        found.append(Violation("file_damaged", where, wrong, _READ_AGAIN))
    if row["status"] != "completed" or row["chore"] is not None:
        return found  # its outputs are being written, or nobody promised them
    for path, sha256 in (("json_path", "json_sha256"), ("parquet_path", "parquet_sha256")):
        if row[path] is not None and (wrong := await _check_output(settings.lake, row[path], row[sha256])):
            found.append(Violation("output_damaged", where, wrong, _REWRITE.format(row["id"])))
    return found


async def _check_output(lake: Lake, path: str, sha256: str | None) -> str:
    """What is wrong with a file of the lake; empty if nothing is."""
    try:
        content = await lake.get(path)
    except NoSuchLakeFile:
        return f"{path} is missing in the lake"
    return "" if hashlib.sha256(content).hexdigest() == sha256 else f"{path} has other bytes than its hash"
