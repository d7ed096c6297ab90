"""How an item ends: approved, corrected or rejected; and how it is reopened."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from tabellion.accounts import audit
from tabellion.accounts.audit import AuditEntry
from tabellion.engine.settlement import Settlement
from tabellion.engine.store import Store
from tabellion.errors import LeaseLost
from tabellion.messages import Message, quote_value
from tabellion.pipelines.documents import states
from tabellion.pipelines.documents.review import errors, fields, item_changes, items
from tabellion.pipelines.documents.review.claims import explain_not_held, require_claim
from tabellion.pipelines.documents.review.editing import explain_conflict
from tabellion.pipelines.documents.review.fields import EMPTY, Types
from tabellion.pipelines.documents.review.items import ItemRow
from tabellion.pipelines.documents.review.people import Person
from tabellion.pipelines.documents.review.queue import ENDINGS, OPEN, Ending, review_queue
from tabellion.pipelines.documents.review.rejection import REJECTIONS, store_rejection

Effort = Mapping[str, float]  #: the seconds and keystrokes that a person spent, as far as they are known
NO_EFFORT: Effort = MappingProxyType({})
REOPEN_TRIES = 3  #: of an item that somebody else changes meanwhile


async def approve(
    store: Store, types: Types, id: str, person: Person, version: int, *,  # noqa: A002
    effort: Effort = NO_EFFORT, unseen: bool = False,
) -> Ending:  # fmt: skip
    """Finishes an item: corrected if a field of it was corrected, else approved.

    Raises NotApprovable while a required field is neither present nor marked as absent, or while a rule of the type
    fails; NoDocumentType if the document has no type, and so no fields; FieldsUnreviewed if uncertain fields have
    not been reviewed, unless `unseen` approves them anyway.
    """
    await require_claim(store, id, person)
    item = await items.row(store, id)
    if item["document_status"] != "completed":
        raise errors.ReprocessingUnderway
    if item["version"] != version:
        raise await explain_conflict(store, item, version)
    found = await fields.rows(store, item["document_id"])
    doctype = fields.type_of(types, item["type"])
    if not doctype.fields and not found:
        raise errors.NoDocumentType
    missing, failing = fields.gate(doctype, found)
    empty = not fields.decided_fields(found) and all(row["value"] in EMPTY for row in found.values())
    if missing or failing or empty:
        raise errors.NotApprovable(missing, failing, empty=empty and not missing)
    doubtful = fields.find_unseen(doctype, found)
    if doubtful and not unseen:
        raise errors.FieldsUnreviewed(doubtful)
    ending: Ending = "corrected" if any(row["manually_corrected"] for row in found.values()) else "approved"
    more = {**effort, **({"unseen": [field["name"] for field in doubtful]} if doubtful else {})}
    entry = AuditEntry("approved", person.name, item["document_id"], id, before=item["status"], after=ending, more=more)
    await _finish(store, item, person, ending, entry, version)
    return ending


async def reject(
    store: Store, id: str, person: Person, code: str, reason: str | None = None, effort: Effort = NO_EFFORT,  # noqa: A002
) -> None:  # fmt: skip
    """Rejects a document for one of the listed reasons, with an explanation by the reviewer."""
    if code not in REJECTIONS:
        raise errors.InvalidValues(
            {"code": Message("item.unknown_reason", value=quote_value(code), text=", ".join(REJECTIONS))[:400]},
            beside=True,
        )
    note = (reason or "").strip() or None
    if code == "other" and note is None:
        raise errors.InvalidValues({"reason": Message("item.reason_needed")}, beside=True)
    await require_claim(store, id, person)
    item = await items.row(store, id)
    entry = AuditEntry(
        "rejected", person.name, item["document_id"], id, before=item["status"], after="rejected", reason=note,
        more={**effort, "code": code},
    )  # fmt: skip
    await _finish(store, item, person, "rejected", entry, None)


async def _finish(
    store: Store, item: ItemRow, person: Person, ending: Ending, entry: AuditEntry, version: int | None
) -> None:
    """Ends an item of this version, or of any, with the rejection and the effort of its audit entry."""
    id = str(item["id"])  # noqa: A001 - the column's name
    job = await require_claim(store, id, person, review_queue(ending))
    spent = {name: entry.more[name] for name in ("seconds", "keystrokes") if name in entry.more}
    entry = replace(entry, more={**entry.more, "version": int(item["version"]) + 1})
    rejection = store_rejection(entry.more["code"], entry.reason) if ending == "rejected" else None
    also = [item_changes.store_ending(id, spent, rejection), states.rewrite(item["document_id"])]
    guard = None
    if version is not None:
        # If it is queued to be read again meanwhile, it is no longer what the person saw.
        lock = "FOR SHARE OF d" if store.dialect == "postgresql" else ""
        guard = (
            f"""SELECT 1 AS one FROM tabellion_review_items AS r JOIN tabellion_documents AS d ON d.id = r.document_id
WHERE r.id = :id AND r.version = :version AND d.status = 'completed' {lock}""",
            {"id": id, "version": version},
        )
    try:
        await store.end(Settlement(job, "done", also=[*also, audit.statement(store.dialect, entry)], guard=guard))
    except LeaseLost:
        current = await items.row(store, id)
        if version is not None and current["document_status"] != "completed":
            raise errors.ReprocessingUnderway from None
        if current["holder"] == person.name and current["status"] in OPEN and version is not None:
            raise await explain_conflict(store, current, version) from None
        raise await explain_not_held(store, id) from None
    await store.database.wake()


async def reopen(store: Store, id: str, person: Person, reason: str) -> None:  # noqa: A002
    """Puts a finished item back in the queue; what was corrected stays corrected."""
    if not person.operates:
        raise errors.NotAllowed
    for _ in range(REOPEN_TRIES):
        item = await items.row(store, id)
        entry = AuditEntry(
            "reopened", person.name, item["document_id"], id, before=item["status"], after="pending", reason=reason,
            more={"version": int(item["version"]) + 1},
        )  # fmt: skip
        # The version too: one that changed since it was read would be reopened with an entry of what it was before.
        statements = [
            item_changes.reopen(id, item["version"]), states.rewrite(item["document_id"]),
            audit.statement(store.dialect, entry),
        ]  # fmt: skip
        if await store.database.transact([audit.bind_statement(*one) for one in statements], guarded=True):
            await store.database.wake()
            return
        if item["status"] not in ENDINGS:
            break
    raise errors.Open
