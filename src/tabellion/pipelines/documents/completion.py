"""What commits together with a document's end: its fields, its review item, a delivery, and the audit entries."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass

from tabellion.accounts.audit import SYSTEM, AuditEntry, Statement, statement
from tabellion.engine.job import Job
from tabellion.engine.sql import Dialect
from tabellion.pipelines.documents import extracted_fields, states
from tabellion.pipelines.documents.extracted_fields import Found
from tabellion.pipelines.documents.judging import DocumentResult
from tabellion.pipelines.documents.locks import Locks
from tabellion.pipelines.documents.review import item_changes, priority
from tabellion.pipelines.documents.review.queue import ENDINGS, REVIEWED
from tabellion.pipelines.documents.review_reasons import Reason
from tabellion.pipelines.documents.row import context_of, seconds
from tabellion.reading.reader import Reading
from tabellion.reading.types.doctype import DocumentType


@dataclass(frozen=True, slots=True)
class Completed:
    """A document that was read and judged."""

    doctype: DocumentType
    reading: Reading  #: with people's values in place of what was read
    result: DocumentResult
    found: Found
    locks: Locks  #: the decisions that were known when the reading began
    departed: Sequence[str]  #: fields whose values are no longer those that a person approved
    doubts: list[Reason]
    reasons: list[Reason]  #: why a person must review it; empty: nobody needs to

    @property
    def review(self) -> str | None:
        """The state of the review as it was when the reading began; one whose values have departed is reopened."""
        return None if self.departed else self.locks.review

    @property
    def keeps_locked(self) -> bool:
        """Whether people's decisions take precedence over what was read."""
        return self.doctype.idempotency.preserve_locked


def find_departures(result: DocumentResult, locks: Locks) -> list[str]:
    """The fields whose values are no longer those that a person approved."""
    if locks.review not in REVIEWED:
        return []
    values = {name: field["value"] for name, field in result["fields"].items()}
    names = [*values, *(name for name in locks.approved if name not in values)]
    return [name for name in names if values.get(name) != locks.approved.get(name)]


def attach(job: Job, completed: Completed, sla: float, delivery: Statement | None, entry: AuditEntry) -> None:
    """Attaches to the job's finish everything that belongs to a document that was read.

    If decisions were made that this reading does not know of, the document is read once more.
    """
    dialect, id_, locks = context_of(job).dialect, job.text_key, completed.locks
    identity = (id_, job["sha256"], completed.doctype.name)
    statements: list[Statement] = []
    # The audit log is locked until the transaction ends: its entries are last.
    entries = [statement(dialect, entry)]
    if completed.departed:
        reopen, reopened = item_changes.reopen_by_document(dialect, id_, SYSTEM, "reread", fields=completed.departed)
        statements.append(reopen)
        entries.append(reopened)
    if locks.carried:
        statements.append(extracted_fields.copy_decisions(dialect, *identity, locks.carried))
    statements += _store_results(job, dialect, completed, sla)
    if locks.confirmed:
        statements.append(extracted_fields.confirm(*identity))
    is_repeated = job["version"] > 1 or job["result"] is not None or job.n > 1
    if is_repeated:
        statements += _replace_former(dialect, id_, completed)
    if completed.keeps_locked and (is_repeated or locks.carried):
        more = extracted_fields.has_other_locks(dialect, len(locks.fields), locks.latest)
        statements.append(states.read_with_more(id_, more))
    if delivery is not None:
        statements.append(delivery)
    if completed.reasons:
        assign, *created = item_changes.record_creation(dialect, id_)
        statements.append(assign)
        entries += created
    states.commit_with(job, *statements, *entries)


def _store_results(job: Job, dialect: Dialect, completed: Completed, sla: float) -> list[Statement]:
    """Fields and review item: one statement on PostgreSQL, where each is a round trip; two on SQLite, where none is."""
    statements: list[Statement] = []
    if completed.found.fields:
        statements.append(
            extracted_fields.store_reading(dialect, job.text_key, completed.found, keep_locked=completed.keeps_locked)
        )
    if completed.reasons:
        uploaded = seconds(job["created_at"])
        measures = priority.measure(completed.reading, completed.doctype, (time.time() - uploaded) / sla)
        reasons = json.dumps(completed.reasons, ensure_ascii=False)
        formula = priority.formula({name: name for name in measures})
        statements.append(
            item_changes.create(dialect, job.text_key, {**measures}, formula, reasons=reasons, due=uploaded + sla)
        )
    if dialect == "postgresql" and len(statements) == 2:
        (first, first_values), (second, second_values) = statements
        return [(f"WITH tabellion_fields AS ({first}) {second}", first_values | second_values)]
    return statements


def _replace_former(dialect: Dialect, id: str, completed: Completed) -> list[Statement]:  # noqa: A002 - the column's name
    """Removes what an earlier reading left, except people's decisions."""
    # A reading that knew of no finished review has been judged without one.
    reopened = ("reopened",) if completed.review in ENDINGS else ()
    return [
        *extracted_fields.remove_others(dialect, id, completed.found.fields, keep_locked=completed.keeps_locked),
        *([] if completed.reasons else item_changes.withdraw(id)),
        rewrite_if_decided(id, "approved", "rejected", *reopened),
        # Duplicates that shared its failure share its success.
        states.wait_again(id, "failed"),
    ]


def rewrite_if_decided(id: str, *actions: str) -> Statement:  # noqa: A002
    """Has outputs written again if one of these actions happened since the document was queued again: its outputs may
    not reflect it, and no webhook has reported it."""
    later = f"""
  SELECT max(CASE WHEN action = 'reprocessed' THEN 0 ELSE n END) > max(CASE WHEN action = 'reprocessed' THEN n END)
  FROM tabellion_audit_log WHERE document_id = :id AND action IN {("reprocessed", *actions)}"""
    return states.rewrite_where(id, later)
