"""The policy of the application that `tabellion up` serves by default, and of one with every pipeline installed."""

from __future__ import annotations

from collections.abc import Iterable

from tabellion.installed_pipelines import default_pipelines, installed_pipelines
from tabellion.pipeline import Pipeline
from tabellion.web import policy
from tabellion.web.app import merge_policies
from tabellion.web.blueprint import with_shared
from tabellion.web.policy import Policy


def policies(pipelines: Iterable[Pipeline]) -> tuple[Policy, Policy]:
    """Return the pages of an application with these pipelines, and all of its routes."""
    blueprints = with_shared(part for one in pipelines if (part := one.blueprint()) is not None)
    pages = merge_policies(policy.PAGES, *(part.pages for part in blueprints))
    return pages, merge_policies(policy.API, pages, *(part.policy for part in blueprints))


EVERYTHING = list(installed_pipelines().values())
PAGES, POLICY = policies(default_pipelines())
EVERY_PAGE, EVERY_ROUTE = policies(EVERYTHING)
