"""The retention of documents, and of what people said about files that no document has any more."""

from __future__ import annotations

import json
from pathlib import Path

from tabellion.accounts.audit import SYSTEM, AuditEntry, Statement, bind_statement, statement
from tabellion.delivery import deliveries
from tabellion.engine import memo, retention, sql
from tabellion.engine.failpoints import failpoint
from tabellion.engine.retention import PruneStep, RetentionRule
from tabellion.engine.sql import NOW, Dialect
from tabellion.engine.store import Store
from tabellion.pipelines.documents import extracted_fields, states
from tabellion.pipelines.documents import processed_documents as processed
from tabellion.pipelines.documents.deleted_files import RULE, DeletedFiles, FilesRow, remove_files
from tabellion.pipelines.documents.review import decisions, item_changes
from tabellion.pipelines.documents.review.queue import ENDINGS
from tabellion.pipelines.documents.settings import Settings

SOME = 20  #: documents in one step: each is a transaction and some files
DAY = 86_400.0
#: Work beside reading that is not under way, and that nobody has to look at.
_QUIET = ("followed",)


class DocumentsRule(RetentionRule):
    """Documents that ended, and whose review ended, more than `keep` seconds ago."""

    name = RULE

    def __init__(self, settings: Settings, keep: float | None, pictures: Path | None = None) -> None:
        self._settings, self._pictures, self.keep = settings, pictures, keep

    async def step(self, store: Store, position: str | None, *, dry_run: bool = False) -> PruneStep:
        """Deletes some documents, the oldest first: their rows, then their files."""
        if await store.table(states.TABLE) is None:
            return PruneStep()
        d = store.dialect
        has_deliveries = await deliveries.exist(store)
        of_document = "(SELECT * FROM tabellion_review_items AS i WHERE i.document_id = d.id)"
        condition = self._is_old(d, has_deliveries, of_document)
        ended = sql.epoch("d.completed_at", d)
        since, last = json.loads(position) if position else (0.0, "")
        rows = await store.database.fetch(
            f"""SELECT d.id, d.sha256, d.json_path, d.parquet_path, {sql.epoch("d.created_at", d)} AS created_at,
  {ended} AS ended, {sql.epoch(NOW, d)} - {ended} AS age FROM {states.TABLE} AS d
WHERE d.completed_at >= {sql.moment("$1", d)} AND ({ended} > $2 OR ({ended} = $2 AND d.id > $3)) AND {condition}
ORDER BY d.completed_at, d.id LIMIT {SOME}""",
            since - 1.0, since, last,
        )  # fmt: skip
        removed = len(rows)
        if not dry_run:
            removed = await self._delete(store, rows, self._is_old(d, has_deliveries, "item"), has_deliveries)
        after = json.dumps([rows[-1]["ended"], rows[-1]["id"]]) if len(rows) == SOME else None
        return PruneStep(after, removed, max((row["age"] for row in rows), default=None))

    async def clear(self, store: Store, detail: str) -> bool:
        """Removes the files of a document whose deletion was interrupted."""
        await remove_files(store, self._settings, [DeletedFiles.parse(detail)], self._pictures)
        return True

    def _is_old(self, dialect: Dialect, has_deliveries: bool, item: str) -> str:
        """The condition on a document `d` with its review item: it has ended for good, and nobody waits for it."""
        old, endings = self.cutoff(dialect), ", ".join(f"'{ending}'" for ending in ENDINGS)
        quiet = ", ".join(f"'{chore}'" for chore in _QUIET)
        conditions = [
            f"d.completed_at < {old} AND d.former IS NULL AND (d.chore IS NULL OR d.chore IN ({quiet}))",
            "(d.status IN ('completed', 'duplicate') OR (d.status = 'failed' AND d.told IS NOT NULL))",
            f"""NOT EXISTS (SELECT 1 FROM {item} AS r
  WHERE r.status NOT IN ({endings}) OR r.finished_at IS NULL OR r.finished_at >= {old})""",
            # Its duplicates show its result: they go first.
            f"NOT EXISTS (SELECT 1 FROM {states.TABLE} AS o WHERE o.duplicate_of = d.id)",
        ]
        if has_deliveries:
            conditions.append(f"NOT {deliveries.is_waiting('d.id')}")
        return " AND ".join(conditions)

    async def _delete(self, store: Store, rows: list[FilesRow], condition: str, has_deliveries: bool) -> int:
        deleted: dict[str, DeletedFiles] = {}
        for row in rows:
            files = DeletedFiles.of_row(row)
            leftover, text, values = files.leave(store.dialect)
            # What people said of this file stays (tabellion_field_decisions): it belongs to the bytes and the type.
            statements: list[Statement] = [
                states.delete_where(row["id"], condition, store.dialect), processed.release(row["id"]),
                extracted_fields.delete(row["id"]), item_changes.delete(row["id"]), memo.forget_row(row["id"]),
                *([deliveries.forget_delivered(row["id"])] if has_deliveries else []), (text, values),
                statement(store.dialect, self._entry(row)),
            ]  # fmt: skip
            failpoint("prune.pre_commit")
            if await store.database.transact([bind_statement(*one) for one in statements], guarded=True):
                deleted[leftover] = files
            failpoint("prune.post_commit")
        if deleted:
            await remove_files(store, self._settings, list(deleted.values()), self._pictures)
            await retention.forget(store, list(deleted))
        return len(deleted)

    def _entry(self, row: FilesRow) -> AuditEntry:
        assert self.keep is not None  # noqa: S101 - without it no step is taken
        more = {"sha256": row["sha256"], "kept_days": round(self.keep / DAY, 2)}
        return AuditEntry("deleted", SYSTEM, row["id"], more=more)


class DecisionsRule(RetentionRule):
    """Decisions of people on fields, made more than `keep` seconds ago, on bytes that no document has any more."""

    name = "decisions"

    def __init__(self, keep: float | None) -> None:
        self.keep = keep

    async def step(self, store: Store, position: str | None, *, dry_run: bool = False) -> PruneStep:
        """Removes the old decisions of one window."""
        return await decisions.prune(store, position, self.cutoff(store.dialect), dry_run=dry_run)
