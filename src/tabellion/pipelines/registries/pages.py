"""The pages of registries: their URLs, roles and places in the navigation."""

from __future__ import annotations

from tabellion.accounts.roles import Role
from tabellion.pipelines.registries.routes import pages
from tabellion.web.blueprint import NavItem
from tabellion.web.policy import Policy

ROUTERS = (pages.router,)
POLICY: Policy = {("GET", "/registries"): Role.VIEWER, ("GET", "/registries/{id}"): Role.VIEWER}
PLACES = (NavItem("/registries", "registries.nav", "seal", order=24),)
