"""The pages of documents and their review: routes, roles and navigation."""

from __future__ import annotations

from tabellion.accounts.roles import Role
from tabellion.pipelines.documents.routes import pages
from tabellion.web.blueprint import NavItem
from tabellion.web.policy import Policy

ROUTERS = (pages.router,)

POLICY: Policy = {
    ("GET", "/documents"): Role.VIEWER,
    ("GET", "/documents/{id}"): Role.VIEWER,
    ("GET", "/queue"): Role.VIEWER,
    ("GET", "/review/{id}"): Role.VIEWER,
    ("GET", "/numbers"): Role.OPERATOR,
}
PLACES = (
    NavItem("/queue", "queue.nav", "queue", order=10, below=("/review",), home_of=(Role.VIEWER, Role.REVIEWER)),
    NavItem("/documents", "documents.nav", "file", order=20),
    NavItem("/numbers", "numbers.nav", "numbers", order=40),
)
