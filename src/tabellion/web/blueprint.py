"""What a pipeline adds to the application: routes with their roles, pages, navigation, schemas."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from fastapi import APIRouter
from pydantic import BaseModel

from tabellion.accounts.roles import Role
from tabellion.monitor.overview import ReadFigure
from tabellion.web.policy import Policy

Route = tuple[str, str]  #: method and path


@dataclass(frozen=True, slots=True)
class NavItem:
    """One entry of the navigation."""

    path: str
    word: str  #: the key of its text
    icon: str
    order: int = 50  #: entries are shown in this order
    below: tuple[str, ...] = ()  #: path prefixes of other pages that belong to it
    home_of: tuple[Role, ...] = ()  #: roles whose start page this is


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure that a pipeline adds to the overview, and how the dashboard shows it.

    The macros `tile()` and `card()` of the template are the places that the script fills. Their texts begin with the
    template's name.
    """

    read: ReadFigure
    template: str
    script: str


@dataclass(frozen=True, slots=True)
class PipelineHealth:
    """Whether a pipeline can do its work in one environment: facts for /readyz, and reasons why not."""

    facts: Mapping[str, Any] = field(default_factory=dict)  #: keys of the environment; `Blueprint.additions` has them
    reasons: Sequence[str] = ()


class Served(Protocol):
    """What a pipeline's routes need in one environment. A class that inherits it says only what differs."""

    __slots__ = ()

    async def health(self) -> PipelineHealth:
        """Whether files can be written and the like; databases and workers are checked elsewhere."""
        return PipelineHealth()

    def titles(self) -> Mapping[str, str]:
        """The titles of fields on pages, by name."""
        return {}

    async def close(self) -> None:
        """Stops its background tasks."""


@dataclass(frozen=True, slots=True)
class Blueprint:
    """The parts of one pipeline. A route that is in neither policy is an error when the application is created."""

    routers: Sequence[APIRouter] = ()
    policy: Policy = field(default_factory=dict)  #: the role of each API route
    pages: Policy = field(default_factory=dict)  #: the role of each page
    places: Sequence[NavItem] = ()
    package: str | None = None  #: the package with the folders `templates` and `static`
    shapes: Sequence[type[BaseModel]] = ()  #: parts of bodies, for the OpenAPI document
    repeatable: frozenset[Route] = frozenset()  #: routes that take an Idempotency-Key
    versioned: frozenset[Route] = frozenset()  #: routes that need an If-Match
    clashing: frozenset[Route] = frozenset()  #: routes that may answer 409
    resumable: frozenset[Route] = frozenset()  #: streams that continue after a Last-Event-ID
    problems: Sequence[str] = ()  #: codes of problems of its own, with `problem.<code>` in its catalogues
    figures: Mapping[str, Figure] = field(default_factory=dict)  #: additional keys of the overview
    #: Types with the keys that it adds to answers of every installation, by the name of the answer's type.
    additions: Mapping[str, type] = field(default_factory=dict)
    main_queue: str | None = None  #: the queue that a worker must serve for the pipeline to be ready
    shared: Sequence[Blueprint] = ()  #: parts that other pipelines name too: the same object, in the application once


def with_shared(blueprints: Iterable[Blueprint]) -> list[Blueprint]:
    """The blueprints and what they share, each once."""
    parts: dict[int, Blueprint] = {}
    for blueprint in blueprints:
        parts |= {id(part): part for part in (blueprint, *blueprint.shared)}
    return list(parts.values())
