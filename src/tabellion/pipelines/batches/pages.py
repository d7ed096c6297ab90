"""The pages of batches: their URLs, roles and places in the navigation."""

from __future__ import annotations

from tabellion.accounts.roles import Role
from tabellion.pipelines.batches.routes import pages
from tabellion.web.blueprint import NavItem
from tabellion.web.policy import Policy

ROUTERS = (pages.router,)
POLICY: Policy = {
    ("GET", "/batches"): Role.VIEWER,
    ("GET", "/batches/{batch_id}"): Role.VIEWER,
}
PLACES = (NavItem("/batches", "batches.nav", "copy", order=27),)
