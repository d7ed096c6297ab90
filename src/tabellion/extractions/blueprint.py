"""What every pipeline on the extraction queue shows of it: the same routes and pages, in the application once."""

from __future__ import annotations

from tabellion.accounts.roles import Role
from tabellion.extractions.routes import extractions, pages
from tabellion.web.blueprint import Blueprint
from tabellion.web.policy import Policy

POLICY: Policy = {
    ("GET", "/api/extractions"): Role.VIEWER,
    ("POST", "/api/extractions/ocr"): Role.OPERATOR,
    ("GET", "/api/extractions/{id}"): Role.VIEWER,
    ("GET", "/api/extractions/{id}/text"): Role.VIEWER,
    ("GET", "/api/extractions/{id}/file"): Role.VIEWER,
    ("GET", "/api/extractions/{id}/pages/{number}.png"): Role.VIEWER,
}
PAGES: Policy = {("GET", "/extractions"): Role.VIEWER, ("GET", "/extractions/{id}"): Role.VIEWER}

#: For `Blueprint.shared`; it is the same object for all of them.
EXTRACTIONS = Blueprint(
    routers=(extractions.router, pages.router), policy=POLICY, pages=PAGES,
    places=pages.PLACES, package="tabellion.extractions",
    clashing=frozenset({("POST", "/api/extractions/ocr")}),
)  # fmt: skip
