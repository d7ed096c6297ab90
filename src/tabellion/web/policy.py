"""The role that each route requires; a route without one is refused at start."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from tabellion.accounts.roles import Role

if TYPE_CHECKING:
    from starlette.requests import Request

    from tabellion.accounts.keys import Holder
    from tabellion.web.environment import ServedEnvironment

OPEN = None  #: no authentication: these routes show no data


class Authentication(Protocol):
    """Another way to authenticate the callers of a route than by keys and sessions, for programs that have neither."""

    @property
    def word(self) -> str:
        """Who may call, for the OpenAPI document."""

    async def enter(self, request: Request) -> tuple[ServedEnvironment, Holder]:
        """The environment and the caller; raises a Problem if they are not authenticated."""


Policy = dict[tuple[str, str], Role | Authentication | None]

SERVICE: Policy = {
    ("GET", "/healthz"): OPEN,
    ("GET", "/readyz"): OPEN,
    ("GET", "/docs"): OPEN,
    ("GET", "/docs/{file}"): OPEN,
    ("GET", "/openapi.json"): OPEN,
}

DELIVERY: Policy = {
    ("GET", "/api/webhooks"): Role.ADMIN,
    ("POST", "/api/webhooks"): Role.ADMIN,
    ("DELETE", "/api/webhooks/{id}"): Role.ADMIN,
}

PEOPLE: Policy = {
    ("GET", "/api/me"): Role.VIEWER,
    ("PATCH", "/api/me"): Role.VIEWER,
    ("PUT", "/api/me/password"): Role.VIEWER,
    ("GET", "/api/people"): Role.REVIEWER,
    ("GET", "/api/users"): Role.ADMIN,
    ("POST", "/api/users"): Role.ADMIN,
    ("PATCH", "/api/users/{id}"): Role.ADMIN,
    ("POST", "/api/users/{id}/link"): Role.ADMIN,
}

MONITOR: Policy = {
    ("GET", "/api/metrics"): Role.METRICS,
    ("GET", "/api/overview"): Role.VIEWER,
    ("GET", "/api/overview/events"): Role.VIEWER,
    ("GET", "/api/workers"): Role.VIEWER,
    ("GET", "/api/active-workers"): Role.ADMIN,
    ("GET", "/api/gates"): Role.VIEWER,
    ("GET", "/api/sla"): Role.VIEWER,
    ("GET", "/api/trends"): Role.VIEWER,
    ("GET", "/api/queues"): Role.VIEWER,
    ("GET", "/api/queues/{name}"): Role.VIEWER,
    ("GET", "/api/queues/{name}/rows"): Role.VIEWER,
    ("GET", "/api/queues/{name}/errors"): Role.VIEWER,
    ("POST", "/api/queues/{name}/pause"): Role.OPERATOR,
    ("POST", "/api/queues/{name}/resume"): Role.OPERATOR,
    ("POST", "/api/queues/{name}/retry"): Role.OPERATOR,
    ("POST", "/api/queues/{name}/release"): Role.OPERATOR,
}

ACCOUNT_PAGES: Policy = {
    ("GET", "/static/{file}"): OPEN,
    ("GET", "/sign-in"): OPEN,
    ("POST", "/sign-in"): OPEN,
    ("GET", "/enter"): OPEN,
    ("POST", "/enter"): OPEN,
    ("POST", "/sign-out"): Role.VIEWER,
    ("GET", "/"): Role.VIEWER,
    ("GET", "/people"): Role.ADMIN,
}

MONITOR_PAGES: Policy = {
    ("GET", "/dashboard"): Role.VIEWER,
    ("GET", "/queues/{name}"): Role.VIEWER,
}

#: The API of every installation; pipelines add theirs (`Blueprint.policy`).
API: Policy = {**SERVICE, **DELIVERY, **PEOPLE, **MONITOR}
#: The pages, likewise. They are not in the OpenAPI document.
PAGES: Policy = {**ACCOUNT_PAGES, **MONITOR_PAGES}
