"""Runs the parsing tasks in children: a hostile page costs its own child, never the worker."""

from __future__ import annotations

import asyncio
import atexit
import base64
import binascii
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tabellion.net.page_fetching import FetchedPage
from tabellion.pipelines.websites.site.cleaning import clean_json
from tabellion.reading.errors import Unreadable
from tabellion.reading.limits import MEBI, Limits
from tabellion.reading.sandbox import ReaderLost, Sandbox, Stopped

MODULE = "tabellion.pipelines.websites.site.child_tasks"
#: A page of 5 MB takes up to 6 s and 700 MB, most pages take 0.1 s.
LIMITS = Limits(
    seconds=30.0, page_seconds=20.0, cpu_seconds=30.0, memory=900 * MEBI, address_space=2048 * MEBI, bytes=20_000_000
)
LONGEST = 1_000_000  #: characters of a text that a child sends

_pool: list[Sandbox] = []
_creating = threading.Lock()


@dataclass(frozen=True, slots=True)
class ParsedPage:
    """What a child read from a page. `error` says why the rest is missing, if something is."""

    fields: dict[str, Any] = field(default_factory=dict)  #: of page_fields
    signs: dict[str, Any] = field(default_factory=dict)  #: character set, contacts, social profiles, technologies …
    article: dict[str, Any] = field(default_factory=dict)  #: byline, date and main text
    error: str = ""
    may_succeed_later: bool = False  #: the child was killed from outside

    @property
    def visible_characters(self) -> int:
        """How much text a reader sees."""
        count = self.signs.get("visible_characters")
        return count if isinstance(count, int) else 0

    def text(self, name: str) -> str:
        """A text among the fields; empty if it is missing."""
        value = self.fields.get(name)
        return value if isinstance(value, str) else ""


def site_sandbox() -> Sandbox:
    """The pool of this process, closed at its exit."""
    with _creating:
        if not _pool:
            _pool.append(Sandbox(limits=LIMITS, allowed=(f"{MODULE}.",)))
            atexit.register(_pool[0].close)
        return _pool[0]


async def parse_page(page: FetchedPage, site_language: str = "") -> ParsedPage:
    """Parses a page of a site in this language; whatever the page does to its child, this returns."""
    arguments = {
        "url": page.url, "content_type": page.header("content-type")[:200], "is_cut": page.is_cut,
        "language": page.header("content-language")[:100], "cookies": list(page.cookies),
        "site_language": site_language,
        "headers": [[name[:100], value[:1000]] for name, value in page.headers[:200]],
    }  # fmt: skip
    items, error, lost = await _run("read_page", arguments, page.body)
    first = items[0] if items else {}
    fields = first.pop("fields", {})
    return ParsedPage(
        fields if isinstance(fields, dict) else {}, first, items[1] if len(items) > 1 else {}, error, lost
    )


async def parse_sitemap(data: bytes, url: str) -> tuple[list[str], list[str]]:
    """The pages and the further sitemaps that a sitemap lists; none if it cannot be read."""
    items, *_error = await _run("read_sitemap", {"url": url}, data)
    found = items[0] if items else {}
    return _texts(found.get("pages")), _texts(found.get("sitemaps"))


async def redraw_icon(data: bytes) -> bytes:
    """An icon as PNG; empty if it cannot be drawn."""
    items, *_error = await _run("read_icon", {}, data)
    try:
        return base64.b64decode(items[0].get("png", "") if items else "", validate=True)
    except (binascii.Error, TypeError, ValueError):
        return b""


def _texts(value: Any) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


async def _run(task: str, arguments: Mapping[str, Any], data: bytes) -> tuple[list[dict[str, Any]], str, bool]:
    """What the task has sent, why it ended early, and whether it was killed from outside; cancelling ends the child."""
    stop = threading.Event()
    sandbox = site_sandbox()
    future = asyncio.get_running_loop().run_in_executor(sandbox.threads, _collect, sandbox, task, arguments, data, stop)
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        stop.set()
        raise


def _collect(
    sandbox: Sandbox, task: str, arguments: Mapping[str, Any], data: bytes, stop: threading.Event
) -> tuple[list[dict[str, Any]], str, bool]:
    items: list[dict[str, Any]] = []
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.flush()
        try:
            for item in sandbox.run(f"{MODULE}:{task}", arguments, file.fileno(), stop=stop):
                items.append(clean_json(item, LONGEST))  # a child may send anything
        except (Unreadable, ReaderLost, Stopped) as error:
            return items, str(error), isinstance(error, ReaderLost)
    return items, "", False
