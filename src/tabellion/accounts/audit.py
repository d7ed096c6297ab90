"""The audit log: who did what to what, before and after, as one chain of hashes per database.

An entry's hash is the SHA-256 of the previous hash, its number, its time and its body, each on its own line. The
database computes it in the transaction of the change that the entry records. Entries are only ever added.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypedDict, cast

from tabellion import messages
from tabellion.accounts.tables import GENESIS
from tabellion.answers import Answer
from tabellion.engine import sql
from tabellion.engine.job import storable
from tabellion.engine.sql import NOW, Dialect
from tabellion.engine.store import Store

Statement = tuple[str, dict[str, Any]]

SYSTEM = "tabellion"  #: the actor where no person acts
COMMAND = "command line"  #: the actor of commands, where nobody is signed in
PAGE = 1000  #: entries read by one statement
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
    """An action to be recorded. Its code has its meaning in a catalogue, as `audit.<action>`; codes are stable."""

    action: str
    actor: str
    subject: str | None = (
        None  #: the id of what it was done to; stored as `document_id`, as before there were pipelines
    )
    item_id: str | None = None
    field: str | None = None
    before: Any = UNSAID
    after: Any = UNSAID
    reason: str | None = None
    more: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        if not messages.is_known(f"audit.{self.action}"):
            raise ValueError(f"{self.action!r} is not an audit action: no catalogue has audit.{self.action}")

    def body(self) -> dict[str, Any]:
        """The entry's content as JSON values: everything but its number and time."""
        values: dict[str, Any] = {
            "document_id": self.subject, "item_id": self.item_id, "actor": self.actor, "action": self.action,
        }  # fmt: skip
        values |= {"field": self.field} if self.field is not None else {}
        values |= {name: getattr(self, name) for name in ("before", "after") if getattr(self, name) is not UNSAID}
        values |= {"reason": storable(self.reason)[:LONGEST]} if self.reason else {}
        return values | dict(self.more)


class EntryFacts(Answer):
    """What a row of the log and an entry of the API have in common."""

    n: int
    at: str
    document_id: str | None
    item_id: str | None
    actor: str
    action: str


class HistoryEntry(EntryFacts):
    """An entry of the audit log."""

    field: str | None
    before: Any
    after: Any
    reason: str | None
    more: dict[str, Any]


class AuditRow(EntryFacts):
    """A row of `tabellion_audit_log`."""

    body: str
    previous: str
    hash: str


class HeadRow(TypedDict):
    """The row of `tabellion_audit_head`: the end of the chain."""

    n: int
    previous: str
    hash: str
    at: str | None


def statement(
    dialect: Dialect, entry: AuditEntry, source: str = "", values: Mapping[str, Any] | None = None, **found: str
) -> Statement:
    """The statement that appends an entry, with `:name` placeholders, for `job.also` or, bound, for a transaction.

    `source` is a FROM and WHERE that returns a row if the entry is to be written at all, with its `values`; `found` are
    expressions over it for values that only the database knows: `item_id="r.id", after="r.assigned_to"`. The statement
    locks the end of the chain until the transaction ends: put it last, so that transactions cannot deadlock.
    """
    values_by_name = entry.body()
    marks = {name: f"@{name}{secrets.token_hex(8)}@" for name in found}
    body = canonical(values_by_name | marks)
    parameters: dict[str, Any] = {**(values or {}), "audit_body": body}
    expression = "CAST(:audit_body AS text)"
    for name, found_sql in found.items():
        parameters[f"audit_{name}"] = f'"{marks[name]}"'
        expression = f"replace({expression}, CAST(:audit_{name} AS text), {_json(found_sql, dialect)})"
    columns = []
    for name in _COLUMNS:
        if name in found:
            columns.append(f"CAST({found[name]} AS text) AS {name}")
        else:
            parameters[f"audit_{name}"] = values_by_name[name]
            columns.append(f"CAST(:audit_{name} AS text) AS {name}")
    entries = f"SELECT {_moment(dialect)} AS at, {', '.join(columns)}, {expression} AS body {source} LIMIT 1"
    return (_POSTGRES if dialect == "postgresql" else _SQLITE).format(entries=entries), parameters


def bind_statement(text: str, values: Mapping[str, Any]) -> tuple[str, list[Any]]:
    """A statement with `$1, $2, …`, for `database.transact`."""
    return sql.bind(text, values)


def bind_entry(dialect: Dialect, entry: AuditEntry) -> tuple[str, list[Any]]:
    """The statement that appends an entry, for `database.transact`."""
    return bind_statement(*statement(dialect, entry))


# The end of the chain is a row that each append updates: a concurrent append waits for it and continues from there. A
# lock taken inside the same statement would not do, because the statement's snapshot would be older than the lock. An
# append that waited has read the clock before: greatest() keeps its entry from being earlier than the previous one.
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


def canonical(body: Mapping[str, Any]) -> str:
    """Canonical JSON: equal values always give the same text."""
    return json.dumps(body, ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False)


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
    """The result of checking the chain."""

    n: int  #: entries that were checked
    head: str  #: the hash of the last of them: with a copy kept elsewhere, a rewritten chain is detected
    broken: int | None = None  #: the number of the first entry that was altered
    why: str = ""

    @property
    def whole(self) -> bool:
        """Whether every entry is as it was written."""
        return self.broken is None


async def verify(store: Store, *, known: str | None = None) -> ChainCheck:
    """Checks the whole chain; `known` is a hash noted earlier that must be in it."""
    n, last, is_known_found = 0, GENESIS, known in (None, GENESIS)
    heads = await _heads(store)
    head_before = heads[0] if heads else None
    invalid = await store.database.fetch(
        "SELECT count(*) AS entries, coalesce(min(n), 0) AS n FROM tabellion_audit_log WHERE n < 1 OR n IS NULL"
    )
    if invalid[0]["entries"]:
        return ChainCheck(0, GENESIS, int(invalid[0]["n"]), "it precedes the start of the chain")
    while True:
        rows: list[AuditRow] = await store.database.fetch(
            f"""SELECT {", ".join(AuditRow.__annotations__)} FROM tabellion_audit_log
WHERE n > $1 ORDER BY n LIMIT {PAGE}""",
            n,
        )
        for row in rows:
            why = _fault(row, n, last)
            if why:
                return ChainCheck(n, last, n + 1, why)
            n, last, is_known_found = n + 1, row["hash"], is_known_found or row["hash"] == known
            if head_before is not None and head_before["n"] == n and head_before["hash"] != last:
                return ChainCheck(n, last, n, "it does not match the end of the chain at the time it was written")
        if len(rows) < PAGE:
            break
    heads = await _heads(store)
    if head_before is None or not heads:
        return ChainCheck(n, last, n + 1, "the row with the end of the chain is missing")
    if n < head_before["n"]:
        return ChainCheck(n, last, n + 1, f"entries are missing at the end: there were {head_before['n']}")
    if heads[0]["n"] < n:
        return ChainCheck(n, last, int(heads[0]["n"]) + 1, "entries were added past the end of the chain")
    if (entries := await _entries(store)) is not None:
        return ChainCheck(n, last, n + 1, f"the number of entries differs from the chain: {entries}")
    if not is_known_found:
        return ChainCheck(n, last, 1, "the known hash is not in the chain: the chain was rewritten")
    return ChainCheck(n, last)


async def _heads(store: Store) -> list[HeadRow]:
    return await store.database.fetch(
        f"SELECT {', '.join(HeadRow.__annotations__)} FROM tabellion_audit_head WHERE id = 1"
    )


async def _entries(store: Store) -> int | None:
    """The number of entries if it differs from the head's, else None; one statement, because others keep writing."""
    [counts] = await store.database.fetch(
        "SELECT (SELECT count(*) FROM tabellion_audit_log) AS entries, (SELECT n FROM tabellion_audit_head "
        "WHERE id = 1) AS n"
    )
    return None if counts["entries"] == counts["n"] else int(counts["entries"])


def _fault(row: AuditRow, n: int, last: str) -> str:
    """What is wrong with the entry that should follow number n; empty if nothing is."""
    if row["n"] != n + 1:
        return f"entry {n + 1} is missing"
    if row["previous"] != last:
        return "it does not follow the entry before it"
    if row["hash"] != digest(last, row["n"], row["at"], row["body"]):
        return "its content was changed: its hash differs"
    try:
        body = json.loads(row["body"])
    except ValueError:
        return "its body is not valid JSON"
    for name in _COLUMNS:
        if body.get(name) != row[name]:
            return f"its {name} differs from its body"
    return ""


async def history(store: Store, *, subject: str | None = None, item: str | None = None) -> list[HistoryEntry]:
    """The entries of a subject, such as a document, or of an item, oldest first."""
    column, value = ("document_id", subject) if item is None else ("item_id", item)
    rows = await store.database.fetch(
        f"SELECT n, at, body FROM tabellion_audit_log WHERE {column} = $1 AND n > 0 ORDER BY n", value
    )
    return [serialize_entry(row) for row in rows]


def serialize_entry(row: AuditRow) -> HistoryEntry:
    """An entry as the API shows it; `row` needs only number, time and body."""
    body = json.loads(row["body"])
    named = {name: body.pop(name, None) for name in (*_COLUMNS, "field", "before", "after", "reason")}
    return cast("HistoryEntry", {"n": row["n"], "at": row["at"], **named, "more": body})
