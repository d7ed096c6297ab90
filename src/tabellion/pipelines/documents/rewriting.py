"""Rewrites the outputs of documents when their review has ended, with people's decisions."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import TypedDict, cast

from tabellion.engine.job import Job
from tabellion.errors import LeaseLost
from tabellion.pipelines.documents import superseded
from tabellion.pipelines.documents.extracted_fields import FIELDS, PERSON, FieldRow, parse_values
from tabellion.pipelines.documents.failure import Postponed
from tabellion.pipelines.documents.judging import DocumentResult, StoredDocument, clean_value, judge_stored, read_issues
from tabellion.pipelines.documents.lookup import read_document, serialize_field
from tabellion.pipelines.documents.outputs import UNKNOWN, write
from tabellion.pipelines.documents.review import items
from tabellion.pipelines.documents.review.queue import OPEN, REVIEWED, public_status
from tabellion.pipelines.documents.row import context_of, row_of
from tabellion.pipelines.documents.settings import Settings
from tabellion.pipelines.documents.written_columns import WrittenColumns
from tabellion.reading.types.doctype import DocumentType
from tabellion.reading.types.yamlnode import TypeFileError
from tabellion.storage.files import Unwritable
from tabellion.storage.lake import LakeError


class _Review(TypedDict):
    id: str
    status: str
    reviewer: str | None
    reason: str | None


class Rewriting:
    """The handler of documents whose review has ended."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    async def rewrite(self, job: Job) -> WrittenColumns:
        """Writes the outputs of this row's document; while they cannot be written, it waits without using attempts."""
        base = self._settings.retry_base
        try:
            return await self._write(job)
        except TypeFileError as error:
            raise Postponed("configuration", error, job, base) from error
        except (LakeError, Unwritable) as error:
            raise Postponed("outputs_failed", error, job, base) from error

    async def _write(self, job: Job) -> WrittenColumns:
        """Writes JSON and Parquet from the current tables; their hashes commit with the row.

        Their paths stay the same. A kill leaves files that the next attempt overwrites: they depend only on people's
        decisions, and a further decision voids this claim and makes the document due again.
        """
        context = context_of(job)
        fields: list[FieldRow] = await context.fetch(FIELDS, job.text_key)
        found: list[_Review] = await context.fetch(items.of_document("id, status, reviewer, reason"), job.text_key)
        name = job["found_type"]
        doctype = self._settings.types.get(name) if name is not None else UNKNOWN
        review = found[0] if found else None
        status = review["status"] if review is not None else None
        result = _judge_result(job, fields, doctype, status)
        row: WrittenColumns = {"verdict": result["verdict"], "result": json.dumps(result, ensure_ascii=False)}
        ended = public_status(status)
        document = {**read_document(row_of(job, **row), result), "review": ended}
        if job.lost:
            raise LeaseLost(f"{job}: the claim was lost")
        row |= cast("WrittenColumns", asdict(await write(self._settings.lake, {**document, "cost": None}, doctype)))
        superseded.note(job, row)
        if self._settings.outbox is not None and review is not None and review["status"] not in OPEN:
            payload = {**read_document(row_of(job, **row), result), "reviewed": ended in REVIEWED, "review": review}
            text, values = self._settings.outbox("document.reviewed", payload, job["webhook"])
            job.also(text, **values)
        return row


def _judge_result(job: Job, rows: Sequence[FieldRow], doctype: DocumentType, review: str | None) -> DocumentResult:
    """The result with the current fields, their current issues and the verdict in this state of the review."""
    result: DocumentResult = json.loads(job["result"] or "{}")
    fields = {row["name"]: serialize_field(row) for row in rows}
    stored = StoredDocument(result, json.loads(job["reasons"] or "[]"), job["verdict"], review, parse_values(rows))
    judgement = judge_stored(stored, doctype, rewrite=True)
    held = {row["name"] for row in rows if row["locked"]}
    before = {name: field for name, field in result["fields"].items() if name in held and field["source"] != PERSON}
    return {
        **result, "fields": {**fields}, "issues": clean_value([issue.as_dict() for issue in judgement.issues]),
        "verdict": judgement.verdict, "read_issues": read_issues(result),
        "read_fields": before | (result.get("read_fields") or {}),
    }  # fmt: skip
