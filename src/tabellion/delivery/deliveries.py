"""The table `tabellion_webhook_deliveries`: its columns, every statement that changes it, and what others ask of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict, get_args

from tabellion.engine.moves import Numbered
from tabellion.engine.store import Store

TABLE = "tabellion_webhook_deliveries"
DeliveryState = Literal["pending", "sending", "delivered", "failed"]
STATES: tuple[DeliveryState, ...] = get_args(DeliveryState)
ExtraStatement = tuple[str, dict[str, Any]]  #: with `:name` placeholders, for `job.also`


class DeliveryRow(TypedDict):
    """A row; times are as the database returns them."""

    id: str
    endpoint_id: str
    document_id: str  #: the subject
    event: str
    body: str
    status: DeliveryState
    attempts: int
    worker: str | None
    error: str | None
    response_status: int | None
    response: str | None
    created_at: Any
    finished_at: Any


class DeliveryFacts(TypedDict):
    """The state of a delivery."""

    id: str
    status: DeliveryState
    attempts: int
    error: str | None


async def exist(store: Store) -> bool:
    """Whether the database has the table."""
    return await store.table(TABLE) is not None


def is_waiting(subject: str) -> str:
    """The condition that a delivery about a subject, a column of the query, has not ended."""
    return f"EXISTS (SELECT 1 FROM {TABLE} AS w WHERE w.document_id = {subject} AND w.status IN ('pending', 'sending'))"


async def count_undelivered(store: Store, event: str, subjects: str, *values: Any) -> dict[DeliveryState, int]:
    """The number of deliveries of an event that have not been accepted, by state.

    `subjects` is the SELECT of a column `subject`, what they are about, with `values` from $2 on.
    """
    rows = await store.database.fetch(
        f"""SELECT w.status, count(*) AS n FROM ({subjects}) AS s
JOIN {TABLE} AS w ON w.document_id = s.subject WHERE w.event = $1 AND w.status <> 'delivered' GROUP BY w.status""",
        event, *values,
    )  # fmt: skip
    return {row["status"]: row["n"] for row in rows}


async def fetch_body(store: Store, id: str) -> str | None:  # noqa: A002
    """The body of a delivery; None if it is not there."""
    rows = await store.database.fetch(f"SELECT body FROM {TABLE} WHERE id = $1", id)
    return rows[0]["body"] if rows else None


def insert(id: str, endpoint: str, event: str, subject: str, body: str) -> ExtraStatement:  # noqa: A002
    """Adds a delivery to one endpoint; an id that exists is left alone."""
    text = f"""INSERT INTO {TABLE} (id, endpoint_id, document_id, event, body)
VALUES (:id, :endpoint, :subject, :event, :body) ON CONFLICT (id) DO NOTHING"""
    return text, {"id": id, "endpoint": endpoint, "subject": subject, "event": event, "body": body}


def insert_for_endpoints(
    message: str, event: str, subject: str, body: str, condition: str, values: Mapping[str, Any]
) -> ExtraStatement:
    """Adds a delivery to each endpoint `e` that meets a condition; their ids begin with `message`."""
    text = f"""INSERT INTO {TABLE} (id, endpoint_id, document_id, event, body)
SELECT CAST(:message AS text) || '_' || e.id, e.id, CAST(:subject AS text), CAST(:event AS text), CAST(:body AS text)
FROM tabellion_webhook_endpoints AS e WHERE {condition}"""
    return text, {"message": message, "subject": subject, "event": event, "body": body, **values}


def restart(id: str) -> ExtraStatement:  # noqa: A002
    """Makes a delivery pending, unless it is being sent."""
    text = f"""UPDATE {TABLE} SET status = 'pending', error = NULL, finished_at = NULL
WHERE id = :id AND status <> 'sending'"""
    return text, {"id": id}


def delete_of_endpoint(endpoint: str) -> Numbered:
    """Deletes the deliveries to an endpoint."""
    return f"DELETE FROM {TABLE} WHERE endpoint_id = $1", [endpoint]


def withdraw(subject: str, event: str) -> ExtraStatement:
    """Deletes deliveries of an event about a subject that have not been accepted."""
    text = f"DELETE FROM {TABLE} WHERE document_id = :subject AND event = :event AND status <> 'delivered'"
    return text, {"subject": subject, "event": event}


async def fetch_states(store: Store, ids: Sequence[str]) -> list[DeliveryFacts]:
    """The states of these deliveries, of which there is at least one."""
    marks = ", ".join(f"${number}" for number in range(1, len(ids) + 1))
    return await store.database.fetch(f"SELECT id, status, attempts, error FROM {TABLE} WHERE id IN ({marks})", *ids)


def forget_delivered(subject: str) -> ExtraStatement:
    """Deletes accepted deliveries about a subject. The others stay: somebody may want to send them again."""
    return f"DELETE FROM {TABLE} WHERE document_id = :subject AND status = 'delivered'", {"subject": subject}


async def forget_subject(store: Store, subject: str) -> list[ExtraStatement]:
    """The statements that delete the deliveries about a subject; none if there is no such table."""
    return [(f"DELETE FROM {TABLE} WHERE document_id = :subject", {"subject": subject})] if await exist(store) else []
