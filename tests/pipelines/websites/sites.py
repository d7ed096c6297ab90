"""Websites for tests: what a visit found, and settings that need no network."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from tabellion import Environment, Store, Worker
from tabellion.messages import Message
from tabellion.pipelines.websites.pipeline import PIPELINE
from tabellion.pipelines.websites.queues import website_queues
from tabellion.pipelines.websites.settings import WebsiteSettings
from tabellion.pipelines.websites.site.info import Contact, Contacts, Heading, Links, PageInfo, PageLink, WebsiteInfo
from tabellion.pipelines.websites.site.settings import VisitSettings
from tabellion.storage.blobs import Blobs
from tests.workers import ask

HOME = """Birch & Co. makes wooden toys for families and schools. We are a small workshop in Lyon, and \
every toy is made by hand.
Founded in 1987, we build things that last.
Our trains, puzzles and blocks are made of beech from managed forests. © 2026 Birch & Co. Ltd"""
ABOUT = """Our team of twelve carves, sands and paints.
Company number 01234567. Our workshop is certified to ISO 9001."""
PRIVACY = PageLink("https://birch.example/privacy", "Privacy policy")


def website(url: str = "https://birch.example/", **changes: Any) -> WebsiteInfo:
    """What a visit of a small site found."""
    headings = (Heading(1, "Wooden toys"), Heading(2, "Our products"), Heading(3, "Trains"), Heading(3, "Puzzles"))
    title = "Birch & Co. | Wooden toys"
    home = PageInfo(url, "home", title=title, page_title=title, headings=headings, text=HOME, language="en")
    about = PageInfo(f"{url}about", "link", title="About", page_title="About | Birch & Co.", text=ABOUT)
    links = Links(4, 1, (PRIVACY, PageLink(f"{url}about", "About us")))
    info = WebsiteInfo(
        url, url, "2026-11-01T10:00:00.000Z", title=title, page_title=title, language="en", headings=headings,
        text=HOME, description="Wooden toys made by hand in Lyon, for families and schools, since 1987.",
        links=links,
        contacts=Contacts(emails=(Contact("hello@birch.example", url),), phones=(Contact("+33 4 72 00 00 00", url),)),
        pages=(home, about), open_graph={"og:title": "Birch & Co."},
    )  # fmt: skip
    return replace(info, **changes)


async def visit_birch(url: str, settings: VisitSettings, folder: Path, note: Callable[[Message], None]) -> WebsiteInfo:
    """A visit that finds the small site at any URL."""
    await asyncio.sleep(0)
    return website(url)


def settings_in(folder: Path, **changes: Any) -> WebsiteSettings:
    """Settings whose visits need no network."""
    options: dict[str, Any] = {"run_visit": visit_birch, "retry_base": 0.05, "folders": (folder / "analyses",)}
    return WebsiteSettings(Blobs(folder / "blobs"), **(options | changes))


async def prepared(url: str) -> Store:
    """An open store with the tables; the caller closes it."""
    store = Store(url)
    await PIPELINE.prepare(store)
    return store


def work(url: str, settings: WebsiteSettings, **options: Any) -> None:
    """Runs a worker until nothing is left to do."""
    queues = website_queues(settings)
    Worker([Environment("prod", url)], queues, poll=0.05, **options).run(until_idle=True)


def rows(url: str, query: str = "SELECT * FROM website_jobs ORDER BY id") -> list[dict[str, Any]]:
    """The rows of a query."""
    return ask(url, lambda store: store.database.fetch(query))
