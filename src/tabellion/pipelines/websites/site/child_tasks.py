"""What is run in the sandbox: hostile HTML, XML and images are parsed in a child process that can be killed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tabellion.pipelines.websites.site.charset import decode_page
from tabellion.pipelines.websites.site.contacts import read_contacts
from tabellion.pipelines.websites.site.html_tree import base_url, parse_html, visible_text
from tabellion.pipelines.websites.site.icon import redraw_icon
from tabellion.pipelines.websites.site.main_text import extract_article, extract_main_text, extract_text_around
from tabellion.pipelines.websites.site.page_fields import read_fields
from tabellion.pipelines.websites.site.script_need import find_script_need
from tabellion.pipelines.websites.site.sitemap_xml import read_sitemap_urls
from tabellion.pipelines.websites.site.social import find_profiles, same_as
from tabellion.pipelines.websites.site.technologies import find_technologies
from tabellion.reading.child import contents

MOST_VISIBLE = 100_000  #: characters, sent in case that the main text cannot be extracted


def read_page(
    file: int,
    url: str,
    content_type: str,
    language: str,
    site_language: str,
    headers: list[list[str]],
    cookies: list[str],
    is_cut: bool,
) -> Iterator[dict[str, Any]]:
    """The fields of a page, then its main text: if the text takes too long, the fields have been sent.

    `language` is what the server says, `site_language` that of the home page.
    """
    decoded = decode_page(contents(file), content_type, is_cut=is_cut)
    tree = parse_html(decoded.text)
    fields = read_fields(tree, url, language)
    shown = visible_text(tree)
    links = fields["links"]["external"]
    sent = [(name, value) for name, value in headers]
    yield {
        "fields": fields,
        "charset": decoded.charset,
        "wrongly_declared": decoded.wrongly_declared,
        "visible_characters": len(shown),
        "visible": shown[:MOST_VISIBLE],
        "script_need": find_script_need(tree),
        "contacts": read_contacts(tree, shown, fields["json_ld"], url, fields["language"] or site_language),
        "social": find_profiles([*(link["url"] for link in links), *same_as(fields["json_ld"])]),
        "technologies": find_technologies(tree, base_url(tree, url), sent, cookies, fields["generator"]),
    }
    text = extract_main_text(decoded.text, tree, url)
    yield {**extract_article(decoded.text, url), "text": text, "text_around": extract_text_around(shown, text)}


def read_sitemap(file: int, url: str) -> Iterator[dict[str, Any]]:
    """The URLs of a sitemap."""
    yield read_sitemap_urls(contents(file), url)


def read_icon(file: int) -> Iterator[dict[str, Any]]:
    """An icon as PNG."""
    yield redraw_icon(contents(file))
