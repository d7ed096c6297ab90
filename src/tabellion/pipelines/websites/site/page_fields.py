"""Reads the fields of a page from its tree: title, description, language, Open Graph, JSON-LD, headings, links."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from lxml.html import HtmlElement

from tabellion.pipelines.websites.site.cleaning import clean_json, clean_line
from tabellion.pipelines.websites.site.html_tree import base_url, meta_contents, text_of
from tabellion.pipelines.websites.site.urls import LONGEST_URL, join_url, site_of

MOST_HEADINGS = 200
MOST_LINKS = 2000  #: distinct ones that are counted
KEPT_LINKS = 300  #: of each kind
MOST_BLOCKS = 20  #: of JSON-LD
BLOCK_CHARACTERS = 200_000
JSON_LD_CHARACTERS = 100_000  #: of all blocks together
#: Comments and CDATA sections that hide the data from old browsers.
_WRAPPED = re.compile(r"^(?:/\*|//)?\s*(?:<!--|<!\[CDATA\[)\s*(?:\*/)?|(?:/\*|//)?\s*(?:-->|\]\]>)\s*(?:\*/)?$")
_LANGUAGE = re.compile(r"[A-Za-z]{2,3}(?:[-_][A-Za-z0-9]{1,8}){0,3}")
_REFRESH = re.compile(r"^\s*(\d{1,4})(?:\.\d*)?\s*[;,]\s*(?:url\s*=\s*)?[\"']?\s*([^\"'\s]+)", re.IGNORECASE)
_SEPARATED = re.compile(r"\s+[|–—·•»:/-]\s+|\s+::\s+|:\s+")
_AROUND = re.compile(r"^[\s|–—·•»:/-]+|[\s|–—·•»:/-]+$")


def read_fields(tree: HtmlElement, url: str, content_language: str = "") -> dict[str, Any]:
    """The fields of a page as JSON."""
    meta = meta_contents(tree)
    blocks = list(read_json_ld(tree))
    base = base_url(tree, url)
    page_title = next((clean_line(one.text, 500) for one in tree.xpath("//title[not(ancestor::svg)]") if one.text), "")
    site_name = meta.get("og:site_name") or meta.get("application-name") or _name_of_site(blocks)
    return {
        "title": choose_title(page_title, meta, blocks, site_name),
        "byline": read_byline(meta, blocks),
        "page_title": page_title,
        "robots_meta": meta.get("robots", ""),
        "site_name": clean_line(site_name, 200),
        "description": clean_line(
            meta.get("description") or meta.get("og:description") or meta.get("twitter:description"), 2000
        ),
        "language": read_language(tree, meta, content_language),
        "canonical": _link_target(tree, base, "canonical"),
        "open_graph": {name: value for name, value in meta.items() if name.startswith(("og:", "article:", "product:"))},
        "generator": meta.get("generator", ""),
        "json_ld": blocks,
        "headings": list(_read_headings(tree)),
        "links": read_links(tree, base, url),
        "icons": _read_icons(tree, base),
        "refresh": _read_refresh(tree, base),
    }


def choose_title(page_title: str, meta: dict[str, str], blocks: list[dict[str, Any]], site_name: str) -> str:
    """The title of the page without the name of its site, as far as the page states them."""
    articles = [block for block in blocks if any(name.endswith(("Article", "Posting")) for name in types_of(block))]
    names = [one[name] for one in articles for name in ("headline", "name") if isinstance(one.get(name), str)]
    stated = (
        next((name for name in names if name in page_title), "")
        or meta.get("dc.title")
        or meta.get("og:title")
        or meta.get("twitter:title")
    )
    title = clean_line(stated, 500) or page_title
    parts = _SEPARATED.split(title)
    if len(parts) > 1 and site_name:
        if parts[-1].casefold() == site_name.casefold():
            return _AROUND.sub("", title.removesuffix(parts[-1]))
        if parts[0].casefold() == site_name.casefold():
            return _AROUND.sub("", title.removeprefix(parts[0]))
    return title


def read_byline(meta: dict[str, str], blocks: list[dict[str, Any]]) -> str:
    """The author as the page states it; empty if it does not."""
    for block in blocks:
        stated = block.get("author")
        for author in stated if isinstance(stated, list) else [stated]:
            name = author.get("name") if isinstance(author, dict) else author
            if isinstance(name, str) and name.strip():
                return clean_line(name, 200)
    for name in ("dc.creator", "dcterms.creator", "author", "article:author", "parsely-author"):
        if (value := meta.get(name)) and not value.startswith(("http:", "https:")):
            return clean_line(value, 200)
    return ""


def read_language(tree: HtmlElement, meta: dict[str, str], content_language: str) -> str:
    """The language that the page or its server declares, such as `en` or `fr-CA`."""
    root = tree if tree.tag == "html" else tree.getroottree().getroot()
    stated = [
        root.get("lang"), root.get("{http://www.w3.org/XML/1998/namespace}lang"), root.get("xml:lang"),
        next(iter(tree.xpath("//meta[translate(@http-equiv,'CL','cl')='content-language']/@content")), None),
        meta.get("og:locale"), meta.get("dc.language"), meta.get("language"), content_language.partition(",")[0],
        next(iter(tree.xpath("//body/@lang")), None),
    ]  # fmt: skip
    for value in stated:
        if isinstance(value, str) and (match := _LANGUAGE.fullmatch(value.strip())):
            return match[0].replace("_", "-")
    return ""


def read_json_ld(tree: HtmlElement) -> Iterator[dict[str, Any]]:
    """The objects of the page's JSON-LD, those of a @graph one by one; what is not valid JSON is skipped."""
    remaining = JSON_LD_CHARACTERS
    scripts = tree.xpath("//script[contains(translate(@type,'LDJSON','ldjson'),'ld+json')]")
    for script in scripts[:MOST_BLOCKS]:
        text = _WRAPPED.sub("", (script.text or "").strip()).rstrip(";")
        if not text or len(text) > BLOCK_CHARACTERS:
            continue
        try:
            value = json.loads(text, strict=False)
            objects = list(_flatten(value))
        except (ValueError, RecursionError):
            continue
        for item in objects[:100]:
            cleaned = clean_json(item, 5000)
            remaining -= len(json.dumps(cleaned))
            if remaining < 0:
                return
            yield cleaned


def _flatten(value: Any, depth: int = 0) -> Iterator[dict[str, Any]]:
    if isinstance(value, list) and depth < 4:
        for item in value:
            yield from _flatten(item, depth + 1)
    elif isinstance(value, dict):
        if isinstance(value.get("@graph"), list) and depth < 4:
            yield from _flatten(value["@graph"], depth + 1)
        else:
            yield value


def types_of(block: dict[str, Any]) -> set[str]:
    """The types of a JSON-LD object, without their vocabulary."""
    stated = block.get("@type")
    names = stated if isinstance(stated, list) else [stated]
    return {name.rpartition("/")[2] for name in names if isinstance(name, str)}


def _name_of_site(blocks: list[dict[str, Any]]) -> str:
    for wanted in ("WebSite", "Organization", "Corporation", "LocalBusiness"):
        for block in blocks:
            if wanted in types_of(block) and isinstance(block.get("name"), str):
                return str(block["name"])
    for block in blocks:
        publisher = block.get("publisher")
        if isinstance(publisher, dict) and isinstance(publisher.get("name"), str):
            return str(publisher["name"])
    return ""


def _read_headings(tree: HtmlElement) -> Iterator[dict[str, Any]]:
    count = 0
    for element in tree.iter("h1", "h2", "h3", "h4", "h5", "h6"):
        if text := text_of(element, 300):
            yield {"level": int(str(element.tag)[1]), "text": text}
            count += 1
            if count >= MOST_HEADINGS:
                return


def read_links(tree: HtmlElement, base: str, url: str) -> dict[str, Any]:
    """The distinct links of a page, counted, the first of each kind with their texts."""
    own = site_of(url)
    found: dict[str, str] = {}
    for element in tree.iter("a", "area"):
        target = join_url(base, str(element.get("href") or ""))
        if not target or len(found) >= MOST_LINKS:
            continue
        text = text_of(element, 120) or clean_line(element.get("title") or element.get("aria-label"), 120)
        if not found.get(target):
            found[target] = text
    inside = [(target, text) for target, text in found.items() if site_of(target) == own]
    outside = [(target, text) for target, text in found.items() if site_of(target) != own]
    return {
        "internal_count": len(inside), "external_count": len(outside),
        "internal": [{"url": target, "text": text} for target, text in inside[:KEPT_LINKS]],
        "external": [{"url": target, "text": text} for target, text in outside[:KEPT_LINKS]],
    }  # fmt: skip


def _link_target(tree: HtmlElement, base: str, rel: str) -> str:
    for element in tree.iter("link"):
        if rel in str(element.get("rel") or "").lower().split():
            return join_url(base, str(element.get("href") or ""))
    return ""


def _read_icons(tree: HtmlElement, base: str) -> list[str]:
    """The icons of the page, those that a program can draw first."""
    found: list[tuple[bool, str]] = []
    for element in tree.iter("link"):
        rels = str(element.get("rel") or "").lower().split()
        if "icon" in rels or "apple-touch-icon" in rels:
            target = join_url(base, str(element.get("href") or ""))
            if target:
                is_vector = "svg" in str(element.get("type") or "").lower() or target.partition("?")[0].endswith(".svg")
                found.append((is_vector, target))
    return [target for is_vector, target in sorted(found, key=lambda one: one[0]) if not is_vector][:3]


def _read_refresh(tree: HtmlElement, base: str) -> str:
    """Where the page sends its reader within seconds; empty if it does not."""
    for content in tree.xpath("//meta[translate(@http-equiv,'REFSH','refsh')='refresh']/@content"):
        match = _REFRESH.match(str(content).strip()[:LONGEST_URL])
        if match and int(match[1]) <= 5:
            return join_url(base, match[2])
    return ""
