"""Who may do what: one table from route to role. What is not in it is refused."""

from __future__ import annotations

from enum import IntEnum


class Role(IntEnum):
    """What a key or a person may do; each role may all that those below it may."""

    VIEWER = 1
    REVIEWER = 2
    OPERATOR = 3
    ADMIN = 4

    @property
    def word(self) -> str:
        """As it is written in keys, answers and on the command line."""
        return self.name.lower()


ROLES = {role.word: role for role in Role}
OPEN = None  #: for everybody, without a key: nothing of anybody's can be seen there

Policy = dict[tuple[str, str], Role | None]

SERVICE: Policy = {
    ("GET", "/healthz"): OPEN,
    ("GET", "/readyz"): OPEN,
    ("GET", "/docs"): OPEN,
    ("GET", "/docs/{file}"): OPEN,
    ("GET", "/openapi.json"): OPEN,
}

DOCUMENTS: Policy = {
    ("GET", "/api/documents"): Role.VIEWER,
    ("POST", "/api/documents"): Role.OPERATOR,
    ("GET", "/api/documents/events"): Role.VIEWER,
    ("GET", "/api/documents/{id}"): Role.VIEWER,
    ("DELETE", "/api/documents/{id}"): Role.OPERATOR,
    ("GET", "/api/documents/{id}/events"): Role.VIEWER,
    ("GET", "/api/documents/{id}/file"): Role.VIEWER,
    ("GET", "/api/documents/{id}/pages/{number}.png"): Role.VIEWER,
    ("GET", "/api/documents/{id}/pages/{number}/words"): Role.VIEWER,
    ("GET", "/api/documents/{id}/outputs/{kind}"): Role.VIEWER,
    ("POST", "/api/documents/{id}/reprocess"): Role.OPERATOR,
    ("GET", "/api/documents/{id}/work"): Role.VIEWER,
    ("GET", "/api/webhooks"): Role.ADMIN,
    ("POST", "/api/webhooks"): Role.ADMIN,
    ("DELETE", "/api/webhooks/{id}"): Role.ADMIN,
}

REVIEW: Policy = {
    ("GET", "/api/review/items"): Role.VIEWER,
    ("POST", "/api/review/claim"): Role.REVIEWER,
    ("GET", "/api/review/items/{id}"): Role.VIEWER,
    ("POST", "/api/review/items/{id}/claim"): Role.REVIEWER,
    ("POST", "/api/review/items/{id}/renew"): Role.REVIEWER,
    ("POST", "/api/review/items/{id}/release"): Role.REVIEWER,
    ("POST", "/api/review/items/{id}/postpone"): Role.REVIEWER,
    ("POST", "/api/review/items/{id}/escalate"): Role.REVIEWER,
    ("POST", "/api/review/items/{id}/assign"): Role.REVIEWER,
    ("PATCH", "/api/review/items/{id}/fields"): Role.REVIEWER,
    ("POST", "/api/review/items/{id}/check"): Role.VIEWER,
    ("PUT", "/api/review/items/{id}/draft"): Role.REVIEWER,
    ("POST", "/api/review/items/{id}/approve"): Role.REVIEWER,
    ("POST", "/api/review/items/{id}/type"): Role.REVIEWER,
    ("POST", "/api/review/items/{id}/reject"): Role.REVIEWER,
    ("POST", "/api/review/items/{id}/reopen"): Role.OPERATOR,
    ("GET", "/api/review/items/{id}/history"): Role.VIEWER,
    ("GET", "/api/documents/{id}/history"): Role.VIEWER,
    ("GET", "/api/review/events"): Role.VIEWER,
    ("GET", "/api/review/numbers"): Role.OPERATOR,
    ("GET", "/api/review/numbers.csv"): Role.OPERATOR,
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
    ("GET", "/api/overview"): Role.VIEWER,
    ("GET", "/api/overview/events"): Role.VIEWER,
    ("GET", "/api/workers"): Role.VIEWER,
    ("GET", "/api/gates"): Role.VIEWER,
    ("GET", "/api/queues"): Role.VIEWER,
    ("GET", "/api/queues/{name}"): Role.VIEWER,
    ("GET", "/api/queues/{name}/rows"): Role.VIEWER,
    ("GET", "/api/queues/{name}/errors"): Role.VIEWER,
    ("POST", "/api/queues/{name}/pause"): Role.OPERATOR,
    ("POST", "/api/queues/{name}/resume"): Role.OPERATOR,
    ("POST", "/api/queues/{name}/retry"): Role.OPERATOR,
}

DOOR_PAGES: Policy = {
    ("GET", "/static/{file}"): OPEN,
    ("GET", "/sign-in"): OPEN,
    ("POST", "/sign-in"): OPEN,
    ("GET", "/enter"): OPEN,
    ("POST", "/enter"): OPEN,
    ("POST", "/sign-out"): Role.VIEWER,
    ("GET", "/"): Role.VIEWER,
    ("GET", "/documents"): Role.VIEWER,
    ("GET", "/documents/{id}"): Role.VIEWER,
    ("GET", "/people"): Role.ADMIN,
}

REVIEW_PAGES: Policy = {
    ("GET", "/queue"): Role.VIEWER,
    ("GET", "/review/{id}"): Role.VIEWER,
    ("GET", "/numbers"): Role.OPERATOR,
}

MONITOR_PAGES: Policy = {
    ("GET", "/dashboard"): Role.VIEWER,
    ("GET", "/queues/{name}"): Role.VIEWER,
}

#: What browsers show to people. The OpenAPI document is silent about it.
PAGES: Policy = {**DOOR_PAGES, **REVIEW_PAGES, **MONITOR_PAGES}

POLICY: Policy = {**SERVICE, **DOCUMENTS, **REVIEW, **PEOPLE, **MONITOR, **PAGES}
