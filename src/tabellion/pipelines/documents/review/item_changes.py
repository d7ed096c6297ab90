"""Every statement that changes `tabellion_review_items`, some with their audit entries."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any

from tabellion.accounts import audit
from tabellion.accounts.audit import SYSTEM, AuditEntry, Statement
from tabellion.engine import sql
from tabellion.engine.ids import new_id
from tabellion.engine.moves import Numbered
from tabellion.engine.sql import NOW, Dialect
from tabellion.pipelines.documents.review.items import ItemRow
from tabellion.pipelines.documents.review.people import AVAILABLE
from tabellion.pipelines.documents.review.queue import ENDINGS, OPEN

#: The condition that a person has worked on an item, or reopened it.
IS_STARTED = """EXISTS (SELECT 1 FROM tabellion_audit_log AS a
WHERE a.item_id = tabellion_review_items.id AND a.action NOT IN ('created', 'assigned'))"""
_SAME_CHANGE = "FROM tabellion_review_items AS r WHERE r.document_id = :document AND r.change = :change"
_REOPEN = """UPDATE tabellion_review_items SET status = 'pending', reviewer = NULL, claimed_at = NULL,
  finished_at = NULL, reason = NULL, escalated_at = NULL, escalated_by = NULL, escalation = NULL, assigned_to = NULL,
  assigned_at = NULL, version = version + 1"""


def create(
    dialect: Dialect, document: str, measures: Mapping[str, Any], priority: str, reasons: str, due: float
) -> Statement:
    """A new item; an open one is updated, and a finished one stays as it is. `priority` is a formula of `measures`."""
    due_at = "to_timestamp(CAST(:due AS double precision))" if dialect == "postgresql" else ":due"
    columns = ", ".join(measures)
    marks = ", ".join(f"CAST(:{name} AS double precision) AS {name}" for name in measures)
    text = f"""INSERT INTO tabellion_review_items
  (id, document_id, status, reasons, created_at, due_at, {columns}, priority)
SELECT CAST(:item AS text), CAST(:document AS text), 'pending', CAST(:reasons AS text), {sql.CLOCK[dialect]}, {due_at},
  {columns}, {priority} FROM (SELECT {marks}) AS m WHERE TRUE
ON CONFLICT (document_id) DO UPDATE SET {", ".join(f"{name} = excluded.{name}" for name in measures)},
  priority = excluded.priority, reasons = excluded.reasons, version = tabellion_review_items.version + 1
WHERE tabellion_review_items.status IN {OPEN}"""
    return text, {"item": new_id(), "document": document, "reasons": reasons, "due": due, **measures}


def record_creation(dialect: Dialect, document: str) -> list[Statement]:
    """The statements that follow `create` in the same transaction: assignment, and the audit entries of both.

    There is no second audit entry for an item that existed before.
    """
    update, assigned_entry = assign_to_least_loaded(dialect, document)
    source = """FROM tabellion_review_items AS r WHERE r.document_id = :document AND r.status = 'pending'
  AND NOT EXISTS (SELECT 1 FROM tabellion_audit_log AS a WHERE a.item_id = r.id AND a.action = 'created')"""
    entry = AuditEntry("created", SYSTEM, document)
    return [update, audit.statement(dialect, entry, source, {"document": document}, item_id="r.id"), assigned_entry]


def assign_to_least_loaded(dialect: Dialect, document: str) -> list[Statement]:
    """The statements that assign a document's pending item, if it is unassigned, to the person with the fewest items.

    For a transaction, or for `job.also`; they do nothing if nobody is available. The second one writes the audit entry.
    """
    values = {"document": document, "change": secrets.token_hex(8)}
    # The outermost table of the subquery is that of users: one count for each of them, however long the queue is.
    least = f"""SELECT u.name FROM tabellion_users AS u WHERE {AVAILABLE} ORDER BY (
    SELECT count(*) FROM tabellion_review_items AS o WHERE o.assigned_to = u.name AND o.status IN {OPEN}
  ), u.name LIMIT 1"""
    update = f"""UPDATE tabellion_review_items SET assigned_to = ({least}), assigned_at = {NOW}, change = :change
WHERE document_id = :document AND status = 'pending' AND assigned_to IS NULL
  AND EXISTS (SELECT 1 FROM tabellion_users AS u WHERE {AVAILABLE})"""
    entry = AuditEntry("assigned", SYSTEM, document, before=None)
    found = {"item_id": "r.id", "after": "r.assigned_to"}
    return [(update, values), audit.statement(dialect, entry, _SAME_CHANGE, values, **found)]


def assign(id: str, to: str | None) -> Statement:  # noqa: A002
    """Assigns an item to a person or to nobody; it is no longer escalated."""
    at = NOW if to is not None else "NULL"
    text = f"""UPDATE tabellion_review_items SET assigned_to = :to, assigned_at = {at},
  escalated_at = NULL, escalated_by = NULL, escalation = NULL WHERE id = :id"""
    return text, {"id": id, "to": to}


def escalate(id: str, by: str, reason: str) -> Statement:  # noqa: A002
    """Hands an item to the operators."""
    text = f"""UPDATE tabellion_review_items SET escalated_at = {NOW}, escalated_by = :by, escalation = :reason,
  assigned_to = NULL, assigned_at = NULL WHERE id = :id"""
    return text, {"id": id, "by": by, "reason": reason}


def store_ending(id: str, spent: Mapping[str, float], rejection: str | None) -> Statement:  # noqa: A002
    """Stores why an item was rejected; the time of all reviews of a reopened document adds up."""
    sums = "".join(f", {name} = coalesce({name}, 0) + :{name}" for name in spent)
    text = f"""UPDATE tabellion_review_items SET version = version + 1, reason = :reason, draft = NULL, draft_by = NULL,
  draft_at = NULL{sums} WHERE id = :id"""
    return text, {"id": id, "reason": rejection, **spent}


def reopen(id: str, version: int) -> Statement:  # noqa: A002
    """Puts a finished item of this version back in the queue; returns its new version."""
    text = f"{_REOPEN} WHERE id = :id AND status IN {ENDINGS} AND version = :version RETURNING version"
    return text, {"id": id, "version": version}


def reopen_by_document(
    dialect: Dialect, document: str, actor: str, reason: str, **more: Any
) -> tuple[Statement, Statement]:
    """Puts a document's finished item, if there is one, back in the queue; and the audit entry of that."""
    values = {"document": document, "change": secrets.token_hex(8)}
    entry = AuditEntry("reopened", actor, document, reason=reason, more=more)
    update = f"{_REOPEN}, change = :change WHERE document_id = :document AND status IN {ENDINGS}"
    return (update, values), audit.statement(dialect, entry, _SAME_CHANGE, values, item_id="r.id")


def withdraw(document: str) -> list[Statement]:
    """Deletes an item that is no longer needed, unless a person has started on it or it was reopened: then they must
    see that its fields have changed."""
    return [
        (
            f"DELETE FROM tabellion_review_items WHERE document_id = :id AND status = 'pending' AND NOT {IS_STARTED}",
            {"id": document},
        ),
        (
            f"""UPDATE tabellion_review_items SET version = version + 1, reasons = '[]'
WHERE document_id = :id AND status IN {OPEN}""",
            {"id": document},
        ),
    ]


def delete(document: str) -> Statement:
    """Deletes the item of a document."""
    return "DELETE FROM tabellion_review_items WHERE document_id = :id", {"id": document}


def raise_version(dialect: Dialect, item: ItemRow, version: int) -> Numbered:
    """Locks an item that still has this version, and returns the next one. A reading that finishes locks the fields
    first, then the item: so does this, to avoid a deadlock."""
    first, condition = "", " AND document_id = $4"
    if dialect == "postgresql":
        first = """WITH tabellion_f AS MATERIALIZED (
  SELECT f.name FROM tabellion_extracted_fields AS f WHERE f.document_id = $4 ORDER BY f.name FOR UPDATE) """
        condition = " AND (SELECT count(*) FROM tabellion_f) >= 0"
    text = f"""{first}UPDATE tabellion_review_items SET version = version + 1, change = $3
WHERE id = $1 AND version = $2{condition} RETURNING version"""
    return text, [item["id"], version, secrets.token_hex(8), item["document_id"]]


def check_version(id: str, version: int) -> Numbered:  # noqa: A002
    """Returns the version of an item if it still is this one."""
    return "SELECT version FROM tabellion_review_items WHERE id = $1 AND version = $2", [id, version]


def update_priorities(dialect: Dialect, stored: str, fresh: str, step: float) -> str:
    """Updates the open items whose proximity of the deadline (`n.near`) has changed by a step; `stored` and `fresh` are
    formulas of the priority."""
    uploaded, due = sql.epoch("d.created_at", dialect), sql.epoch("r.due_at", dialect)
    share = f"({sql.epoch(NOW, dialect)} - {uploaded}) / ({due} - {uploaded})"
    near = f"CASE WHEN {due} <= {uploaded} OR {share} > 1 THEN 1.0 WHEN {share} < 0 THEN 0.0 ELSE {share} END"
    # A row that is locked is about to change: it is updated next time.
    lock = "FOR UPDATE OF r SKIP LOCKED" if dialect == "postgresql" else ""
    return f"""UPDATE tabellion_review_items AS t SET proximity = n.near, priority = {fresh}
FROM (SELECT r.id, {near} AS near FROM tabellion_review_items AS r JOIN tabellion_documents AS d ON d.id = r.document_id
  WHERE r.status IN {OPEN} {lock}) AS n
WHERE t.id = n.id AND (abs(n.near - t.proximity) >= {step} OR abs(t.priority - {stored}) > 0.0001)"""
