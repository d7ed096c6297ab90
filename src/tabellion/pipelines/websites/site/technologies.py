"""Recognizes the technologies of a site by the signs in technologies.yaml, each with the evidence."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files

import yaml
from lxml import etree
from lxml.html import HtmlElement

from tabellion.pipelines.websites.site.cleaning import clean_line
from tabellion.pipelines.websites.site.urls import join_url

MOST_RESOURCES = 500
LONGEST = 500  #: characters of a value that are searched
EVIDENCE = 200  #: characters that are kept


@dataclass(frozen=True, slots=True)
class TechnologyRule:
    """A technology and its signs."""

    name: str
    category: str
    headers: Mapping[str, re.Pattern[str]]
    cookies: Sequence[re.Pattern[str]]
    generator: Sequence[re.Pattern[str]]
    scripts: Sequence[re.Pattern[str]]
    markup: Sequence[etree.XPath]


@functools.cache
def load_rules() -> tuple[TechnologyRule, ...]:
    """The rules of technologies.yaml."""
    text = (files("tabellion.pipelines.websites.site") / "technologies.yaml").read_text(encoding="utf-8")
    return tuple(
        TechnologyRule(
            entry["name"], entry["category"],
            {name: re.compile(sign, re.IGNORECASE) for name, sign in entry.get("headers", {}).items()},
            _compile(entry.get("cookies")), _compile(entry.get("generator")), _compile(entry.get("scripts")),
            [etree.XPath(sign) for sign in entry.get("markup", ())],
        )
        for entry in yaml.safe_load(text)
    )  # fmt: skip


def _compile(signs: list[str] | None) -> list[re.Pattern[str]]:
    return [re.compile(sign, re.IGNORECASE) for sign in signs or ()]


def find_technologies(
    tree: HtmlElement, base: str, headers: Iterable[tuple[str, str]], cookies: Sequence[str], generator: str
) -> list[dict[str, str]]:
    """The technologies of a page, with the sign that is most certain: the one that names a version, or the first."""
    sent: dict[str, list[str]] = {}
    for name, value in headers:
        sent.setdefault(name.lower(), []).append(value[:LONGEST])
    resources = list_resources(tree, base)
    found = []
    for rule in load_rules():
        signs = list(_find_signs(rule, tree, sent, cookies, generator[:LONGEST], resources))
        if signs:
            version, kind, evidence = max(signs, key=lambda sign: bool(sign[0]))
            found.append({
                "name": rule.name, "category": rule.category, "version": version, "kind": kind,
                "evidence": clean_line(evidence, EVIDENCE),
            })  # fmt: skip
    return found


def _find_signs(
    rule: TechnologyRule,
    tree: HtmlElement,
    headers: Mapping[str, list[str]],
    cookies: Sequence[str],
    generator: str,
    resources: Sequence[str],
) -> Iterator[tuple[str, str, str]]:
    """Version, kind and evidence of each sign."""
    for name, pattern in rule.headers.items():
        for value in headers.get(name, ()):
            if match := pattern.search(value):
                yield _version(match), "header", f"{name}: {value}"
    for pattern in rule.generator:
        if generator and (match := pattern.search(generator)):
            yield _version(match), "meta", f"generator: {generator}"
    for pattern in rule.cookies:
        for cookie in cookies:
            if pattern.search(cookie[:LONGEST]):
                yield "", "cookie", cookie
    for pattern in rule.scripts:
        for url in resources:
            if match := pattern.search(url):
                yield _version(match), "script", url
                break
    for path in rule.markup:
        if matches := path(tree):
            yield "", "markup", _describe(matches[0])


def _version(match: re.Match[str]) -> str:
    return clean_line(match[1] if match.lastindex else "", 40).strip(".")


def _describe(element: HtmlElement) -> str:
    """The start tag of an element."""
    attributes = " ".join(f'{name}="{value}"' for name, value in list(element.attrib.items())[:4])
    return f"<{element.tag!s}{' ' if attributes else ''}{attributes}>"


def list_resources(tree: HtmlElement, base: str) -> list[str]:
    """The URLs of the page's scripts, styles, images and preloads."""
    found: dict[str, None] = {}
    for path in ("//script/@src", "//link[@href]/@href", "//img/@src"):
        for value in tree.xpath(path)[:MOST_RESOURCES]:
            if url := join_url(base, str(value)):
                found.setdefault(url[:LONGEST])
    return list(found)[:MOST_RESOURCES]
