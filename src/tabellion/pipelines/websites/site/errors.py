"""Why a visit failed, if a later one may succeed; Permanent is raised otherwise."""

from __future__ import annotations

from tabellion.errors import Permanent, TabellionError
from tabellion.messages import Message
from tabellion.net.guard import Blocked
from tabellion.net.page_fetching import PageFailed


class SiteFailed(TabellionError):  # noqa: N818 - what happened
    """The site cannot be read now; a later visit may succeed."""


def explain_failure(url: str, error: Blocked | PageFailed) -> Permanent | SiteFailed:
    """The verdict about a site whose home page could not be fetched."""
    if isinstance(error, Blocked):
        if error.code == "host_unresolved":
            return SiteFailed(Message("visit.host_unresolved", url=url))
        if error.code == "host_unknown":
            return Permanent(Message("visit.host_unknown", url=url))
        return Permanent(Message("visit.refused", url=url, detail=error.reason))
    message = Message("visit.not_fetched", url=url, detail=error.args[0])
    # A retry within minutes finds the same certificate and the same redirects.
    return Permanent(message) if error.code in ("tls", "redirects", "url") else SiteFailed(message)
