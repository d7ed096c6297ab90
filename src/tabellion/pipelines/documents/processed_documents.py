"""The table `tabellion_processed_documents`: which document has the result of a key, and every statement on it.

A key is the hash of everything that determines a result (`submit.key_of`).
"""

from __future__ import annotations

from tabellion.engine import sql
from tabellion.engine.sql import NOW, Dialect
from tabellion.pipelines.documents.states import Change

_TAKE = f"""INSERT INTO tabellion_processed_documents AS p (key, document_id, created_at) VALUES (:key, :id, {NOW})
ON CONFLICT (key) DO"""
#: $1 key -> the document that has it.
HOLDER = "SELECT document_id FROM tabellion_processed_documents WHERE key = $1"
#: $1 key -> the type that was detected when the file was first read.
FOUND_TYPE = """SELECT d.found_type FROM tabellion_processed_documents AS p
JOIN tabellion_documents AS d ON d.id = p.document_id WHERE p.key = $1 AND d.found_type IS NOT NULL"""


def take(dialect: Dialect, key: str, id: str, ttl: float | None) -> Change:  # noqa: A002 - the column's name
    """Takes a key that is free, expired after `ttl` seconds, or held by a document that has failed."""
    # A literal: the number comes from our own type file, and a parameter would have to be in every statement.
    expired = f" OR p.created_at < {sql.later(repr(-float(ttl)), dialect)}" if ttl is not None else ""
    # A transaction that waited here for another's commit sees its key, but not yet its document: "not known to have
    # failed" must mean that it has not.
    text = f"""{_TAKE} UPDATE SET document_id = excluded.document_id, created_at = excluded.created_at
WHERE EXISTS (SELECT 1 FROM tabellion_documents AS d WHERE d.id = p.document_id AND d.status = 'failed'){expired}"""
    return text, {"key": key, "id": id}


def take_free(key: str, id: str) -> Change:  # noqa: A002
    """Takes a key that no document has."""
    return f"{_TAKE} NOTHING", {"key": key, "id": id}


def take_abandoned(key: str, id: str) -> Change:  # noqa: A002
    """Takes a key that no document has, or only a deleted one."""
    text = f"""{_TAKE} UPDATE SET document_id = excluded.document_id
WHERE NOT EXISTS (SELECT 1 FROM tabellion_documents AS d WHERE d.id = p.document_id)"""
    return text, {"key": key, "id": id}


def hand_over(id: str, heir: str) -> Change:  # noqa: A002
    """Gives the keys of a document to another."""
    text = "UPDATE tabellion_processed_documents SET document_id = :heir WHERE document_id = :id"
    return text, {"id": id, "heir": heir}


def release(id: str, *, keep: str = "") -> Change:  # noqa: A002
    """Releases the keys of a document, except one."""
    return "DELETE FROM tabellion_processed_documents WHERE document_id = :id AND key <> :key", {"id": id, "key": keep}
