"""The pages of websites: their URLs, roles and places in the navigation."""

from __future__ import annotations

from tabellion.accounts.roles import Role
from tabellion.pipelines.websites.routes import pages
from tabellion.web.blueprint import NavItem
from tabellion.web.policy import Policy

ROUTERS = (pages.router,)
POLICY: Policy = {
    ("GET", "/websites"): Role.VIEWER,
    ("GET", "/websites/compare"): Role.VIEWER,
    ("GET", "/websites/{id}"): Role.VIEWER,
}
PLACES = (NavItem("/websites", "websites.nav", "link", order=26),)
