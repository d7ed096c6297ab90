"""Puts together what the pages of a visit said: each contact, profile and technology once, with its page."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from tabellion.net.page_fetching import FetchedPage
from tabellion.pipelines.websites.site.cleaning import clean_line, clean_text
from tabellion.pipelines.websites.site.info import (
    Contact,
    Contacts,
    Heading,
    Links,
    Origin,
    PageInfo,
    PageLink,
    SocialProfile,
    Technology,
    Tls,
)
from tabellion.pipelines.websites.site.sandbox import ParsedPage

MOST_CONTACTS = 50
#: Headers that say something about the site.
HEADERS = (
    "server", "x-powered-by", "via", "content-type", "content-language", "last-modified", "cache-control",
    "strict-transport-security", "content-security-policy", "x-frame-options", "x-content-type-options",
    "referrer-policy", "permissions-policy", "x-robots-tag",
)  # fmt: skip
#: The URL of a page and what was read from it.
Read = tuple[str, ParsedPage]
_Item = TypeVar("_Item")


def page_info(url: str, found: Origin, status: int, parsed: ParsedPage, *, rendered: bool) -> PageInfo:
    """One page of the report."""
    fields, article = parsed.fields, parsed.article
    return PageInfo(
        url, found, status, rendered,
        title=clean_line(fields.get("title"), 500), page_title=clean_line(fields.get("page_title"), 500),
        robots_meta=clean_line(fields.get("robots_meta"), 200),
        description=clean_line(fields.get("description"), 2000),
        language=clean_line(fields.get("language"), 40),
        byline=clean_line(fields.get("byline") or article.get("byline"), 200),
        site_name=clean_line(fields.get("site_name"), 200), published=clean_line(article.get("published"), 40),
        canonical=clean_line(fields.get("canonical"), 2048),
        headings=tuple(
            Heading(int(one["level"]), clean_line(one.get("text"), 300))
            for one in _dicts(fields.get("headings"))
            if one.get("level") in range(1, 7)
        ),
        text=clean_text(article.get("text") or (parsed.signs.get("visible") if parsed.error else ""), 1_000_000),
        text_around=clean_text(article.get("text_around"), 5000),
    )  # fmt: skip


def links_of(parsed: ParsedPage) -> Links:
    """The links of a page."""
    stated = parsed.fields.get("links")
    found: dict[str, Any] = stated if isinstance(stated, dict) else {}
    return Links(
        _count(found.get("internal_count")), _count(found.get("external_count")),
        _links(found.get("internal")), _links(found.get("external")),
    )  # fmt: skip


def _links(value: Any) -> tuple[PageLink, ...]:
    return tuple(PageLink(clean_line(one.get("url"), 2048), clean_line(one.get("text"), 120)) for one in _dicts(value))


def _count(value: Any) -> int:
    return value if isinstance(value, int) else 0


def open_graph_of(parsed: ParsedPage) -> dict[str, str]:
    """The Open Graph properties of a page."""
    stated = parsed.fields.get("open_graph")
    return {name: clean_line(value, 2000) for name, value in stated.items()} if isinstance(stated, dict) else {}


def json_ld_of(parsed: ParsedPage) -> tuple[dict[str, Any], ...]:
    """The JSON-LD objects of a page."""
    return tuple(_dicts(parsed.fields.get("json_ld")))


def contacts_of(pages: Sequence[Read]) -> Contacts:
    """The contacts of all pages, each with the first page that has it."""
    kinds = [
        _distinct(
            (
                Contact(clean_line(value, 300), url)
                for url, parsed in pages
                for value in _list(_dict(parsed.signs.get("contacts")).get(kind))
            ),
            lambda contact: contact.value.casefold(),
        )
        for kind in ("emails", "phones", "addresses")
    ]
    return Contacts(*(kind[:MOST_CONTACTS] for kind in kinds))


def social_of(pages: Sequence[Read]) -> tuple[SocialProfile, ...]:
    """The social profiles of all pages."""
    return _distinct(
        (
            SocialProfile(clean_line(one.get("network"), 40), clean_line(one.get("url"), 2048), url)
            for url, parsed in pages
            for one in _dicts(parsed.signs.get("social"))
        ),
        lambda profile: (profile.network, profile.url.casefold()),
    )[:MOST_CONTACTS]


def technologies_of(pages: Sequence[Read]) -> tuple[Technology, ...]:
    """The technologies of all pages, each with the first evidence, or the first one with a version."""
    found = [
        Technology(**{name: clean_line(one.get(name), 200) for name in TECHNOLOGY}, page=url)  # type: ignore[arg-type]
        for url, parsed in pages
        for one in _dicts(parsed.signs.get("technologies"))
    ]
    found.sort(key=lambda technology: not technology.version)
    distinct = _distinct(found, lambda technology: technology.name)
    return tuple(sorted(distinct, key=lambda technology: (technology.category, technology.name)))


TECHNOLOGY = ("name", "category", "version", "kind", "evidence")


def headers_of(page: FetchedPage) -> dict[str, str]:
    """The headers of interest."""
    return {name: clean_line(page.header(name), 500) for name in HEADERS if page.header(name)}


def tls_of(page: FetchedPage) -> Tls | None:
    """The certificate of the page's server."""
    one = page.certificate
    if one is None:
        return None
    return Tls(one.version, one.subject, one.issuer, one.valid_from, one.valid_until, one.names)


def _distinct(items: Iterable[_Item], key: Callable[[_Item], object]) -> tuple[_Item, ...]:
    found: dict[object, _Item] = {}
    for item in items:
        found.setdefault(key(item), item)
    return tuple(found.values())


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [item for item in _list(value) if isinstance(item, dict)]
