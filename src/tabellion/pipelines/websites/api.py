"""The HTTP API of websites: its routes and their roles."""

from __future__ import annotations

from tabellion.accounts.roles import Role
from tabellion.pipelines.websites.routes import website_files, websites
from tabellion.web.policy import Policy

ROUTERS = (website_files.router, websites.router)
SHAPES = websites.SHAPES
POLICY: Policy = {
    ("GET", "/api/websites"): Role.VIEWER,
    ("POST", "/api/websites"): Role.OPERATOR,
    ("GET", "/api/websites/compare"): Role.VIEWER,
    ("GET", "/api/websites/health"): Role.VIEWER,
    ("GET", "/api/websites/types"): Role.VIEWER,
    ("GET", "/api/websites/{id}"): Role.VIEWER,
    ("GET", "/api/websites/{id}/report"): Role.VIEWER,
    ("GET", "/api/websites/{id}/screenshot"): Role.VIEWER,
    ("GET", "/api/websites/{id}/favicon"): Role.VIEWER,
    ("GET", "/api/websites/{id}/prompt"): Role.VIEWER,
    ("POST", "/api/websites/{id}/retry"): Role.OPERATOR,
    ("POST", "/api/websites/{id}/cancel"): Role.OPERATOR,
}
REPEATABLE = frozenset({("POST", "/api/websites")})
CLASHING = frozenset({("POST", "/api/websites/{id}/retry"), ("POST", "/api/websites/{id}/cancel")})
PROBLEMS = ("analysis_type_broken", "website_open", "website_not_failed", "website_ended", "backlog_full")
