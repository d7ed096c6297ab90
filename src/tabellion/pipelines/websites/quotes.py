"""Finds quotes on a website: models quote, and what is not on its pages is ungrounded."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

from tabellion.pipelines.websites.result import Source, SourceKind
from tabellion.pipelines.websites.site.info import WebsiteInfo

SHORTEST = 3  #: letters and digits that a quote must have to prove anything
LONGEST = 500  #: characters of a quote that are searched
_SAME = str.maketrans(
    {"‘": "'", "’": "'", "‚": "'", "“": '"', "”": '"', "„": '"', "«": '"', "»": '"', "–": "-", "—": "-", "‑": "-",
     "\u00ad": None, "\u200b": None}
)  # fmt: skip
_ELLIPSIS = re.compile(r"\[?…\]?|\[?\.\.\.\]?")


@dataclass(frozen=True, slots=True)
class _Place:
    kind: SourceKind
    page: str
    text: str
    plain: str  #: the text as it is compared
    offsets: tuple[int, ...]  #: of each character of `plain` in the text


class QuoteFinder:
    """Searches the texts of a website, then its titles, descriptions, headings and other facts."""

    def __init__(self, info: WebsiteInfo) -> None:
        self._places = [_Place(kind, page, text, *fold(text)) for kind, page, text in _texts(info) if text.strip()]

    def locate(self, quote: str | None) -> Source | None:
        """The source of a quote: where it is, or that it was not found; None if there is no quote."""
        text = " ".join((quote or "").split())[:LONGEST]
        if not text:
            return None
        # A quote with an ellipsis is found by its longest part: the parts may be far from each other.
        parts = sorted((part.strip() for part in _ELLIPSIS.split(text) if part.strip()), key=len, reverse=True)
        wanted = fold(parts[0] if parts else text)[0].strip(" \"'.,;:")
        if sum(sign.isalnum() for sign in wanted) >= SHORTEST:
            for place in self._places:
                at = _find_words(place.plain, wanted)
                if at is not None:
                    start, end = place.offsets[at], place.offsets[at + len(wanted) - 1] + 1
                    found = " ".join(place.text[start:end].split())
                    return Source(place.kind, found, place.page, *((start, end) if place.kind == "text" else ()))
        return Source("ungrounded", text)


def fold(text: str) -> tuple[str, tuple[int, ...]]:
    """The text as quotes are compared (small letters, plain quotes and dashes, single blanks), with offsets."""
    plain: list[str] = []
    offsets: list[int] = []
    for place, sign in enumerate(text):
        folded = unicodedata.normalize("NFKC", sign.translate(_SAME)).casefold()
        for letter in folded:
            if letter.isspace():
                if plain and plain[-1] != " ":
                    plain.append(" ")
                    offsets.append(place)
            else:
                plain.append(letter)
                offsets.append(place)
    return "".join(plain), tuple(offsets)


def _find_words(text: str, wanted: str) -> int | None:
    """Where whole words are: `art` is not in `start`."""
    at = text.find(wanted)
    while at >= 0:
        before, after = text[at - 1 : at], text[at + len(wanted) : at + len(wanted) + 1]
        if not (before.isalnum() and wanted[0].isalnum()) and not (after.isalnum() and wanted[-1].isalnum()):
            return at
        at = text.find(wanted, at + 1)
    return None


def _texts(info: WebsiteInfo) -> Iterator[tuple[SourceKind, str, str]]:
    for page in info.pages:
        yield "text", page.url, page.text
    if not any(page.text == info.text for page in info.pages):
        yield "text", info.final_url, info.text
    for page in info.pages:
        yield "text_around", page.url, page.text_around
    for page in info.pages:
        yield "title", page.url, page.title
        yield "title", page.url, page.page_title
        yield "description", page.url, page.description
        for heading in page.headings:
            yield "heading", page.url, heading.text
    yield "title", info.final_url, info.title
    yield "description", info.final_url, info.description
    for link in (*info.links.internal, *info.links.external):
        yield "link", info.final_url, link.text
    for contact in (*info.contacts.emails, *info.contacts.phones, *info.contacts.addresses):
        yield "contact", contact.page, contact.value
