"""The policy of an application with everything that comes with tabellion."""

from __future__ import annotations

from tabellion.pipeline import installed
from tabellion.web import policy
from tabellion.web.app import merged

BLUEPRINTS = [made for one in installed().values() if (made := one.blueprint()) is not None]
PAGES = merged(policy.PAGES, *(one.pages for one in BLUEPRINTS))
POLICY = merged(policy.API, PAGES, *(one.policy for one in BLUEPRINTS))
