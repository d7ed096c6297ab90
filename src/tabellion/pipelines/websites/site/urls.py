"""URLs of websites: as people type them, as pages link to them, and which of them belong together."""

from __future__ import annotations

import re
from urllib.parse import urljoin, urlsplit

LONGEST_URL = 2048
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(?!\d)")


def normalize_url(text: str) -> str:
    """A URL as it is stored and fetched: `Example.com` is `https://example.com/`; raises ValueError.

    Without a scheme it gets https. The host is in lower case and in Punycode, the path is percent-encoded, and a
    fragment or a default port is dropped: what is left unequal may be another page.
    """
    from tabellion.net.guard import Blocked, parse
    from tabellion.net.page_fetching import quote_url

    typed = text.strip()
    if not _SCHEME.match(typed):
        typed = f"https://{typed.removeprefix('//')}"
    try:
        return parse(quote_url(typed)).url
    except Blocked as error:
        raise ValueError(error.reason) from error


def join_url(base: str, link: str) -> str:
    """The absolute http or https URL of a link, without its fragment; empty for anything else."""
    link = link.strip()
    if not link or len(link) > LONGEST_URL:
        return ""
    try:
        joined = urljoin(base, link).partition("#")[0]
        parts = urlsplit(joined)
        return joined if parts.scheme in ("http", "https") and parts.hostname and len(joined) <= LONGEST_URL else ""
    except ValueError:
        return ""


def site_of(url: str) -> str:
    """The host and port of a URL without `www.`: links within it are internal."""
    try:
        parts = urlsplit(url)
        host, port = (parts.hostname or "").removeprefix("www."), parts.port
    except ValueError:
        return ""
    return host if port in (None, 80, 443) else f"{host}:{port}"
