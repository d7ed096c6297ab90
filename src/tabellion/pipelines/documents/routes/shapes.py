"""What answers about documents look like, for the OpenAPI document and whoever generates a client from it."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from tabellion.messages import Translatable

Status = Literal["queued", "processing", "completed", "failed", "duplicate"]
Verdict = Literal["accept", "warn", "reject"]
Review = Literal["pending", "approved", "corrected", "rejected"]


class Taken(BaseModel):
    """What became of one file of an upload."""

    id: str | None = Field(description="Of the document; null where the file was rejected.")
    status: Status | Literal["rejected"]
    status_url: str | None = Field(description="Where to look; of a rejected duplicate, where its original is.")
    name: str
    duplicate_of: str | None = Field(default=None, description="The document that has the same file.")
    reason: Literal["duplicate_rejected", "file_gone"] | None = Field(default=None, description="Why it was rejected.")
    detail: str | None = Field(default=None, description="The same in a sentence.")
    translatable: Translatable | None = None


class Uploaded(BaseModel):
    """The documents of one upload, in the order of its files."""

    documents: list[Taken]


class Progress(BaseModel):
    """How many of its pages are read."""

    done: int | None
    pages: int | None


class Outputs(BaseModel):
    """Where its results lie, below the lake."""

    json_: str | None = Field(alias="json")
    parquet: str | None


class Brief(BaseModel):
    """A document without what it says."""

    model_config = ConfigDict(extra="allow")
    id: str
    status: Status
    type: str | None
    model: str
    name: str
    media: str
    bytes: int
    sha256: str
    duplicate_of: str | None
    progress: Progress | None
    pages: int | None
    verdict: Verdict | None
    reasons: list[Any]
    outputs: Outputs
    cost: float | None
    error: dict[str, Any] | None
    created_at: str
    started_at: str | None
    completed_at: str | None
    version: int
    status_url: str


class FoundField(BaseModel):
    """One field: its value and how far it can be trusted."""

    model_config = ConfigDict(extra="allow")
    value: Any
    confidence: float
    page: int | None
    box: list[float] | None = Field(description="x0, y0, x1, y1 as shares of the page, from its top left corner.")
    quote: str | None
    source: str
    reasons: list[str]
    translatable: Translatable | None = None
    locked: bool


class ReviewState(BaseModel):
    """Where the review of a document stands."""

    id: str
    status: str
    assigned_to: str | None
    reviewer: str | None
    reason: str | None
    finished_at: str | None


class Document(Brief):
    """A document with all that is known of it."""

    reviewed: bool = Field(description="Whether a person has said that it is right.")
    review: ReviewState | None
    fields: dict[str, FoundField]
    issues: list[dict[str, Any]]


class Listed(Brief):
    """A document in a list."""

    review: Review | None = Field(description="Where its review stands; null: nobody has to look.")


class Documents(BaseModel):
    """One page of a list, the newest first."""

    documents: list[Listed]
    next: str | None = Field(description="The cursor of the next page; null: this was the last.")


class PageWords(BaseModel):
    """The words of a page in reading order, each with its box: `[text, x0, y0, x1, y1]`, 0 to 1 from the top left."""

    words: list[list[str | float]]


class Restarted(BaseModel):
    """A document that will be read again."""

    id: str
    status: Status
    status_url: str


class Attempt(BaseModel):
    """One try of one worker."""

    queue: str
    attempt: int
    worker: str
    outcome: str | None = Field(description="null: under way.")
    error: dict[str, Any] | None
    note: str | None
    cost: float | None
    claimed_at: str
    lease_until: str
    settled_at: str | None
    retry_at: str | None


class ReviewOf(BaseModel):
    """The review item of a document."""

    id: str
    status: str
    reviewer: str | None
    assigned_to: str | None
    url: str


class Work(BaseModel):
    """What was done with a document."""

    attempts: list[Attempt]
    review: ReviewOf | None


SHAPES: tuple[type[BaseModel], ...] = (Uploaded, Document, Documents, Restarted, Work)
