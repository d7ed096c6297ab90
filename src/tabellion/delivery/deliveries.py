"""What the owners of subjects ask of the table of deliveries: whether some are waiting, and their deletion."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypedDict

from tabellion.delivery.endpoints import DeliveryState
from tabellion.engine.store import Store

TABLE = "tabellion_webhook_deliveries"


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


def withdraw(subject: str, event: str) -> tuple[str, dict[str, Any]]:
    """Deletes deliveries of an event about a subject that have not been accepted."""
    text = f"DELETE FROM {TABLE} WHERE document_id = :subject AND event = :event AND status <> 'delivered'"
    return text, {"subject": subject, "event": event}


async def fetch_states(store: Store, ids: Sequence[str]) -> list[DeliveryFacts]:
    """The states of these deliveries, of which there is at least one."""
    marks = ", ".join(f"${number}" for number in range(1, len(ids) + 1))
    return await store.database.fetch(f"SELECT id, status, attempts, error FROM {TABLE} WHERE id IN ({marks})", *ids)


def forget_delivered(subject: str) -> tuple[str, dict[str, Any]]:
    """Deletes accepted deliveries about a subject. The others stay: somebody may want to send them again."""
    return f"DELETE FROM {TABLE} WHERE document_id = :subject AND status = 'delivered'", {"subject": subject}


async def forget_subject(store: Store, subject: str) -> list[tuple[str, dict[str, Any]]]:
    """The statements that delete the deliveries about a subject; none if there is no such table."""
    return [(f"DELETE FROM {TABLE} WHERE document_id = :subject", {"subject": subject})] if await exist(store) else []
