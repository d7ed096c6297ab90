"""What the answers about queues, workers and gates look like, for the OpenAPI document."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field

from tabellion.engine.queue import StateName
from tabellion.web.shapes import Translatable


class Settled(BaseModel):
    """Jobs that were settled in some stretch of time."""

    done: int
    failed: int


class QueueThroughput(BaseModel):
    """What a queue has settled lately."""

    minute: Settled
    hour: Settled


class Spark(BaseModel):
    """What was settled in each of the last sixty minutes, the one that runs last."""

    done: list[int]
    failed: list[int]


class QueueGate(BaseModel):
    """The gate before the model that a queue's jobs call."""

    name: str
    state: Literal["open", "closed"]
    reason: str | None
    translatable: Translatable | None = None


class QueuePicture(BaseModel):
    """A queue as it stands."""

    name: str
    table: str
    chore: bool = Field(description="Whether it sees to what comes after a document: not counted as work of its own.")
    model: str | None
    states: dict[StateName, str] = Field(description="What makes a row be in each state.")
    ready: int
    waiting: int = Field(description="Of the ready rows, those not due yet.")
    running: int
    done: int
    failed: int
    more: list[StateName] = Field(description="States with more rows than were counted.")
    foreign: int = Field(description="Running without a claim in the register.")
    oldest_at: str | None = Field(description="When the oldest ready row came to be.")
    throughput: QueueThroughput
    error_rate: float | None = Field(description="The share of the last hour's attempts that ended in an error.")
    spark: Spark
    paused: bool
    paused_at: str | None
    reason: str | None = Field(description="Why it is paused.")
    limit: int | None = Field(description="Jobs that may run at once in all workers together.")
    gate: QueueGate | None
    workers: int = Field(description="Living workers that work it.")
    problem: str | None = Field(description="Why it cannot be counted: its table is not as it is declared.")


class Queues(BaseModel):
    """Every queue of the environment."""

    at: str
    queues: list[QueuePicture]


class LastAttempt(BaseModel):
    """The last attempt of a row, as the register has it."""

    n: int
    attempt: int
    worker: str
    outcome: str | None = Field(description="Null: it runs.")
    error_code: str | None = Field(description="The code of the error, where it has one.")
    error: str | None
    translatable: Translatable | None = None
    note: str | None
    cost: float | None
    claimed_at: str
    settled_at: str | None
    lease_until: str
    retry_at: str | None


class QueueRow(BaseModel):
    """One row of a queue."""

    key: str
    name: str | None = Field(description="What people call it, where its table has a name, a title or a file_name.")
    url: str | None = Field(description="The page about it, where there is one.")
    mirrors: dict[str, Any] = Field(description="The columns that the queue keeps filled in: worker, error, …")
    attempt: LastAttempt | None
    error: str | None
    translatable: Translatable | None = None
    fingerprint: str | None


class QueueRows(BaseModel):
    """One page of the rows of a state."""

    rows: list[QueueRow]
    next: str | None = Field(description="The cursor of the next page; null: this was the last.")


class ErrorGroup(BaseModel):
    """Failed rows with one and the same trouble."""

    fingerprint: str
    shape: str = Field(description="The error with what differs from row to row replaced.")
    count: int
    first_at: str | None
    last_at: str | None
    key: str = Field(description="One of the rows.")
    name: str | None = Field(description="What people call that row.")
    message: str = Field(description="What was said of that row.")
    translatable: Translatable | None = None


class ErrorGroups(BaseModel):
    """The failed rows of a queue by what went wrong, the largest group first."""

    groups: list[ErrorGroup]
    rows: int = Field(description="Failed rows that were looked at.")
    whole: bool = Field(description="Whether these were all.")


class Retried(BaseModel):
    """Rows that are ready again."""

    queue: str
    retried: int


class Paused(BaseModel):
    """Whether a queue may be claimed from."""

    queue: str
    paused: bool
    reason: str | None


class WorkerPicture(BaseModel):
    """A worker."""

    id: str
    state: Literal["alive", "stopped", "lost"]
    host: str
    pid: int
    version: str
    queues: list[str]
    slots: int
    busy: int
    done: int
    failed: int
    retried: int
    ending: str | None
    seen_at: str
    started_at: str
    stopped_at: str | None


class Workers(BaseModel):
    """Those that live, then those that ended within the hour."""

    at: str
    workers: list[WorkerPicture]


class GatePicture(BaseModel):
    """A gate before a model."""

    name: str
    state: Literal["open", "closed"]
    reason: str | None
    translatable: Translatable | None = None
    reopens_at: str | None
    rate: float = Field(description="Calls per second.")
    limit: float | None
    profile: str
    min_rate: float
    max_rate: float
    breaker: Literal["closed", "open", "probing"]
    failures_in_a_row: int
    calls: int
    throttled: int
    failed: int
    spent: float = Field(description="Dollars of today (UTC).")
    budget: float | None
    queues: list[str] = Field(description="The queues that use it.")


class Gates(BaseModel):
    """Every gate that is configured or has been used."""

    at: str
    gates: list[GatePicture]


class SpendOf(BaseModel):
    """What one queue has cost."""

    queue: str
    model: str | None
    today: float
    month: float


class Spend(BaseModel):
    """What models have cost, by day in UTC."""

    currency: str
    today: float
    month: float
    since: str
    days: list[float] = Field(description="The last thirty days, today last.")
    by: list[SpendOf]


class SlaDay(BaseModel):
    """What people finished on one day (UTC)."""

    at: str
    finished: int
    kept: int


class Sla(BaseModel):
    """Whether people look at doubtful documents in time."""

    open: int
    in_review: int
    overdue: int
    soon: int = Field(description="Due within two hours.")
    next_at: str | None
    days: list[SlaDay]
    kept: int
    due: int = Field(description="Finished in the last seven days, or overdue now.")
    compliance: float | None


class Line(BaseModel):
    """Jobs settled in each of a row of equal stretches of time, the one that runs last."""

    since: str
    step: int
    done: list[int]
    failed: list[int]


class Lines(BaseModel):
    """The last hour by minutes, and the last day by hours, of all queues but chores and review."""

    minutes: Line
    hours: Line


class OverviewPicture(BaseModel):
    """Everything the dashboard shows."""

    at: str
    environment: str
    queues: list[QueuePicture]
    workers: list[WorkerPicture]
    gates: list[GatePicture]
    spend: Spend
    sla: Sla | None = None
    series: Lines
