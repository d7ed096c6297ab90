"""What a pipeline adds to the application: routes with their roles, pages, places in the header, texts, shapes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal, Protocol

from fastapi import APIRouter
from pydantic import BaseModel

from tabellion.accounts.roles import Role
from tabellion.answers import Answer, Doc
from tabellion.monitor.overview import Figure
from tabellion.web.policy import Policy

Route = tuple[str, str]  #: method and path


@dataclass(frozen=True, slots=True)
class NavItem:
    """One entry of the header."""

    path: str
    word: str  #: the key of its text
    icon: str
    order: int = 50  #: entries are shown in this order
    below: tuple[str, ...] = ()  #: where pages begin that belong to it though their address does not say so
    home_of: tuple[Role, ...] = ()  #: roles whose work begins here


class HealthFacts(Answer, total=False):
    """What pipelines add to what /readyz tells of an environment."""

    blobs: Annotated[Literal["ok", "unwritable"], Doc("Whether uploads can be stored.")]
    lake: Annotated[Literal["ok", "unwritable"], Doc("Whether outputs can be written.")]
    disk: Annotated[Literal["ok", "full"], Doc("Whether the disk has room for another upload.")]


@dataclass(frozen=True, slots=True)
class PipelineHealth:
    """Whether a pipeline can do its work in one environment: facts for /readyz, and reasons why not."""

    facts: HealthFacts = field(default_factory=HealthFacts)
    reasons: Sequence[str] = ()


class Served(Protocol):
    """What a pipeline's routes need in one environment."""

    async def health(self) -> PipelineHealth:
        """Whether files can be written and the like; databases and workers are asked for already."""

    def titles(self) -> Mapping[str, str]:
        """What names in sentences are called on pages."""

    async def close(self) -> None:
        """Ends what watches the environment."""


@dataclass(frozen=True, slots=True)
class Blueprint:
    """The parts of one pipeline. A route that is in neither policy is refused when the application is made."""

    routers: Sequence[APIRouter] = ()
    policy: Policy = field(default_factory=dict)  #: the API: which role a route needs
    pages: Policy = field(default_factory=dict)  #: what browsers show to people
    places: Sequence[NavItem] = ()
    package: str | None = None  #: the package that has folders `templates` and `static`
    shapes: Sequence[type[BaseModel]] = ()  #: parts of bodies, for the OpenAPI document
    repeatable: frozenset[Route] = frozenset()  #: routes that take an Idempotency-Key
    versioned: frozenset[Route] = frozenset()  #: routes that need an If-Match
    clashing: frozenset[Route] = frozenset()  #: routes that may answer 409
    resumable: frozenset[Route] = frozenset()  #: streams that go on after a Last-Event-ID
    figures: Mapping[str, Figure] = field(default_factory=dict)  #: parts of the dashboard's document
    main_queue: str | None = None  #: the queue that a worker must work for the pipeline to be ready
    shared: Sequence[Blueprint] = ()  #: parts that other pipelines name too: the same object, in the application once


def with_shared(blueprints: Iterable[Blueprint]) -> list[Blueprint]:
    """The blueprints and what they share, each once."""
    found: dict[int, Blueprint] = {}
    for one in blueprints:
        found |= {id(part): part for part in (one, *one.shared)}
    return list(found.values())
