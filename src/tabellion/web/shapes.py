"""What answers look like, for the OpenAPI document and whoever generates a client from it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Translatable = Annotated[
    dict[str, Any],
    Field(description="For each text beside it that is a message: its code and parameters, or a list of these."),
]


class Problem(BaseModel):
    """What went wrong (RFC 9457)."""

    model_config = ConfigDict(extra="allow")
    type: str
    title: str
    status: int
    code: str = Field(description="Stable; see the list of codes.")
    detail: str
    translatable: Translatable | None = None
    field: str | None = Field(default=None, description="A JSON pointer into the body, or a parameter's name.")
    fix: str | None = Field(default=None, description="What to do.")
    request_id: str


class Health(BaseModel):
    """Whether the process lives."""

    status: Literal["alive"]


class Station(BaseModel):
    """One environment."""

    name: str
    database: Literal["ok", "unreachable", "not_migrated"]
    workers: int | None
    state: Literal["idle", "working", "paused", "no_worker", "unreachable"]
    blobs: Literal["ok", "unwritable"] | None = Field(default=None, description="Whether uploads can be kept.")
    lake: Literal["ok", "unwritable"] | None = Field(default=None, description="Whether outputs can be written.")
    disk: Literal["ok", "full"] | None = Field(default=None, description="Whether there is room for one more upload.")


class Readiness(BaseModel):
    """Whether work that is given now will be done."""

    status: Literal["ready", "not_ready"]
    reasons: list[str]
    environments: list[Station]


class Endpoint(BaseModel):
    """A webhook endpoint, without its secret."""

    model_config = ConfigDict(extra="allow")
    id: str
    url: str
    events: list[str]
    disabled_why: str | None
    created_at: str


class NewEndpoint(BaseModel):
    """A webhook endpoint that was just made, with its secret, this once."""

    id: str
    url: str
    events: list[str]
    secret: str


class Endpoints(BaseModel):
    """All webhook endpoints."""

    webhooks: list[Endpoint]


class Me(BaseModel):
    """Who asks."""

    name: str
    role: Literal["viewer", "reviewer", "operator", "admin"]
    environment: str
    language: str
    csrf: str | None = Field(description="What a session's changes carry as X-CSRF-Token; null for a key.")


class User(BaseModel):
    """Somebody who may sign in."""

    id: str
    name: str
    role: Literal["viewer", "reviewer", "operator", "admin"]
    available: bool
    has_password: bool
    language: str | None
    created_at: str
    last_seen_at: str | None
    disabled_at: str | None


class Users(BaseModel):
    """Everybody."""

    users: list[User]


class Reviewer(BaseModel):
    """Somebody who may review."""

    name: str
    role: Literal["reviewer", "operator", "admin"]
    available: bool


class People(BaseModel):
    """Those who may review."""

    people: list[Reviewer]


class Link(BaseModel):
    """A link that signs somebody in, once."""

    name: str
    url: str
    seconds: float


SHAPES: tuple[type[BaseModel], ...] = (
    Problem, Health, Readiness, Endpoints, NewEndpoint, Me, User, Users, People, Link,
)  # fmt: skip
