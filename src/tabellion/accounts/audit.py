"""The trail: who did what to which document, before and after, in one chain of hashes per database.

An entry's hash is SHA-256 of the hash before it, its number, its time and its body, each on a line of its own; it is
made in the database, in the transaction of the change it tells of. Entries are only ever added.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

from tabellion.accounts.tables import GENESIS
from tabellion.answers import Answer
from tabellion.engine import sql
from tabellion.engine.job import storable
from tabellion.engine.sql import NOW, Dialect
from tabellion.engine.store import Store

Statement = tuple[str, dict[str, Any]]

#: Every action and what it means. They are stable: people script against them.
ACTIONS = {
    "extracted": "the document was read",
    "created": "a review item was created",
    "assigned": "the item was assigned to the person with the least work",
    "claimed": "a person claimed the item",
    "released": "the holder released the item",
    "expired": "the holder's claim expired, and the item was released",
    "postponed": "the holder postponed the item",
    "escalated": "the item was escalated to the operators",
    "reassigned": "the item was assigned to a person",
    "corrected": "a person corrected a field; it is locked",
    "confirmed": "a person confirmed a field",
    "absent": "a person marked a field as absent; it is locked",
    "unlocked": "a person unlocked a field",
    "approved": "a person approved the item; `after` says whether anything was corrected",
    "rejected": "a person rejected the document",
    "reopened": "a finished item was reopened",
    "reprocessed": "the document was queued to be read again",
    "deleted": "the document was deleted",
    "paused": "a queue was paused",
    "resumed": "a paused queue was resumed",
    "retried": "failed rows of a queue were retried",
    "user_added": "a user was added",
    "user_changed": "a user's role was changed, or the user was disabled or enabled",
    "password_set": "a user's password was changed",
    "link_made": "a sign-in link for a user was created",
    "key_made": "an API key was created",
    "key_revoked": "an API key was revoked",
}
SYSTEM = "tabellion"  #: who acts when nobody does
COMMAND = "command line"  #: who acts there, as nobody is signed in
PAGE = 1000  #: entries looked at in one statement
LONGEST = 2000  #: characters of a reason
UNSAID: Any = object()
_COLUMNS: tuple[Literal["document_id", "item_id", "actor", "action"], ...] = (
    "document_id",
    "item_id",
    "actor",
    "action",
)


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """An action."""

    action: str
    actor: str
    document_id: str | None = None
    item_id: str | None = None
    field: str | None = None
    before: Any = UNSAID
    after: Any = UNSAID
    reason: str | None = None
    more: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.action not in ACTIONS:
            raise ValueError(f"{self.action!r} is not an audit action")

    def body(self) -> dict[str, Any]:
        """All it says but number and time."""
        told: dict[str, Any] = {name: getattr(self, name) for name in _COLUMNS}
        told |= {"field": self.field} if self.field is not None else {}
        told |= {name: getattr(self, name) for name in ("before", "after") if getattr(self, name) is not UNSAID}
        told |= {"reason": storable(self.reason)[:LONGEST]} if self.reason else {}
        return told | dict(self.more)


class EntryFacts(Answer):
    """What a row of the log and an entry of the API have in common."""

    n: int
    at: str
    document_id: str | None
    item_id: str | None
    actor: str
    action: str


class HistoryEntry(EntryFacts):
    """An entry as JSON tells it."""

    field: str | None
    before: Any
    after: Any
    reason: str | None
    more: dict[str, Any]


class Row(EntryFacts):
    """A row of `tabellion_audit_log`."""

    body: str
    previous: str
    hash: str


def statement(
    dialect: Dialect, entry: AuditEntry, source: str = "", values: Mapping[str, Any] | None = None, **found: str
) -> Statement:
    """The statement that appends an entry, with `:name` placeholders, for `job.also` or, bound, for a transaction.

    `source` is a FROM and WHERE that gives a row if the entry is to be written at all, with its `values`; `found` are
    expressions over it for what only the database knows: `item_id="r.id", after="r.assigned_to"`. It takes the end of
    the chain until the transaction ends: let it be the transaction's last statements, so that nobody waits crosswise.
    """
    told = entry.body()
    marks = {name: f"@{name}{secrets.token_hex(8)}@" for name in found}
    body = canonical(told | marks)
    given: dict[str, Any] = {**(values or {}), "audit_body": body}
    made = "CAST(:audit_body AS text)"
    for name, expression in found.items():
        given[f"audit_{name}"] = f'"{marks[name]}"'
        made = f"replace({made}, CAST(:audit_{name} AS text), {_json(expression, dialect)})"
    columns = []
    for name in _COLUMNS:
        if name in found:
            columns.append(f"CAST({found[name]} AS text) AS {name}")
        else:
            given[f"audit_{name}"] = told[name]
            columns.append(f"CAST(:audit_{name} AS text) AS {name}")
    entries = f"SELECT {_moment(dialect)} AS at, {', '.join(columns)}, {made} AS body {source} LIMIT 1"
    return (_POSTGRES if dialect == "postgresql" else _SQLITE).format(entries=entries), given


def bind_statement(text: str, values: Mapping[str, Any]) -> tuple[str, list[Any]]:
    """A statement with `$1, $2, …`, for `database.transact`."""
    return sql.bind(text, values)


def bind_entry(dialect: Dialect, entry: AuditEntry) -> tuple[str, list[Any]]:
    """The statement that appends an entry, for `database.transact`."""
    return bind_statement(*statement(dialect, entry))


# The end of the chain is a row that each append changes: whoever comes second waits for it and goes on from there,
# which a lock taken inside the same statement could not do, for its snapshot would be older than the lock. Whoever
# waited read the clock before: no entry is earlier than the one before it.
_POSTGRES = """WITH tabellion_head AS (
  UPDATE tabellion_audit_head AS h SET n = h.n + 1, previous = h.hash, at = greatest(h.at, b.at),
    hash = encode(sha256(convert_to(h.hash || chr(10) || (h.n + 1)::text || chr(10) || greatest(h.at, b.at)
      || chr(10) || b.body, 'UTF8')), 'hex')
  FROM ({entries}) AS b WHERE h.id = 1
  RETURNING h.n, h.at, b.document_id, b.item_id, b.actor, b.action, b.body, h.previous, h.hash
)
INSERT INTO tabellion_audit_log (n, at, document_id, item_id, actor, action, body, previous, hash)
SELECT n, at, document_id, item_id, actor, action, body, previous, hash FROM tabellion_head"""

_SQLITE = """INSERT INTO tabellion_audit_log (n, at, document_id, item_id, actor, action, body, previous, hash)
SELECT h.n + 1, max(coalesce(h.at, ''), b.at), b.document_id, b.item_id, b.actor, b.action, b.body, h.hash,
  sha256_hex(h.hash || char(10) || (h.n + 1) || char(10) || max(coalesce(h.at, ''), b.at) || char(10) || b.body)
FROM tabellion_audit_head AS h, ({entries}) AS b WHERE h.id = 1"""


def canonical(told: Mapping[str, Any]) -> str:
    """JSON with one way to write each value."""
    return json.dumps(told, ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False)


def digest(previous: str, n: int, at: str, body: str) -> str:
    """The hash of an entry."""
    return hashlib.sha256(f"{previous}\n{n}\n{at}\n{body}".encode()).hexdigest()


def _json(expression: str, dialect: Dialect) -> str:
    if dialect == "postgresql":
        return f"coalesce(to_json(CAST({expression} AS text))::text, 'null')"
    return f"json_quote({expression})"


def _moment(dialect: Dialect) -> str:
    if dialect == "postgresql":
        return f"""to_char({NOW} AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')"""
    return f"strftime('%Y-%m-%dT%H:%M:%fZ', {NOW}, 'unixepoch')"


@dataclass(frozen=True, slots=True)
class ChainCheck:
    """Whether the chain holds."""

    n: int  #: entries that were looked at
    head: str  #: the hash of the last of them: note it elsewhere, and the chain up to it can never be made anew
    broken: int | None = None  #: the first entry that is not as it was written
    why: str = ""

    @property
    def whole(self) -> bool:
        """Whether every entry is as it was written."""
        return self.broken is None


async def verify(store: Store, *, known: str | None = None) -> ChainCheck:
    """Goes through the whole chain; `known` is a hash noted earlier that must be in it."""
    n, last, seen = 0, GENESIS, known in (None, GENESIS)
    ends = await _ends(store)
    before = ends[0] if ends else None
    strange = await store.database.fetch(
        "SELECT count(*) AS entries, coalesce(min(n), 0) AS n FROM tabellion_audit_log WHERE n < 1 OR n IS NULL"
    )
    if strange[0]["entries"]:
        return ChainCheck(0, GENESIS, int(strange[0]["n"]), "it precedes the start of the chain")
    while True:
        rows: list[Row] = await store.database.fetch(
            f"""SELECT {", ".join(Row.__annotations__)} FROM tabellion_audit_log
WHERE n > $1 ORDER BY n LIMIT {PAGE}""",
            n,
        )
        for row in rows:
            why = _fault(row, n, last)
            if why:
                return ChainCheck(n, last, n + 1, why)
            n, last, seen = n + 1, row["hash"], seen or row["hash"] == known
            if before is not None and before["n"] == n and before["hash"] != last:
                return ChainCheck(n, last, n, "it does not match the end of the chain at the time it was written")
        if len(rows) < PAGE:
            break
    ends = await _ends(store)
    if before is None or not ends:
        return ChainCheck(n, last, n + 1, "the row with the end of the chain is missing")
    if n < before["n"]:
        return ChainCheck(n, last, n + 1, f"entries are missing at the end: there were {before['n']}")
    if ends[0]["n"] < n:
        return ChainCheck(n, last, int(ends[0]["n"]) + 1, "entries were added past the end of the chain")
    if (entries := await _entries(store)) is not None:
        return ChainCheck(n, last, n + 1, f"the number of entries differs from the chain: {entries}")
    if not seen:
        return ChainCheck(n, last, 1, "the known hash is not in the chain: the chain was rewritten")
    return ChainCheck(n, last)


async def _ends(store: Store) -> list[Any]:
    return await store.database.fetch("SELECT n, hash FROM tabellion_audit_head WHERE id = 1")


async def _entries(store: Store) -> int | None:
    """How many entries there are, where the end of the chain says otherwise; one question, for others go on writing."""
    [found] = await store.database.fetch(
        "SELECT (SELECT count(*) FROM tabellion_audit_log) AS entries, (SELECT n FROM tabellion_audit_head "
        "WHERE id = 1) AS n"
    )
    return None if found["entries"] == found["n"] else int(found["entries"])


def _fault(row: Row, n: int, last: str) -> str:
    """What is wrong with an entry that follows number n; nothing: an empty text."""
    if row["n"] != n + 1:
        return f"entry {n + 1} is missing"
    if row["previous"] != last:
        return "it does not follow the entry before it"
    if row["hash"] != digest(last, row["n"], row["at"], row["body"]):
        return "its content was changed: its hash differs"
    try:
        told = json.loads(row["body"])
    except ValueError:
        return "its body is not valid JSON"
    for name in _COLUMNS:
        if told.get(name) != row[name]:
            return f"its {name} differs from its body"
    return ""


async def history(store: Store, *, document: str | None = None, item: str | None = None) -> list[HistoryEntry]:
    """What happened to a document, or to an item, the oldest first."""
    column, value = ("document_id", document) if item is None else ("item_id", item)
    rows = await store.database.fetch(
        f"SELECT n, at, body FROM tabellion_audit_log WHERE {column} = $1 AND n > 0 ORDER BY n", value
    )
    return [serialize_entry(row) for row in rows]


def serialize_entry(row: Row) -> HistoryEntry:
    """An entry as JSON tells it; `row` need have no more than number, time and body."""
    body = json.loads(row["body"])
    usual = {name: body.pop(name, None) for name in (*_COLUMNS, "field", "before", "after", "reason")}
    return cast("HistoryEntry", {"n": row["n"], "at": row["at"], **usual, "more": body})
