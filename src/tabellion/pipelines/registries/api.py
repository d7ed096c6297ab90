"""The HTTP API of registries: its routes and their roles."""

from __future__ import annotations

from tabellion.accounts.roles import Role
from tabellion.pipelines.registries.routes import searches
from tabellion.web.policy import Policy

ROUTERS = (searches.router,)
SHAPES = searches.SHAPES
POLICY: Policy = {
    ("POST", "/api/extractions"): Role.OPERATOR,
    ("GET", "/api/search-sessions"): Role.VIEWER,
    ("POST", "/api/search-sessions"): Role.OPERATOR,
    ("GET", "/api/search-sessions/{id}"): Role.VIEWER,
    ("POST", "/api/search-sessions/{id}/names"): Role.REVIEWER,
    ("GET", "/api/rdprm-searches"): Role.VIEWER,
    ("GET", "/api/rdprm-searches/{id}"): Role.VIEWER,
    ("GET", "/api/rdprm-searches/{id}/file"): Role.VIEWER,
}
REPEATABLE = frozenset({("POST", "/api/extractions"), ("POST", "/api/search-sessions")})
CLASHING = frozenset(route for route in POLICY if route not in REPEATABLE)
