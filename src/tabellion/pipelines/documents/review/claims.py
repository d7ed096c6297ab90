"""Who has which item: claim, renew, release, postpone, escalate, assign. The engine's claim, the engine's fence."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import Iterable, Sequence
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
from tabellion.pipelines.documents.review import items, priority, queue
from tabellion.pipelines.documents.review.errors import (
    Assigned,
    Closed,
    Escalated,
    Held,
    InvalidValues,
    NotAllowed,
    NotHeld,
    ReviewPaused,
    TooMany,
    Underway,
)
from tabellion.pipelines.documents.review.items import ItemRow
from tabellion.pipelines.documents.review.people import AVAILABLE, Person
from tabellion.pipelines.documents.review.queue import NAME, OPEN, review_queue

SWEPT = 100  #: expired claims that one look gives back
HELD = 20  #: items that one person has at once: nobody reviews more, and who claims in a loop takes all
BACK = "came back"  #: why somebody is given again what they had until they were not heard of
RACES = 5  #: how often a claim is asked again that met a row which somebody was just touching

#: Whose the item is: nobody's, theirs, that of somebody who is away, or nobody's any more.
_MINE = f"""t.assigned_to IS NULL OR t.assigned_to = :me OR t.due_at < {NOW} OR t.assigned_at < {{kept}}
  OR NOT EXISTS (SELECT 1 FROM tabellion_users AS u WHERE u.name = t.assigned_to AND {AVAILABLE})"""
_HANDS_FREE = f"""(SELECT count(*) FROM tabellion_review_items AS h
WHERE h.status = 'in_review' AND h.reviewer = :me) < {HELD}"""
_READ = "EXISTS (SELECT 1 FROM tabellion_documents AS d WHERE d.id = t.document_id AND d.status = 'completed'{type})"


async def claim_next(store: Store, person: Person, type: str | None = None, after: str | None = None) -> str | None:  # noqa: A002
    """Claims the most urgent item that this person may have and gives its id; None: there is none.

    Raises ReviewPaused, and TooMany where they hold as many as one can. `after` is an item that they have just left:
    the line
    goes on behind it, and begins again where it ends.
    """
    await sweep(store)
    await priority.refresh(store)
    limits = [""]
    if after is not None:
        behind = """(t.priority < o.priority OR (t.priority = o.priority AND t.id > o.id))"""
        limits = [
            f"EXISTS (SELECT 1 FROM tabellion_review_items AS o WHERE o.id = :after AND {behind})",
            "t.id <> :after",
        ]
    for limit in limits:
        where, values = _terms(store, person, type)
        if limit:
            where, values = f"{where} AND {limit}", values | {"after": after}
        terms = Terms(where, values, also=lambda job: [_audit_statement(store, "claimed", person, job)])
        jobs = await store.claim(review_queue(), 1, person.name, terms=terms)
        if jobs:
            return str(jobs[0].key)
    if hindrance := await _find_hindrance(store, person):
        raise hindrance
    return None


async def claim(store: Store, id: str, person: Person, *, takeover: bool = False) -> bool:  # noqa: A002
    """Claims one item, and whether that is new: who has it keeps it, for longer.

    `takeover`: an operator takes it from whoever has it.
    """
    if takeover and not person.operates:
        raise NotAllowed
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
            await asyncio.sleep(0.01)  # its row was locked for a moment, or it has just been given back
    raise Held(item["holder"] or "somebody", item["lease_until"])


def _terms(store: Store, person: Person, type: str | None) -> tuple[str, dict[str, Any]]:  # noqa: A002
    """What a person may claim: a condition on the item `t`, and its values."""
    values: dict[str, Any] = {"me": person.name}
    mine = _MINE.format(kept=later(f"-{queue.HOLD}", store.dialect))
    escalated = "" if person.operates else " AND t.escalated_at IS NULL"
    typed = ""
    if type is not None:
        values["type"], typed = type, " AND coalesce(d.found_type, d.type) = :type"
    return f"({mine}){escalated} AND {_HANDS_FREE} AND {_READ.format(type=typed)}", values


async def _find_hindrance(store: Store, person: Person) -> Exception | None:
    """Why nobody, or this person, can have any item now."""
    paused = await store.database.fetch(
        "SELECT reason FROM tabellion_queues WHERE queue = $1 AND paused_at IS NOT NULL", NAME
    )
    if paused:
        return ReviewPaused(paused[0]["reason"])
    held = await store.database.fetch(
        "SELECT id FROM tabellion_review_items WHERE status = 'in_review' AND reviewer = $1 ORDER BY id", person.name
    )
    return TooMany([row["id"] for row in held]) if len(held) >= HELD else None


def _find_refusal(item: ItemRow, person: Person, *, takeover: bool) -> Exception | None:
    """Why this person cannot have this item; None: nothing speaks against it."""
    if item["status"] not in OPEN:
        return Closed(item["status"], item["reviewer"])
    if item["holder"] is not None and not takeover:
        return Held(item["holder"], item["lease_until"], takeover=person.operates)
    if item["escalated_at"] is not None and not person.operates:
        return Escalated()
    if item["document_status"] != "completed":
        return Underway()
    theirs = item["assigned_to"] not in (None, person.name) and not takeover
    if theirs and item["due_at"] >= item["now"] and (item["assigned_at"] or 0) >= item["now"] - queue.HOLD:
        return Assigned(str(item["assigned_to"]), takeover=person.operates)
    return None


async def _take_over(store: Store, item: ItemRow, person: Person) -> None:
    """Ends the claim of whoever has the item."""
    job = await store.held(review_queue(), item["id"])
    if job is None:
        return
    entry = _entry(
        "released", person, item, before=job.worker, reason="taken_over", more={"holder": job.worker}
    )  # fmt: skip
    await _end_claim(store, job, "released", [audit.statement(store.dialect, entry)])


async def sweep(store: Store) -> None:
    """Gives back the items whose holders were not heard of for too long; nobody is blamed for it."""
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
        await _end_claim(store, bound.job(row), "released", also, expired_only=True)


async def renew(store: Store, id: str, person: Person) -> float:  # noqa: A002
    """Says that the holder is still there; until when the claim holds now, in seconds since 1970."""
    job = await mine(store, id, person)
    if await store.renew([job]):
        raise await explain_not_held(store, id)
    item = await items.row(store, id)
    return float(item["lease_until"] or item["now"])


async def release(store: Store, id: str, person: Person, reason: str | None = None) -> None:  # noqa: A002
    """Gives an item back, to whoever comes next."""
    await _leave(store, id, person, "released", AuditEntry("released", person.name, reason=reason))


async def postpone(
    store: Store, id: str, person: Person, seconds: float, reason: str | None = None  # noqa: A002
) -> None:  # fmt: skip
    """Gives an item back for later: nobody is offered it before."""
    entry = AuditEntry("postponed", person.name, reason=reason, more={"seconds": seconds})
    await _leave(store, id, person, "limited", entry, after=float(seconds))


async def _leave(
    store: Store, id: str, person: Person, outcome: Outcome, entry: AuditEntry, after: float | None = None,  # noqa: A002
) -> None:  # fmt: skip
    job = await mine(store, id, person)
    item = await items.row(store, id)
    also = [audit.statement(store.dialect, attach_item(entry, item))]
    if not await _end_claim(store, job, outcome, also, after=after, why=entry.reason):
        raise await explain_not_held(store, id)


async def escalate(store: Store, id: str, person: Person, reason: str) -> None:  # noqa: A002
    """Hands an item to the operators, with a word why."""
    update = f"""UPDATE tabellion_review_items SET escalated_at = {NOW}, escalated_by = :by, escalation = :why,
  assigned_to = NULL, assigned_at = NULL WHERE id = :id"""
    entry = AuditEntry("escalated", person.name, after=None, reason=reason)
    await _hand_on(store, id, person, (update, {"id": id, "by": person.name, "why": reason}), entry)


async def assign(store: Store, id: str, person: Person, to: str | None, reason: str | None = None) -> None:  # noqa: A002
    """Gives an item to somebody, or to nobody in particular; from an operator, or from whoever has it.

    A claim of anybody else ends with it, which takes an operator; assigning an item to its holder keeps the claim.
    """
    item = await items.row(store, id)
    if not person.operates and person.name not in (item["assigned_to"], item["holder"]):
        raise NotAllowed(Message("item.may_not_assign"))
    if to is not None and to != person.name:
        known = await store.database.fetch(
            f"SELECT 1 AS one FROM tabellion_users AS u WHERE u.name = $1 AND {AVAILABLE}", to
        )
        if not known:
            raise InvalidValues({"to": Message("item.no_such_reviewer", value=quote_value(to))}, beside=True)
    update = f"""UPDATE tabellion_review_items SET assigned_to = :to, assigned_at = {NOW if to is not None else "NULL"},
  escalated_at = NULL, escalated_by = NULL, escalation = NULL WHERE id = :id"""
    entry = AuditEntry("reassigned", person.name, after=to, reason=reason)
    change = (update, {"id": id, "to": to})
    await _hand_on(store, id, person, change, entry, from_others=person.operates, to=to)


async def _hand_on(
    store: Store, id: str, person: Person, change: Statement, entry: AuditEntry, *, from_others: bool = False,  # noqa: A002
    to: str | None = None,
) -> None:  # fmt: skip
    """Changes whose an item is: a claim on it ends with that, one that waits is changed where it stands.

    Whose it was until then is read in the transaction, for others hand on too: told first, then changed, the row being
    ours by then.
    """
    for _ in range(RACES):
        item = await items.row(store, id)
        if item["status"] not in OPEN:
            raise Closed(item["status"], item["reviewer"])
        job = await store.held(review_queue(), id)
        kept = job is not None and job.worker == to
        ended = {"holder": job.worker} if job is not None and not kept else {}
        full = dataclasses.replace(attach_item(entry, item), more=ended)
        source = "FROM tabellion_review_items AS r WHERE r.id = :id"
        told = audit.statement(store.dialect, full, source, {"id": id}, before="r.assigned_to")
        guard = f"SELECT id FROM tabellion_review_items WHERE id = $1 AND status = $2{lock_clause(store)}"
        if job is None:
            statements = [(guard, [id, "pending"]), audit.bind_statement(*told), audit.bind_statement(*change)]
            done = bool(await store.database.transact(statements, guarded=True))
        elif kept:
            done = await _amend_claim(
                store, job, [(guard, [id, "in_review"]), audit.bind_statement(*told), audit.bind_statement(*change)]
            )
        elif job.worker != person.name and not from_others:
            raise Held(job.worker, item["lease_until"])
        else:
            done = await _end_claim(store, job, "released", [told, change])
        if done:
            return
    raise Held("somebody", None)


async def _end_claim(
    store: Store, job: Job, outcome: Outcome, also: Iterable[Statement], *, after: float | None = None,
    why: str | None = None, expired_only: bool = False,
) -> bool:  # fmt: skip
    """Ends a claim, and whether it was there to be ended."""
    try:
        await store.end(Settlement(job, outcome, error=why, after=after, expired_only=expired_only, also=list(also)))
    except LeaseLost:
        return False
    return True


async def _amend_claim(store: Store, job: Job, statements: Sequence[Numbered]) -> bool:
    """Writes something with a renewal of a claim, and whether it was there."""
    try:
        return bool(await store.amend(job, statements))
    except LeaseLost:
        return False


async def mine(store: Store, id: str, person: Person, queue: Queue | None = None) -> Job:  # noqa: A002
    """This person's live claim on an item; raises what speaks against it. Drafts go when it is finished with.

    Who was not heard of for too long and comes back before anything else happened to the item has it again.
    """
    job = await store.held(queue or review_queue(), id)
    if job is None and await _has_just_expired(store, id, person):
        with contextlib.suppress(Held):
            await _claim(store, id, person, reason=BACK)
        job = await store.held(queue or review_queue(), id)
    if job is None or job.worker != person.name:
        raise await explain_not_held(store, id)
    job.also("DELETE FROM tabellion_review_drafts WHERE item_id = :id", id=id)
    return job


async def _has_just_expired(store: Store, id: str, person: Person) -> bool:  # noqa: A002
    """Whether the last thing that happened to an item is that this person's lease ran out."""
    last = await store.database.fetch(
        "SELECT n, at, body FROM tabellion_audit_log WHERE item_id = $1 ORDER BY n DESC LIMIT 1", id
    )
    told = audit.serialize_entry(last[0]) if last else None
    return told is not None and told["action"] == "expired" and bool(told["before"] == person.name)


async def explain_not_held(store: Store, id: str) -> Exception:  # noqa: A002
    """Why a claim is not there: the item is finished, somebody else's, or nobody's."""
    item = await items.row(store, id)
    if item["status"] not in OPEN:
        return Closed(item["status"], item["reviewer"])
    return NotHeld(item["holder"], item["lease_until"])


def attach_item(entry: AuditEntry, item: ItemRow) -> AuditEntry:
    """The entry with the item and the document it is about."""
    return AuditEntry(
        entry.action, entry.actor, item["document_id"], item["id"], entry.field, entry.before, entry.after,
        entry.reason, entry.more,
    )  # fmt: skip


def lock_clause(store: Store) -> str:
    """Makes a question hold the row until the transaction ends; SQLite holds the whole file anyway."""
    return " FOR UPDATE" if store.dialect == "postgresql" else ""


def _entry(action: str, person: Person, item: ItemRow, **more: Any) -> AuditEntry:
    return AuditEntry(action, person.name, item["document_id"], item["id"], **more)


def _audit_statement(store: Store, action: str, person: Person, job: Job, reason: str | None = None) -> Statement:
    entry = AuditEntry(action, person.name, job["document_id"], str(job.key), reason=reason)
    return audit.statement(store.dialect, entry)
