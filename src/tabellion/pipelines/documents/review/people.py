"""People who review: the caller, who can be assigned items, and who has the fewest."""

from __future__ import annotations

import secrets
from dataclasses import dataclass

from tabellion.accounts.audit import SYSTEM, AuditEntry, Statement, statement
from tabellion.engine.sql import NOW, Dialect

REVIEWER, OPERATOR = 2, 3  #: roles, with the numbers of the web's policy
REVIEWING = ("reviewer", "operator", "admin")  #: roles that are assigned items

#: Enabled users who may review and are not marked as away.
AVAILABLE = f"u.available AND u.disabled_at IS NULL AND u.role IN {REVIEWING}"


@dataclass(frozen=True, slots=True)
class Person:
    """The caller: a user by name, or a key as `key:NAME`."""

    name: str
    role: int

    @property
    def operates(self) -> bool:
        """Whether they may act on items of others."""
        return self.role >= OPERATOR


def assignment(dialect: Dialect, document_id: str) -> list[Statement]:
    """The statements that assign a document's pending item, if it is unassigned, to the person with the fewest items.

    For a transaction, or for `job.also`; they do nothing if nobody is available. The second one writes the audit entry.
    """
    values = {"document": document_id, "change": secrets.token_hex(8)}
    # The outermost table of the subquery is that of users: one count for each of them, however long the queue is.
    least = f"""SELECT u.name FROM tabellion_users AS u WHERE {AVAILABLE} ORDER BY (
    SELECT count(*) FROM tabellion_review_items AS o
WHERE o.assigned_to = u.name AND o.status IN ('pending', 'in_review')
  ), u.name LIMIT 1"""
    update = f"""UPDATE tabellion_review_items SET assigned_to = ({least}), assigned_at = {NOW}, change = :change
WHERE document_id = :document AND status = 'pending' AND assigned_to IS NULL
  AND EXISTS (SELECT 1 FROM tabellion_users AS u WHERE {AVAILABLE})"""
    entry = AuditEntry("assigned", SYSTEM, document_id, before=None)
    source = "FROM tabellion_review_items AS r WHERE r.document_id = :document AND r.change = :change"
    return [(update, values), statement(dialect, entry, source, values, item_id="r.id", after="r.assigned_to")]


def opening(dialect: Dialect, document_id: str, reason: str | None = None) -> list[Statement]:
    """The statements that follow the creation of a document's review item in the same transaction: audit entry,
    assignment.

    There is no second audit entry for an item that existed before.
    """
    update, assigned_entry = assignment(dialect, document_id)
    source = """FROM tabellion_review_items AS r WHERE r.document_id = :document AND r.status = 'pending'
  AND NOT EXISTS (SELECT 1 FROM tabellion_audit_log AS a WHERE a.item_id = r.id AND a.action = 'created')"""
    entry = AuditEntry("created", SYSTEM, document_id, reason=reason)
    return [update, statement(dialect, entry, source, {"document": document_id}, item_id="r.id"), assigned_entry]
