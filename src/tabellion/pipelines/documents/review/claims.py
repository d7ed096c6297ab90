"""Who has which item: claim, renew, release, postpone, escalate, assign; built on the engine's claims and fences."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import Sequence
from typing import Any

from tabellion.accounts import audit
from tabellion.accounts.audit import SYSTEM, AuditEntry, Statement
from tabellion.engine.job import Job
from tabellion.engine.moves import Numbered, Terms
from tabellion.engine.queue import Queue
from tabellion.engine.settlement import Outcome, Settlement
from tabellion.engine.sql import NOW, later
from tabellion.engine.store import Store
from tabellion.errors import LeaseLost
from tabellion.messages import Message, quote_value
from tabellion.pipelines.documents.review import drafts, errors, item_changes, items, priority, queue
from tabellion.pipelines.documents.review.items import ItemRow
from tabellion.pipelines.documents.review.people import AVAILABLE, Person
from tabellion.pipelines.documents.review.queue import NAME, OPEN, review_queue

SWEPT = 100  #: expired claims that one sweep releases
HELD = 20  #: items that one person may hold: nobody reviews more, and claiming in a loop would take all
BACK = "came_back"  #: the reason in the audit log when a person gets back an item whose claim had expired
RACES = 5  #: how often a claim is retried that met a row locked by somebody else

#: Items not reserved for somebody else: unassigned, theirs, overdue, assigned too long ago, or to an absent person.
_MINE = f"""t.assigned_to IS NULL OR t.assigned_to = :me OR t.due_at < {NOW} OR t.assigned_at < {{kept}}
  OR NOT EXISTS (SELECT 1 FROM tabellion_users AS u WHERE u.name = t.assigned_to AND {AVAILABLE})"""
_HANDS_FREE = f"""(SELECT count(*) FROM tabellion_review_items AS h
WHERE h.status = 'in_review' AND h.reviewer = :me) < {HELD}"""
_READ = "EXISTS (SELECT 1 FROM tabellion_documents AS d WHERE d.id = t.document_id AND d.status = 'completed'{type})"


async def claim_next(store: Store, person: Person, type: str | None = None, after: str | None = None) -> str | None:  # noqa: A002
    """Claims the most urgent item that this person may have; returns its id, or None if there is none.

    Raises ReviewPaused, and TooMany if they hold as many as allowed. `after` is an item that they have just left: the
    search continues after it in the queue, then starts again from the front.
    """
    await sweep(store)
    await priority.refresh(store)
    extra_conditions = [""]
    if after is not None:
        behind = """(t.priority < o.priority OR (t.priority = o.priority AND t.id > o.id))"""
        extra_conditions = [
            f"EXISTS (SELECT 1 FROM tabellion_review_items AS o WHERE o.id = :after AND {behind})",
            "t.id <> :after",
        ]
    for condition in extra_conditions:
        where, values = _terms(store, person, type)
        if condition:
            where, values = f"{where} AND {condition}", values | {"after": after}
        terms = Terms(where, values, also=lambda job: [_audit_statement(store, "claimed", person, job)])
        jobs = await store.claim(review_queue(), 1, person.name, terms=terms)
        if jobs:
            return str(jobs[0].key)
    if hindrance := await _find_hindrance(store, person):
        raise hindrance
    return None


async def claim(store: Store, id: str, person: Person, *, takeover: bool = False) -> bool:  # noqa: A002
    """Claims one item; returns whether the claim is new: the holder keeps it, with a renewed lease.

    `takeover`: an operator takes it from its holder.
    """
    if takeover and not person.operates:
        raise errors.NotAllowed
    return await _claim(store, id, person, takeover=takeover)


async def _claim(store: Store, id: str, person: Person, *, takeover: bool = False, reason: str | None = None) -> bool:  # noqa: A002
    await sweep(store)
    where, values = _terms(store, person, None)
    if takeover:
        where, values = f"{_HANDS_FREE} AND {_READ.format(type='')}", {"me": person.name}
    terms = Terms(
        where, values, only=id, early=True, also=lambda job: [_audit_statement(store, "claimed", person, job, reason)]
    )
    for tries_left in range(RACES, -1, -1):
        if await store.claim(review_queue(), 1, person.name, terms=terms):
            return True
        item = await items.row(store, id)
        if item["holder"] == person.name:
            await renew(store, id, person)
            return False
        if refusal := _find_refusal(item, person, takeover=takeover) or await _find_hindrance(store, person):
            raise refusal
        if item["holder"] is not None:
            await _take_over(store, item, person)
        elif tries_left:
            await asyncio.sleep(0.01)  # its row was locked for a moment, or it has just been released
    raise errors.ItemHeld(item["holder"], item["lease_until"])


def _terms(store: Store, person: Person, type: str | None) -> tuple[str, dict[str, Any]]:  # noqa: A002
    """What a person may claim: a condition on the item `t`, and its values."""
    values: dict[str, Any] = {"me": person.name}
    mine = _MINE.format(kept=later(f"-{queue.HOLD}", store.dialect))
    escalation_condition = "" if person.operates else " AND t.escalated_at IS NULL"
    type_condition = ""
    if type is not None:
        values["type"], type_condition = type, " AND coalesce(d.found_type, d.type) = :type"
    return f"({mine}){escalation_condition} AND {_HANDS_FREE} AND {_READ.format(type=type_condition)}", values


async def _find_hindrance(store: Store, person: Person) -> Exception | None:
    """Why nobody, or not this person, can claim any item now."""
    paused = await store.database.fetch(
        "SELECT reason FROM tabellion_queues WHERE queue = $1 AND paused_at IS NOT NULL", NAME
    )
    if paused:
        return errors.ReviewPaused(paused[0]["reason"])
    held = await store.database.fetch(
        "SELECT id FROM tabellion_review_items WHERE status = 'in_review' AND reviewer = $1 ORDER BY id", person.name
    )
    return errors.TooMany([row["id"] for row in held]) if len(held) >= HELD else None


def _find_refusal(item: ItemRow, person: Person, *, takeover: bool) -> Exception | None:
    """Why this person cannot have this item; None if they can."""
    if item["status"] not in OPEN:
        return errors.Closed(item["status"], item["reviewer"])
    if item["holder"] is not None and not takeover:
        return errors.ItemHeld(item["holder"], item["lease_until"], takeover=person.operates)
    if item["escalated_at"] is not None and not person.operates:
        return errors.Escalated()
    if item["document_status"] != "completed":
        return errors.ReprocessingUnderway()
    reserved = item["assigned_to"] not in (None, person.name) and not takeover
    if reserved and item["due_at"] >= item["now"] and (item["assigned_at"] or 0) >= item["now"] - queue.HOLD:
        return errors.Assigned(str(item["assigned_to"]), takeover=person.operates)
    return None


async def _take_over(store: Store, item: ItemRow, person: Person) -> None:
    """Ends the holder's claim on the item."""
    job = await store.find_claim(review_queue(), item["id"])
    if job is None:
        return
    entry = _entry(
        "released", person, item, before=job.worker, reason="taken_over", more={"holder": job.worker}
    )  # fmt: skip
    await _end_claim(store, Settlement(job, "released", also=[audit.statement(store.dialect, entry)]))


async def sweep(store: Store) -> None:
    """Releases items whose claims have expired; it is not counted against anybody."""
    queue = review_queue()
    bound = await store.bind(queue)
    rows = await store.database.fetch(
        f"""SELECT a.key, a.n, CAST(a.token AS text) AS token, a.attempt, a.crashes, a.worker, r.document_id
FROM tabellion_attempts AS a LEFT JOIN tabellion_review_items AS r ON r.id = a.key
WHERE a.queue = '{NAME}' AND a.settled_at IS NULL AND a.lease_until < {NOW} LIMIT {SWEPT}"""
    )
    for row in rows:
        entry = AuditEntry("expired", SYSTEM, row["document_id"], row["key"], before=row["worker"])
        also = [audit.statement(store.dialect, entry)]
        await _end_claim(store, Settlement(bound.job(row), "released", expired_only=True, also=also))


async def renew(store: Store, id: str, person: Person) -> float:  # noqa: A002
    """Renews the claim; returns when it expires, in seconds since 1970."""
    job = await require_claim(store, id, person)
    if await store.renew([job]):
        raise await explain_not_held(store, id)
    item = await items.row(store, id)
    return float(item["lease_until"] or item["now"])


async def release(store: Store, id: str, person: Person, reason: str | None = None) -> None:  # noqa: A002
    """Releases an item."""
    await _leave(store, id, person, "released", AuditEntry("released", person.name, reason=reason))


async def postpone(
    store: Store, id: str, person: Person, seconds: float, reason: str | None = None  # noqa: A002
) -> None:  # fmt: skip
    """Releases an item until later: `claim_next` skips it before then."""
    entry = AuditEntry("postponed", person.name, reason=reason, more={"seconds": seconds})
    await _leave(store, id, person, "limited", entry, after=float(seconds))


async def _leave(
    store: Store, id: str, person: Person, outcome: Outcome, entry: AuditEntry, after: float | None = None,  # noqa: A002
) -> None:  # fmt: skip
    job = await require_claim(store, id, person)
    item = await items.row(store, id)
    also = [audit.statement(store.dialect, attach_item(entry, item))]
    if not await _end_claim(store, Settlement(job, outcome, error=entry.reason, after=after, also=also)):
        raise await explain_not_held(store, id)


async def escalate(store: Store, id: str, person: Person, reason: str) -> None:  # noqa: A002
    """Hands an item to the operators, with a reason."""
    entry = AuditEntry("escalated", person.name, after=None, reason=reason)
    await _hand_on(store, id, person, item_changes.escalate(id, person.name, reason), entry)


async def assign(store: Store, id: str, person: Person, to: str | None, reason: str | None = None) -> None:  # noqa: A002
    """Assigns an item to a person or to nobody; for operators, the assignee and the holder.

    It ends the claim of anybody else, for which the caller must be an operator; assigning an item to its holder keeps
    the claim.
    """
    item = await items.row(store, id)
    if not person.operates and person.name not in (item["assigned_to"], item["holder"]):
        raise errors.NotAllowed(Message("item.may_not_assign"))
    if to is not None and to != person.name:
        known = await store.database.fetch(
            f"SELECT 1 AS one FROM tabellion_users AS u WHERE u.name = $1 AND {AVAILABLE}", to
        )
        if not known:
            raise errors.InvalidValues({"to": Message("item.no_such_reviewer", value=quote_value(to))}, beside=True)
    entry = AuditEntry("reassigned", person.name, after=to, reason=reason)
    await _hand_on(store, id, person, item_changes.assign(id, to), entry, from_others=person.operates, to=to)


async def _hand_on(
    store: Store, id: str, person: Person, change: Statement, entry: AuditEntry, *, from_others: bool = False,  # noqa: A002
    to: str | None = None,
) -> None:  # fmt: skip
    """Changes the assignee of an item: ends its claim, if it has one, or changes the waiting item.

    The previous assignee is read in the transaction, because others may reassign too: the audit entry comes first, then
    the change, which locks the row.
    """
    for _ in range(RACES):
        item = await items.row(store, id)
        if item["status"] not in OPEN:
            raise errors.Closed(item["status"], item["reviewer"])
        job = await store.find_claim(review_queue(), id)
        keeps_claim = job is not None and job.worker == to
        former_holder = {"holder": job.worker} if job is not None and not keeps_claim else {}
        full_entry = dataclasses.replace(attach_item(entry, item), more=former_holder)
        source = "FROM tabellion_review_items AS r WHERE r.id = :id"
        audit_statement = audit.statement(store.dialect, full_entry, source, {"id": id}, before="r.assigned_to")
        guard = f"SELECT id FROM tabellion_review_items WHERE id = $1 AND status = $2{lock_clause(store)}"
        if job is None:
            statements = [
                (guard, [id, "pending"]),
                audit.bind_statement(*audit_statement),
                audit.bind_statement(*change),
            ]
            done = bool(await store.database.transact(statements, guarded=True))
        elif keeps_claim:
            done = await _amend_claim(
                store,
                job,
                [(guard, [id, "in_review"]), audit.bind_statement(*audit_statement), audit.bind_statement(*change)],
            )
        elif job.worker != person.name and not from_others:
            raise errors.ItemHeld(job.worker, item["lease_until"])
        else:
            done = await _end_claim(store, Settlement(job, "released", also=[audit_statement, change]))
        if done:
            return
    raise errors.ItemHeld(None, None)


async def _end_claim(store: Store, settlement: Settlement) -> bool:
    """Ends a claim; returns whether it still existed."""
    try:
        await store.end(settlement)
    except LeaseLost:
        return False
    return True


async def _amend_claim(store: Store, job: Job, statements: Sequence[Numbered]) -> bool:
    """Runs statements with a renewal of a claim; returns whether it still existed."""
    try:
        return bool(await store.amend(job, statements))
    except LeaseLost:
        return False


async def require_claim(store: Store, id: str, person: Person, queue: Queue | None = None) -> Job:  # noqa: A002
    """This person's live claim on an item; raises the reason if there is none. Finishing it deletes the drafts.

    A person whose claim has expired gets it back if nothing else has happened to the item.
    """
    job = await store.find_claim(queue or review_queue(), id)
    if job is None and await _has_just_expired(store, id, person):
        with contextlib.suppress(errors.ItemHeld):
            await _claim(store, id, person, reason=BACK)
        job = await store.find_claim(queue or review_queue(), id)
    if job is None or job.worker != person.name:
        raise await explain_not_held(store, id)
    text, values = drafts.delete(id)
    job.also(text, **values)
    return job


async def _has_just_expired(store: Store, id: str, person: Person) -> bool:  # noqa: A002
    """Whether the last event of an item is that this person's claim expired."""
    rows = await store.database.fetch(
        "SELECT n, at, body FROM tabellion_audit_log WHERE item_id = $1 ORDER BY n DESC LIMIT 1", id
    )
    entry = audit.serialize_entry(rows[0]) if rows else None
    return entry is not None and entry["action"] == "expired" and bool(entry["before"] == person.name)


async def explain_not_held(store: Store, id: str) -> Exception:  # noqa: A002
    """Why there is no claim: the item is finished, held by somebody else, or unclaimed."""
    item = await items.row(store, id)
    if item["status"] not in OPEN:
        return errors.Closed(item["status"], item["reviewer"])
    return errors.NotHeld(item["holder"], item["lease_until"])


def attach_item(entry: AuditEntry, item: ItemRow) -> AuditEntry:
    """The entry with its item and document."""
    return AuditEntry(
        entry.action, entry.actor, item["document_id"], item["id"], entry.field, entry.before, entry.after,
        entry.reason, entry.more,
    )  # fmt: skip


def lock_clause(store: Store) -> str:
    """Locks the selected row until the transaction ends; SQLite locks the whole file anyway."""
    return " FOR UPDATE" if store.dialect == "postgresql" else ""


def _entry(action: str, person: Person, item: ItemRow, **more: Any) -> AuditEntry:
    return AuditEntry(action, person.name, item["document_id"], item["id"], **more)


def _audit_statement(store: Store, action: str, person: Person, job: Job, reason: str | None = None) -> Statement:
    entry = AuditEntry(action, person.name, job["document_id"], str(job.key), reason=reason)
    return audit.statement(store.dialect, entry)
