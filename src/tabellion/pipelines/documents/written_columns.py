"""The columns of a document that are written: when it is submitted, by its handlers, and to restore it."""

from __future__ import annotations

from typing import TypedDict


class FormerRequest(TypedDict):
    """The request to which a document returns if its new reading fails."""

    status: str
    type: str | None
    type_key: str
    model: str
    asked_model: str | None
    key: str
    duplicate_of: str | None


class NewDocument(TypedDict):
    """The columns of a document that is submitted."""

    id: str
    type: str | None
    type_key: str
    model: str
    asked_model: str | None
    sha256: str
    bytes: int
    name: str
    media: str
    blob: str
    key: str
    webhook: str | None
    max_attempts: int


class WrittenColumns(TypedDict, total=False):
    """Columns of a document that its handlers write."""

    status: str
    chore: str | None
    told: str | None
    duplicate_of: str | None
    former: str | None  #: JSON
    type: str | None
    type_key: str
    model: str
    asked_model: str | None
    key: str
    found_type: str | None
    pages: int | None
    done_pages: int | None
    result: str  #: JSON
    verdict: str | None
    reasons: str  #: JSON
    cost: float | None
    error: str | None
    json_path: str | None
    json_sha256: str | None
    parquet_path: str | None
    parquet_sha256: str | None
    completed_at: float | None
    version: int
