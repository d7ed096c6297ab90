"""Visits a website: its home page, a sample of its pages, and what they say about it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tabellion.messages import Message
from tabellion.pipelines.websites.site.info import WebsiteInfo
from tabellion.pipelines.websites.site.settings import VisitSettings


async def visit(url: str, settings: VisitSettings, folder: Path, note: Callable[[Message], None]) -> WebsiteInfo:
    """Visits a website and returns what it found; the screenshot and the favicon are stored in `folder`.

    `note` is called with each step. Raises Permanent if the site can never be read (not a URL, a private address, no
    such host, denied by robots.txt, not a web page), and SiteFailed if a later visit may succeed.
    """
    raise NotImplementedError
