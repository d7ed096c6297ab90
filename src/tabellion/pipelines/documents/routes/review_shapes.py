"""What review's answers look like, for the OpenAPI document and whoever generates a client from it."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from tabellion.messages import Translatable
from tabellion.pipelines.documents.review.queue import STATUSES

Status = Literal["pending", "in_review", "approved", "corrected", "rejected"]
Asked = Literal["open", "done", "pending", "in_review", "approved", "corrected", "rejected"]
FieldState = Literal["auto", "needs_look", "rule_failed", "confirmed", "corrected", "absent"]
assert set(STATUSES) == set(Status.__args__)  # type: ignore[attr-defined]  # noqa: S101


class Part(BaseModel):
    """One part of a priority."""

    value: float
    weight: float
    points: float


class Parts(BaseModel):
    """What a priority is made of."""

    confidence: Part
    proximity: Part
    complexity: Part
    value: Part


class Reason(BaseModel):
    """Why a person must look."""

    model_config = ConfigDict(extra="allow")
    code: str
    message: str
    translatable: Translatable | None = None
    fields: list[str]


class Escalation(BaseModel):
    """Who handed an item to the operators, when and why."""

    by: str | None
    at: str
    why: str | None


class Item(BaseModel):
    """A document that waits for a person, is held by one, or was finished by one."""

    id: str
    document_id: str
    name: str
    type: str | None
    status: Status
    priority: float
    parts: Parts
    reasons: list[Reason]
    assigned_to: str | None
    holder: str | None
    lease_until: str | None
    postponed_until: str | None
    escalated: Escalation | None
    created_at: str
    due_at: str
    sla_left: float = Field(description="Seconds until it is due; negative: it was due so long ago.")
    pages: int | None
    version: int
    reviewer: str | None
    finished_at: str | None
    reason: str | None
    url: str


class Counts(BaseModel):
    """How many items there are."""

    pending: int
    in_review: int
    mine: int
    overdue: int
    escalated: int
    done_today: int


class Items(BaseModel):
    """One page of a list: open items in the order in which they are claimed, finished ones the latest first."""

    items: list[Item]
    next: str | None = Field(description="The cursor of the next page; null: this was the last.")
    counts: Counts


class SheetPage(BaseModel):
    """A page of the document."""

    number: int
    size: list[float] | None
    rotation: int | None
    source: str | None
    quality: float | None


class Sheet(BaseModel):
    """The document that an item is about."""

    id: str
    name: str
    type: str | None
    type_version: str | None
    model: str
    sha256: str
    pages: list[SheetPage]
    verdict: str | None
    cost: float | None
    created_at: str
    status: str


class Column(BaseModel):
    """A column of a list."""

    name: str
    label: str
    kind: str
    values: list[str] | None


class Candidate(BaseModel):
    """Another value that the document may have for a field."""

    model_config = ConfigDict(extra="allow")
    value: Any


class ThreeWay(BaseModel):
    """What the person, the reading of then and the reading of now say."""

    human: Any
    old_model: Any
    new_model: Any


class ReviewField(BaseModel):
    """One field of the document: its value, where it stands, and how far it can be trusted."""

    name: str
    label: str
    kind: str
    help: str | None
    required: bool
    values: list[str] | None
    columns: list[Column] | None
    value: Any
    confidence: float
    threshold: float
    page: int | None
    box: list[float] | None
    quote: str | None
    source: str | None
    reasons: list[str]
    translatable: Translatable | None = None
    state: FieldState
    locked: bool
    manually_corrected: bool
    corrected_by: str | None
    corrected_at: str | None
    candidates: list[Candidate]
    three_way: ThreeWay | None


class Issue(BaseModel):
    """Something that is wrong with the values."""

    model_config = ConfigDict(extra="allow")
    code: str
    severity: Literal["error", "warning"]
    message: str
    translatable: Translatable | None = None
    fields: list[str]
    rule: str


class Claim(BaseModel):
    """Who has the item."""

    mine: bool
    holder: str
    until: str


class Rejection(BaseModel):
    """A reason to turn a document down."""

    code: str
    text: str
    translatable: Translatable | None = None


class Position(BaseModel):
    """The item's place in the line."""

    place: int | None
    of: int


class Finished(BaseModel):
    """An item that the asker has finished."""

    id: str
    name: str
    status: Status
    finished_at: str


class WholeItem(Item):
    """An item with everything that is shown of it."""

    document: Sheet
    fields: list[ReviewField]
    issues: list[Issue]
    draft: dict[str, Any] | None
    claim: Claim | None
    instructions: str | None
    reject_reasons: list[Rejection]
    position: Position
    today: int
    previous: list[Finished]


class Renewed(BaseModel):
    """Until when the claim holds now."""

    until: str


class CheckedField(BaseModel):
    """A value in the form of its field, or why it has none."""

    value: Any
    error: str | None
    translatable: Translatable | None = None


class Checked(BaseModel):
    """What would be wrong."""

    issues: list[Issue]
    fields: dict[str, CheckedField]


class Ended(BaseModel):
    """An item that was finished, and the next one if it was asked for and there is one."""

    item: Item
    next: WholeItem | None


class Entry(BaseModel):
    """Something that happened."""

    n: int
    at: str
    document_id: str | None
    item_id: str | None
    actor: str
    action: str
    field: str | None
    before: Any
    after: Any
    reason: str | None
    more: dict[str, Any]


class History(BaseModel):
    """What happened, the oldest first."""

    entries: list[Entry]


class Spread(BaseModel):
    """Of what was noted; null where nobody did."""

    mean: float | None
    median: float | None
    sum: float | None


class Sums(BaseModel):
    """What was finished, what it took, and how it turned out."""

    documents: int
    approved: int
    corrected: int
    rejected: int
    seconds: Spread
    keystrokes: Spread
    fields: int = Field(
        description="Fields of the documents that were not rejected; each is whose who corrected it, or else finished."
    )
    corrections: dict[str, int] = Field(description="How many of them were corrected, by name.")
    agreement: float | None = Field(description="The share of fields that stayed as they were read.")
    in_time: float | None = Field(
        description="The share that was finished before it was due, of what was finished and what is late and open."
    )
    overdue: int = Field(description="Items that were due in that time and are open still.")


class PersonSums(Sums):
    """The same of one person."""

    name: str


class FieldSums(BaseModel):
    """How often a field was corrected."""

    name: str
    seen: int
    corrected: int
    share: float | None


class Numbers(BaseModel):
    """What review costs and yields, between two times."""

    since: str
    until: str
    people: list[PersonSums]
    totals: Sums
    fields: list[FieldSums]


SHAPES: tuple[type[BaseModel], ...] = (WholeItem,)
