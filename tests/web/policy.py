"""The policy of an application with everything that comes with tabellion."""

from __future__ import annotations

from tabellion.pipeline import installed_pipelines
from tabellion.web import policy
from tabellion.web.app import merge_policies

BLUEPRINTS = [made for one in installed_pipelines().values() if (made := one.blueprint()) is not None]
PAGES = merge_policies(policy.PAGES, *(one.pages for one in BLUEPRINTS))
POLICY = merge_policies(policy.API, PAGES, *(one.policy for one in BLUEPRINTS))
