"""The HTTP API of documents and their review: its routes and the roles they require."""

from __future__ import annotations

from tabellion.accounts.roles import Role
from tabellion.pipelines.documents.routes import (
    documents,
    events,
    files,
    history,
    review,
    review_bodies,
    review_fields,
    review_statistics,
    uploads,
)
from tabellion.web.policy import Policy

ROUTERS = (
    events.router, uploads.router, documents.router, files.router, history.router, review.router, review_fields.router,
    review_statistics.router,
)  # fmt: skip
SHAPES = review_bodies.SHAPES

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

POLICY: Policy = {**DOCUMENTS, **REVIEW}

#: Codes are stable: people script against them.
PROBLEMS = (
    "duplicate_rejected", "document_running", "type_missing", "type_broken", "item_held",
    "item_assigned", "item_escalated", "item_closed", "item_open", "queue_paused", "too_many_held", "not_held",
    "version_missing", "version_conflict", "fields_unseen", "review_gated",
)  # fmt: skip
REPEATABLE = frozenset({("POST", "/api/documents"), ("POST", "/api/review/claim")})
RESUMABLE = frozenset({("GET", "/api/documents/events")})
VERSIONED = frozenset({("PATCH", "/api/review/items/{id}/fields"), ("POST", "/api/review/items/{id}/approve")})
CLASHING = frozenset(
    {
        ("POST", "/api/documents/{id}/reprocess"),
        ("DELETE", "/api/documents/{id}"),
        *((method, path) for method, path in REVIEW if method != "GET" and path.startswith("/api/review/items/{id}/")),
    }
)
