"""A document's row, and its public forms."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal, TypedDict, cast, get_args

from tabellion.answers import Answer, Doc
from tabellion.engine.context import JobContext
from tabellion.engine.job import Job
from tabellion.messages import Translatable
from tabellion.pipelines.documents.review_reasons import Reason
from tabellion.reading.field import FieldJson
from tabellion.reading.issue import IssueJson
from tabellion.reading.page import PageSummary
from tabellion.reading.types.rules import Verdict

Status = Literal["queued", "processing", "completed", "failed", "duplicate"]
#: The states of a review in lists and outputs.
Review = Literal["pending", "approved", "corrected", "rejected"]
STATUSES: tuple[Status, ...] = get_args(Status)
REVIEWS: tuple[Review, ...] = get_args(Review)
TIMES = ("created_at", "started_at", "completed_at")


class DocumentFacts(Answer):
    """The public facts of a document that its row contains."""

    id: str
    status: Status
    type: str | None
    type_key: str
    model: str
    sha256: str
    bytes: int
    name: str
    media: str
    duplicate_of: str | None
    pages: int | None
    verdict: Verdict | None
    cost: float | None
    attempts: int
    webhook: str | None
    version: int


class DocumentRow(DocumentFacts):
    """The columns of `tabellion_documents` that are read; times are seconds since 1970."""

    chore: str | None  #: with told and former, part of the state: see states.py
    told: str | None
    former: str | None  #: JSON
    found_type: str | None
    done_pages: int | None
    reasons: str | None  #: JSON
    json_path: str | None
    json_sha256: str | None
    parquet_path: str | None
    parquet_sha256: str | None
    error: str | None
    created_at: float
    started_at: float | None
    completed_at: float | None


class PageProgress(Answer):
    """How many pages have been read."""

    done: int | None
    pages: int | None


class Outputs(Answer):
    """Paths of its results, relative to the lake."""

    json: str | None
    parquet: str | None


class DocumentFailure(Answer, total=False):
    """Why a document failed, or waits."""

    code: str
    message: str
    attempts: int
    tried: list[str]
    note: str
    translatable: Translatable


class Brief(DocumentFacts):
    """A document without its fields."""

    asked_type: str | None
    progress: PageProgress | None
    reasons: list[Reason]
    outputs: Outputs
    hashes: Annotated[Outputs, Doc("The SHA-256 of each.")]
    error: DocumentFailure | None
    created_at: str
    started_at: str | None
    completed_at: str | None


class FoundField(FieldJson):
    """One field: its value and confidence."""

    locked: bool


class DocumentIssue(IssueJson):
    """An issue with the values."""


class ReadDocument(Brief):
    """A document with its fields and issues."""

    fields: dict[str, FoundField]
    issues: list[DocumentIssue]
    notes: list[str]
    page_details: list[PageSummary]


class ReviewState(Answer):
    """The review state of a document."""

    id: str
    status: str
    assigned_to: str | None
    reviewer: str | None
    reason: str | None
    finished_at: str | None


class DocumentDetail(ReadDocument):
    """A document with everything known about it."""

    reviewed: Annotated[bool, Doc("Whether a person has confirmed or corrected it.")]
    review: ReviewState | None


class ListedDocument(Brief):
    """A document in a list."""

    review: Annotated[Review | None, Doc("The state of its review; null: no review needed.")]


class State(TypedDict):
    """The progress of a document."""

    status: Status
    progress: PageProgress | None
    version: int


def row_of(job: Job, **changes: Any) -> DocumentRow:
    """The row of a document that is being processed, with these changes."""
    times = {name: seconds(job[name]) if job[name] is not None else None for name in TIMES}
    return cast("DocumentRow", {**job.values, **times, **changes})


def seconds(value: Any) -> float:
    """A time of a row, whose type depends on the database, as seconds since 1970."""
    return value.timestamp() if isinstance(value, datetime) else float(value)


def context_of(job: Job) -> JobContext:
    """The database of a job."""
    assert job.context is not None  # noqa: S101 - every worker gives its jobs one
    return job.context
