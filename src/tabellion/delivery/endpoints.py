"""Webhook endpoints: the URLs that receive events, and the secrets that sign deliveries."""

from __future__ import annotations

import base64
import json
import secrets
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypedDict

from tabellion.answers import Answer
from tabellion.delivery import deliveries
from tabellion.delivery.deliveries import STATES
from tabellion.delivery.deliveries import DeliveryState as DeliveryState
from tabellion.engine import sql
from tabellion.engine.columns import columns_of
from tabellion.engine.database import Database
from tabellion.engine.schema import Schema
from tabellion.engine.sql import NOW, Dialect
from tabellion.engine.store import Store
from tabellion.engine.timestamps import iso
from tabellion.errors import TabellionError
from tabellion.messages import Message, quote_value

EVERYTHING = "*"
OVERLAP = 86_400.0  #: seconds that a replaced secret continues to sign
SECRET_BYTES = 32
LONGEST_URL = 2048

_COLUMNS: dict[str, tuple[tuple[str, str], ...]] = {
    "tabellion_webhook_endpoints": (
        ("id", "text PRIMARY KEY"),
        ("url", "text NOT NULL"),
        ("events", "text NOT NULL"),
        ("secret", "text NOT NULL"),
        ("former_secret", "text"),
        ("former_until", "TIME"),
        ("disabled_at", "TIME"),
        ("disabled_why", "text"),
        ("created_at", "TIME NOT NULL DEFAULT NOW"),
    ),
    "tabellion_webhook_deliveries": (
        ("id", "text PRIMARY KEY"),
        ("endpoint_id", "text NOT NULL"),
        ("document_id", "text NOT NULL"),  # of any subject; versions only add, so it keeps its first name
        ("event", "text NOT NULL"),
        ("body", "text NOT NULL"),
        ("status", "text NOT NULL DEFAULT 'pending'"),
        ("attempts", "integer NOT NULL DEFAULT 0"),
        ("worker", "text"),
        ("error", "text"),
        ("response_status", "integer"),
        ("response", "text"),
        ("created_at", "TIME NOT NULL DEFAULT NOW"),
        ("finished_at", "TIME"),
    ),
}
_INDEXES = (
    "CREATE INDEX IF NOT EXISTS tabellion_webhook_deliveries_pending ON tabellion_webhook_deliveries (created_at, id) "
    "WHERE status = 'pending'",
    "CREATE INDEX IF NOT EXISTS tabellion_webhook_deliveries_document ON tabellion_webhook_deliveries (document_id)",
)
_TIME: dict[Dialect, tuple[str, str]] = {
    "postgresql": ("timestamptz", "clock_timestamp()"),
    "sqlite": ("REAL", sql.CLOCK["sqlite"]),
}


class EndpointError(TabellionError):
    """There is no such endpoint, or it cannot be as asked."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One receiver. Its `repr` does not show its secrets."""

    id: str
    url: str
    events: tuple[str, ...] = (EVERYTHING,)
    disabled_why: str | None = None  #: None while it is enabled
    secret: str = field(default="", repr=False)
    former_secret: str | None = field(default=None, repr=False)  #: signs too, until it expires

    @property
    def secrets(self) -> tuple[str, ...]:
        """The secrets that sign now, newest first."""
        return (self.secret, self.former_secret) if self.former_secret else (self.secret,)


class ListedEndpoint(Answer):
    """A webhook endpoint, without its secret, with the counts of its deliveries."""

    id: str
    url: str
    events: list[str]
    disabled_why: str | None
    created_at: str
    pending: int
    sending: int
    delivered: int
    failed: int


class EndpointFacts(TypedDict):
    """What is listed of a row of `tabellion_webhook_endpoints`; times are seconds since 1970."""

    id: str
    url: str
    events: str  #: JSON
    disabled_at: float | None
    disabled_why: str | None
    created_at: float


class EndpointRow(EndpointFacts):
    """A row of `tabellion_webhook_endpoints`."""

    secret: str
    former_secret: str | None
    former_until: float | None


class CurrentEndpoint(EndpointRow):
    """A row of `lookup`: the endpoint now, by the database's clock."""

    former_holds: bool


class _CountedEndpoint(EndpointFacts):
    """An endpoint with the number of its deliveries in each state."""

    pending: int
    sending: int
    delivered: int
    failed: int


def _tables(dialect: Dialect) -> list[str]:
    """The statements of version 1; before schemas had versions these were created without one, so they may exist."""
    time_type, clock = _TIME[dialect]
    statements = []
    for table, columns in _COLUMNS.items():
        lines = [
            f"{name} {definition.replace('TIME', time_type).replace('NOW', f'({clock})')}"
            for name, definition in columns
        ]
        statements.append(f"CREATE TABLE IF NOT EXISTS {table} (\n  " + ",\n  ".join(lines) + "\n)")
    return [*statements, *_INDEXES]


async def _detect_version(database: Database) -> int:
    return 1 if all([await database.table(name) is not None for name in _COLUMNS]) else 0


def _endpoint_index(_: Dialect) -> list[str]:
    """Version 2: an endpoint's deliveries are counted in the list of endpoints, and looked for before it is removed."""
    return [
        "CREATE INDEX IF NOT EXISTS tabellion_webhook_deliveries_endpoint "
        "ON tabellion_webhook_deliveries (endpoint_id, status)"
    ]


SCHEMA = Schema("delivery", versions=(_tables, _endpoint_index), tables=tuple(_COLUMNS), adopted=_detect_version)


def make_secret() -> str:
    """A new secret in the format of Standard Webhooks."""
    return "whsec_" + base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode()


async def add(
    store: Store, url: str, events: Sequence[str] = (EVERYTHING,), secret: str | None = None, *,
    known: Sequence[str] | None = None,
) -> Endpoint:  # fmt: skip
    """Adds an endpoint and returns it with its secret, which is shown only this once.

    With `events=()` it receives only deliveries that name it; `known` are the events that exist. Here only the form of
    the URL is checked; whether its address may be called is checked at every delivery.
    """
    _check(url, events, known)
    await SCHEMA.prepare(store)
    endpoint = Endpoint(f"we_{uuid.uuid4().hex[:10]}", url, tuple(events), None, secret or make_secret())
    await store.database.fetch(
        "INSERT INTO tabellion_webhook_endpoints (id, url, events, secret) VALUES ($1, $2, $3, $4)",
        endpoint.id, url, json.dumps(list(events)), endpoint.secret,
    )  # fmt: skip
    return endpoint


def ensure(id: str, url: str, secret: str, dialect: Dialect) -> tuple[str, dict[str, Any]]:  # noqa: A002
    """A statement that adds the endpoint of one URL, which receives only deliveries that name it.

    If it exists with another secret, this one replaces it, and the former one continues to sign for a day. If there is
    nothing to change, no row is locked: the transactions of many jobs may contain it.
    """
    statement = f"""INSERT INTO tabellion_webhook_endpoints AS e (id, url, events, secret)
SELECT CAST(:id AS text), CAST(:url AS text), '[]', CAST(:secret AS text)
WHERE NOT EXISTS (SELECT 1 FROM tabellion_webhook_endpoints AS k WHERE k.id = :id AND k.secret = :secret)
ON CONFLICT (id) DO UPDATE SET former_secret = e.secret, former_until = {sql.later(repr(OVERLAP), dialect)},
  secret = excluded.secret WHERE e.secret <> excluded.secret"""
    return statement, {"id": id, "url": url, "secret": secret}


async def fetch_targets(store: Store, prefix: str) -> list[tuple[str, str, str]]:
    """The ids, URLs and secrets of endpoints whose ids begin with this."""
    rows = await store.database.fetch(
        f"SELECT id, url, secret FROM tabellion_webhook_endpoints WHERE substr(id, 1, {len(prefix)}) = $1", prefix
    )
    return [(row["id"], row["url"], row["secret"]) for row in rows]


async def list_endpoints(store: Store) -> list[ListedEndpoint]:
    """Every endpoint without its secrets, oldest first, with the counts of its deliveries."""
    await SCHEMA.prepare(store)
    counts = ", ".join(
        f"""(SELECT count(*) FROM tabellion_webhook_deliveries AS d
WHERE d.endpoint_id = e.id AND d.status = '{state}') AS {state}"""
        for state in STATES
    )
    rows: list[_CountedEndpoint] = await store.database.fetch(
        f"""SELECT {columns_of(EndpointFacts, "e", store.dialect)}, {counts}
FROM tabellion_webhook_endpoints AS e ORDER BY e.created_at, e.id"""
    )
    return [
        {
            "id": row["id"], "url": row["url"], "events": json.loads(row["events"]),
            "disabled_why": row["disabled_why"], "created_at": iso(row["created_at"]), "pending": row["pending"],
            "sending": row["sending"], "delivered": row["delivered"], "failed": row["failed"],
        }
        for row in rows
    ]  # fmt: skip


async def rotate(store: Store, id: str, overlap: float = OVERLAP) -> str:  # noqa: A002 - the column's name
    """Replaces the secret and returns the new one; the old one continues to sign for `overlap` seconds."""
    fresh = make_secret()
    span = sql.later("CAST($3 AS double precision)" if store.dialect == "postgresql" else "$3", store.dialect)
    await _change(
        store, id, f"former_secret = secret, former_until = {span}, secret = $2", fresh, overlap
    )  # fmt: skip
    return fresh


async def disable(store: Store, id: str, why: str) -> None:  # noqa: A002
    """Stops sending to an endpoint; its pending deliveries fail when their turn comes."""
    await _change(store, id, f"disabled_at = {NOW}, disabled_why = $2", why)


def disable_once(id: str, why: str, dialect: Dialect) -> tuple[str, dict[str, Any]]:  # noqa: A002
    """The statement that disables an endpoint, unless it is disabled already, for the transaction of a job."""
    text = f"""UPDATE tabellion_webhook_endpoints SET disabled_at = {sql.CLOCK[dialect]}, disabled_why = :why
WHERE id = :id AND disabled_at IS NULL"""
    return text, {"id": id, "why": why}


async def enable(store: Store, id: str) -> None:  # noqa: A002
    """Resumes sending; what failed meanwhile is sent by `tabellion retry webhooks --all`."""
    await _change(store, id, "disabled_at = NULL, disabled_why = NULL")


async def remove(store: Store, id: str) -> None:  # noqa: A002
    """Deletes the endpoint and its deliveries."""
    [gone, _] = await store.database.transact(
        [
            ("DELETE FROM tabellion_webhook_endpoints WHERE id = $1 RETURNING id", (id,)),
            deliveries.delete_of_endpoint(id),
        ]
    )
    if not gone:
        raise EndpointError(Message("problem.endpoint_unknown", value=quote_value(id)))


def remove_unused(prefix: str, in_use: str, cutoff: str, at_most: int) -> str:
    """The statement that deletes endpoints of these ids that are older and have no deliveries, and returns their ids.

    `in_use` is a condition on an endpoint `e`, `cutoff` an expression of time.
    """
    return f"""DELETE FROM tabellion_webhook_endpoints WHERE id IN (
  SELECT e.id FROM tabellion_webhook_endpoints AS e
  WHERE substr(e.id, 1, {len(prefix)}) = '{prefix}' AND e.created_at < {cutoff} AND NOT ({in_use})
    AND NOT EXISTS (SELECT 1 FROM tabellion_webhook_deliveries AS d WHERE d.endpoint_id = e.id)
  ORDER BY e.created_at LIMIT {at_most}) RETURNING id"""


def of_row(row: CurrentEndpoint) -> Endpoint:
    """The endpoint that a row of `lookup` describes."""
    former = row["former_secret"] if row["former_holds"] else None
    return Endpoint(
        row["id"], row["url"], tuple(json.loads(row["events"])),
        (row["disabled_why"] or "disabled") if row["disabled_at"] is not None else None, row["secret"], former,
    )  # fmt: skip


def lookup(dialect: Dialect) -> str:
    """The SELECT of `CurrentEndpoint` by id ($1)."""
    return f"""SELECT {columns_of(EndpointRow, "e", dialect)}, coalesce(e.former_until > {NOW}, 1 = 0) AS former_holds
FROM tabellion_webhook_endpoints AS e WHERE e.id = $1"""


async def _change(store: Store, id: str, changes: str, *values: Any) -> None:  # noqa: A002
    rows = await store.database.fetch(
        f"UPDATE tabellion_webhook_endpoints SET {changes} WHERE id = $1 RETURNING id", id, *values
    )  # fmt: skip
    if not rows:
        raise EndpointError(Message("problem.endpoint_unknown", value=quote_value(id)))


def _check(url: str, events: Sequence[str], known: Sequence[str] | None) -> None:
    if len(url) > LONGEST_URL or not url.startswith(("https://", "http://")):
        raise EndpointError(Message("problem.endpoint_url", n=LONGEST_URL))
    for event in events:
        if known is not None and event not in (*known, EVERYTHING):
            raise EndpointError(
                Message("problem.event_unknown", value=quote_value(event), names=list(known), all=EVERYTHING)
            )
