"""Finds sentences, links and structured data on the pages of a website, each with its source."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from tabellion.messages import Message
from tabellion.pipelines.websites.result import Source
from tabellion.pipelines.websites.site.info import PageLink, WebsiteInfo

LONGEST = 400  #: characters of a sentence that is shown
#: A point ends a sentence only before a capital letter: "Birch & Co. makes toys" is one.
_SENTENCE = re.compile(r"(?:[^.!?…\n]|[.!?…](?!\s+[^\W\d_a-zà-öø-ÿ]|\s*(?:\n|$)))+[.!?…]*")


def sentences(info: WebsiteInfo) -> Iterator[tuple[str, Source]]:
    """The sentences of all pages, in order."""
    for page in info.pages:
        for match in _SENTENCE.finditer(page.text):
            text = " ".join(match[0].split())
            if len(text) > 2:
                yield text, Source("text", text[:LONGEST], page.url, match.start(), match.end())


def search(info: WebsiteInfo, pattern: re.Pattern[str]) -> Iterator[tuple[re.Match[str], Source]]:
    """Matches in the main texts of all pages."""
    for page in info.pages:
        for match in pattern.finditer(page.text):
            yield match, Source("text", _quote(match), page.url, match.start(), match.end())


def search_everywhere(info: WebsiteInfo, pattern: re.Pattern[str]) -> Iterator[tuple[re.Match[str], Source]]:
    """Matches in the main texts, then in what surrounds them: headers and footers."""
    yield from search(info, pattern)
    for page in info.pages:
        for match in pattern.finditer(page.text_around):
            yield match, Source("text_around", _quote(match), page.url)


def _quote(match: re.Match[str]) -> str:
    """The match with some words before and after it; never half a word."""
    before, after = match.string[: match.start()], match.string[match.end() :]
    first = before if len(before) <= 40 else before[-40:].partition(" ")[2]
    last = after if len(after) <= 60 else after[:60].rpartition(" ")[0]
    return " ".join(f"{first}{match[0]}{last}".split())


def links(info: WebsiteInfo) -> Iterator[tuple[PageLink, Source]]:
    """The links of the home page, but for those that the visit found broken."""
    broken = {
        issue.params.get("url")
        for issue in info.issues
        if isinstance(issue, Message) and issue.code == "visit.page_missing"
    }
    for link in (*info.links.internal, *info.links.external):
        if link.url not in broken:
            yield link, Source("link", link.text or link.url, info.final_url)


def structured_objects(info: WebsiteInfo) -> Iterator[Mapping[str, Any]]:
    """The objects of the structured data, those inside `@graph` and properties included."""
    stack: list[Any] = list(info.json_ld)
    seen = 0
    while stack and seen < 500:
        seen += 1
        thing = stack.pop(0)
        if isinstance(thing, list):
            stack = [*thing, *stack]
        elif isinstance(thing, Mapping):
            if "@type" in thing:
                yield thing
            stack = [*(value for value in thing.values() if isinstance(value, dict | list)), *stack]


def types_of(thing: Mapping[str, Any]) -> set[str]:
    """The types of a structured object."""
    found = thing.get("@type")
    return {str(one) for one in found} if isinstance(found, list) else {str(found)}


def quote_structured_data(info: WebsiteInfo, text: str) -> Source:
    """The source of a value of the structured data."""
    return Source("structured", text[:LONGEST], info.final_url)
