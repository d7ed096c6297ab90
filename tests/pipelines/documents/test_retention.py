"""Old documents are deleted with all their files; what somebody may still need stays."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest

from tabellion import Store
from tabellion.accounts import audit
from tabellion.engine.retention import PruneStep, RetentionRule, clear_leftovers
from tabellion.errors import Unreachable
from tabellion.pipelines.documents.compact import compact, templates_of
from tabellion.pipelines.documents.daily import number_of, root_of
from tabellion.pipelines.documents.lookup import get
from tabellion.pipelines.documents.retention import DecisionsRule, DocumentsRule
from tabellion.pipelines.documents.settings import Settings
from tabellion.pipelines.documents.webhooks import document_outbox
from tests.pipelines.documents.papers import (
    add_endpoint,
    document,
    edit_field,
    finish_review,
    paper,
    process_all,
    rows,
    submit_bills,
    submit_file,
)
from tests.pipelines.documents.test_reprocess import DOUBTFUL
from tests.workers import ask

DAY = 86_400.0


def age(url: str, *ids: str, days: float = 100) -> None:
    """Make documents and their reviews older."""
    for table, key, columns in (
        ("tabellion_documents", "id", ("completed_at", "created_at")),
        ("tabellion_review_items", "document_id", ("finished_at",)),
    ):
        for column in columns:
            ago = f"{column} - {days * DAY}" if url.startswith("sqlite") else f"{column} - interval '{days} days'"
            for id_ in ids:
                rows(url, f"UPDATE {table} SET {column} = {ago} WHERE {key} = $1 RETURNING 1 AS n", id_)


def prune(url: str, rule: RetentionRule, *, dry_run: bool = False) -> PruneStep:
    """Walk over all documents."""

    async def walk(store: Store) -> PruneStep:
        total = await rule.step(store, None, dry_run=dry_run)
        while total.position is not None:
            total += await rule.step(store, total.position, dry_run=dry_run)
        return total

    return ask(url, walk)


def stored_files(*folders: Path) -> list[str]:
    """Return the names of all files in these folders."""
    return sorted(
        path.name
        for folder in folders
        for path in folder.rglob("*")
        if path.is_file() and not path.name.startswith(".")
    )


def is_whole(url: str) -> bool:
    """Return whether the audit log is as it was written."""
    return ask(url, audit.verify).whole


def test_an_old_document_leaves_nothing_behind(url: str, settings: Settings, tmp_path: Path) -> None:
    """Neither rows nor files nor pictures; younger ones stay; the audit log says so and stays whole."""
    old, young = submit_bills(url, settings, 0, 1, type="invoice")
    process_all(url, settings)
    age(url, old.id)
    sha256 = hashlib.sha256(paper(0)).hexdigest()
    picture = tmp_path / "pictures" / sha256[:2] / sha256 / "1-800-0.png"
    picture.parent.mkdir(parents=True)
    picture.write_bytes(b"page")
    rule = DocumentsRule(settings, 30 * DAY, tmp_path / "pictures")
    found = prune(url, rule, dry_run=True)
    assert found.removed == 1
    assert found.oldest == pytest.approx(100 * DAY, abs=600)
    assert document(url, old.id)["status"] == "completed"
    assert prune(url, rule).removed == 1
    assert ask(url, lambda store: get(store, old.id)) is None
    assert document(url, young.id)["status"] == "completed"
    for table in ("tabellion_extracted_fields", "tabellion_processed_documents"):
        assert {row["document_id"] for row in rows(url, f"SELECT document_id FROM {table}")} == {young.id}
    files = stored_files(settings.blobs.root, Path(settings.lake.url), tmp_path / "pictures")
    assert [name for name in files if old.id in name or name.startswith(sha256)] == []
    assert [name for name in files if young.id in name] != []
    assert not picture.exists()
    assert rows(url, "SELECT * FROM tabellion_leftovers") == []
    [entry] = [one for one in ask(url, lambda s: audit.history(s, subject=old.id)) if one["action"] == "deleted"]
    assert (entry["actor"], entry["more"]) == ("tabellion", {"sha256": sha256, "kept_days": 30.0})
    assert is_whole(url)
    assert prune(url, rule).removed == 0


def test_what_is_not_over_stays(url: str, settings: Settings) -> None:
    """A document that waits, one in review, one whose failure or new reading is not over, however old."""
    waiting = submit_file(url, settings, DOUBTFUL, type="invoice")
    process_all(url, settings)
    failed, queued, rewritten, followed = submit_bills(url, settings, 0, 1, 2, 3, type="invoice")
    process_all(url, settings)
    rows(url, "UPDATE tabellion_documents SET status = 'failed', told = NULL WHERE id = $1 RETURNING 1 AS n", failed.id)
    rows(url, "UPDATE tabellion_documents SET status = 'queued' WHERE id = $1 RETURNING 1 AS n", queued.id)
    rows(url, "UPDATE tabellion_documents SET chore = 'rewrite' WHERE id = $1 RETURNING 1 AS n", rewritten.id)
    rows(url, "UPDATE tabellion_documents SET former = '{}' WHERE id = $1 RETURNING 1 AS n", followed.id)
    age(url, waiting, failed.id, queued.id, rewritten.id, followed.id)
    assert prune(url, DocumentsRule(settings, 30 * DAY)).removed == 0
    finish_review(url, waiting)
    rows(url, "UPDATE tabellion_documents SET chore = NULL WHERE id = $1 RETURNING 1 AS n", waiting)
    now = "julianday('now') * 86400 - 2440587.5 * 86400" if url.startswith("sqlite") else "now()"
    rows(url, f"UPDATE tabellion_review_items SET finished_at = {now} RETURNING 1 AS n")
    assert prune(url, DocumentsRule(settings, 30 * DAY)).removed == 0
    age(url, waiting)
    assert prune(url, DocumentsRule(settings, 30 * DAY)).removed == 1


def test_duplicates_go_before_their_original(url: str, settings: Settings) -> None:
    """An original with a younger duplicate stays, because the duplicate shows its result; nothing is read again."""
    first, second, third = submit_bills(url, settings, 0, 0, 0, type="invoice")
    process_all(url, settings)
    assert [document(url, one.id)["status"] for one in (first, second, third)] == ["completed", *["duplicate"] * 2]
    age(url, first.id, second.id)
    assert prune(url, DocumentsRule(settings, 30 * DAY)).removed == 1
    assert ask(url, lambda store: get(store, second.id)) is None
    assert [document(url, one.id)["status"] for one in (first, third)] == ["completed", "duplicate"]
    assert stored_files(settings.blobs.root) != []
    age(url, third.id)
    assert sum(prune(url, DocumentsRule(settings, 30 * DAY)).removed for _ in range(2)) == 2
    assert stored_files(settings.blobs.root, Path(settings.lake.url)) == []


def test_a_file_that_another_document_has_stays(url: str, settings: Settings) -> None:
    """The same bytes were read as another type."""
    [old] = submit_bills(url, settings, 0, type="invoice")
    [young] = submit_bills(url, settings, 0, type="receipt")
    process_all(url, settings)
    age(url, old.id)
    assert prune(url, DocumentsRule(settings, 30 * DAY)).removed == 1
    assert asyncio.run(settings.blobs.has(hashlib.sha256(paper(0)).hexdigest()))
    assert document(url, young.id)["status"] == "completed"


def test_what_people_said_outlives_the_document(url: str, settings: Settings) -> None:
    """It belongs to the bytes and the type: a later upload starts with it, until it is old itself."""
    [old] = submit_bills(url, settings, 0, type="invoice")
    process_all(url, settings)
    edit_field(url, old.id, "vendor", "Said by a person")
    now = "0" if url.startswith("sqlite") else "to_timestamp(0)"
    rows(
        url,
        f"""INSERT INTO tabellion_field_decisions (sha256, type, name, value, reasons, state, locked, decided_at)
VALUES ($1, 'invoice', 'vendor', '"Said by a person"', '[]', 'corrected', TRUE, {now}) RETURNING 1 AS n""",
        hashlib.sha256(paper(0)).hexdigest(),
    )
    age(url, old.id)
    assert prune(url, DecisionsRule(DAY)).removed == 0  # a document has these bytes
    assert prune(url, DocumentsRule(settings, 30 * DAY)).removed == 1
    [again] = submit_bills(url, settings, 0, type="invoice")
    process_all(url, settings)
    assert document(url, again.id)["fields"]["vendor"]["value"] == "Said by a person"
    age(url, again.id)
    assert prune(url, DocumentsRule(settings, 30 * DAY)).removed == 1
    assert prune(url, DecisionsRule(DAY), dry_run=True).removed == 1
    assert prune(url, DecisionsRule(DAY)).removed == 1
    assert rows(url, "SELECT * FROM tabellion_field_decisions") == []


def test_deliveries_that_are_not_made_keep_their_document(url: str, settings: Settings) -> None:
    """One that waits keeps it; one that failed stays when the document goes."""
    telling = replace(settings, outbox=document_outbox)
    add_endpoint(url)
    [one] = submit_bills(url, telling, 0, type="invoice")
    process_all(url, telling)
    age(url, one.id)
    rule = DocumentsRule(telling, 30 * DAY)
    assert prune(url, rule).removed == 0
    rows(url, "UPDATE tabellion_webhook_deliveries SET status = 'failed' RETURNING 1 AS n")
    assert prune(url, rule).removed == 1
    assert len(rows(url, "SELECT id FROM tabellion_webhook_deliveries")) == 1


def test_daily_files_are_rewritten_once_for_many(url: str, settings: Settings) -> None:
    """Documents that were compacted into one file leave it together."""
    some = submit_bills(url, settings, *range(4), type="invoice")
    process_all(url, settings)
    day = datetime.fromisoformat(document(url, some[0].id)["created_at"]).date()
    asyncio.run(compact(settings.lake, day, templates_of([])))
    for one in some[:3]:
        ago = "completed_at - 8640000" if url.startswith("sqlite") else "completed_at - interval '100 days'"
        rows(url, f"UPDATE tabellion_documents SET completed_at = {ago} WHERE id = $1 RETURNING 1 AS n", one.id)
    assert prune(url, DocumentsRule(settings, 30 * DAY)).removed == 3
    found = [
        id_ for path in Path(settings.lake.url).rglob("*.parquet") for id_ in pq.read_table(path)["id"].to_pylist()
    ]
    assert set(found) == {some[3].id}
    dailies = [str(path.relative_to(settings.lake.url)) for path in Path(settings.lake.url).rglob("*.parquet")]
    assert max(number_of(path) for path in dailies if root_of(path) is not None) == 2


@pytest.mark.parametrize("place", ["prune.pre_commit", "prune.post_commit", "prune.mid_files"])
def test_a_crash_finishes_later(url: str, settings: Settings, arm: Callable[[str], None], place: str) -> None:
    """Wherever it happens: no other document is touched, and no file is left in the end."""
    old, young = submit_bills(url, settings, 0, 1, type="invoice")
    process_all(url, settings)
    age(url, old.id)
    rule = DocumentsRule(settings, 30 * DAY)
    arm(f"{place}:raise")
    with pytest.raises(Unreachable):
        prune(url, rule)
    arm("")
    past = "0.0" if url.startswith("sqlite") else "to_timestamp(0)"
    rows(url, f"UPDATE tabellion_leftovers SET due_at = {past} RETURNING 1 AS n")

    async def go_on(store: Store) -> None:
        await rule.step(store, None)
        await clear_leftovers(store, [rule])

    ask(url, go_on)
    assert ask(url, lambda store: get(store, old.id)) is None
    files = stored_files(settings.blobs.root, Path(settings.lake.url))
    sha256 = hashlib.sha256(paper(0)).hexdigest()
    assert [name for name in files if old.id in name or name.startswith(sha256)] == []
    assert document(url, young.id)["status"] == "completed"
    assert asyncio.run(settings.blobs.has(hashlib.sha256(paper(1)).hexdigest()))
    assert rows(url, "SELECT * FROM tabellion_leftovers") == []
    assert is_whole(url)


def test_a_document_that_is_read_again_meanwhile_stays(url: str, settings: Settings) -> None:
    """It was found, and then queued once more before its deletion: the deletion checks it again."""
    [one] = submit_bills(url, settings, 0, type="invoice")
    process_all(url, settings)
    age(url, one.id)

    class Late(DocumentsRule):
        """Queues the document between finding and deleting it."""

        async def _delete(self, store: Store, *given: Any) -> int:
            await store.database.fetch("UPDATE tabellion_documents SET status = 'queued'")
            return await super()._delete(store, *given)

    assert prune(url, Late(settings, 30 * DAY)).removed == 0
    assert document(url, one.id)["status"] == "queued"
