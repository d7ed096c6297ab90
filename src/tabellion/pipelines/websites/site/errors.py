"""Why a visit failed: for good (Permanent), or so that a later visit may succeed (SiteFailed)."""

from __future__ import annotations

from tabellion.errors import Permanent, TabellionError
from tabellion.messages import Message
from tabellion.net.guard import Blocked
from tabellion.net.page_fetching import FetchedPage, PageFailed
from tabellion.pipelines.websites.site.sandbox import ParsedPage

#: Media types that are read as pages; some servers send none.
PAGES = frozenset({"", "text/html", "application/xhtml+xml", "text/plain", "application/xml", "text/xml"})
#: Statuses that a later visit may find changed; other errors of the 400s are final.
PASSING = frozenset({408, 425, 429})


class SiteFailed(TabellionError):  # noqa: N818 - what happened
    """The site cannot be read now; a later visit may succeed."""

    is_explained = True


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


def check_page(page: FetchedPage) -> None:
    """Raises if the answer is not a web page."""
    if page.status >= 500 or page.status in PASSING:
        raise SiteFailed(Message("visit.status", url=page.url, status=page.status))
    if page.status >= 300:
        raise Permanent(Message("visit.status", url=page.url, status=page.status))
    is_binary = not page.media and b"\0" in page.body[:1024] and page.body[:2] not in (b"\xff\xfe", b"\xfe\xff")
    if page.media not in PAGES or is_binary:
        media = "".join(letter for letter in page.media if letter.isalnum() or letter in "/+.-")[:60]
        raise Permanent(Message("visit.not_a_page", url=page.url, media=media or "application/octet-stream"))


def check_parsed(page: FetchedPage, parsed: ParsedPage) -> None:
    """Raises if nothing of the page could be read."""
    if not parsed.fields:
        message = Message("visit.page_unreadable", url=page.url, detail=parsed.error)
        raise SiteFailed(message) if parsed.may_succeed_later else Permanent(message)
