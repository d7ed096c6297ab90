"""The pages of registries: addresses, places in the header."""

from __future__ import annotations

from tabellion.accounts.roles import Role
from tabellion.pipelines.registries.routes import registry_pages
from tabellion.web.blueprint import NavItem
from tabellion.web.policy import Policy

ROUTERS = (registry_pages.router,)
POLICY: Policy = {("GET", "/registries"): Role.VIEWER, ("GET", "/registries/{id}"): Role.VIEWER}
PLACES = (NavItem("/registries", "registries.nav", "seal", order=24),)
