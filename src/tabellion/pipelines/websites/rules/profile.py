"""Describes an organisation by rules: its name, what it does, what it offers, for whom, and its tone."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from tabellion.pipelines.websites.result import ResultItem, Source
from tabellion.pipelines.websites.rules.passages import (
    LONGEST,
    quote_structured_data,
    sentences,
    structured_objects,
    types_of,
)
from tabellion.pipelines.websites.site.info import PageInfo, WebsiteInfo

ORGANISATIONS = re.compile(r"(Organization|Corporation|Business|Store|Restaurant|NGO|School|Agency|Company|Hotel)$")
OFFERS = {"Product", "Service", "Offer", "Course", "SoftwareApplication", "MenuItem"}
#: Titles and addresses of pages and headings above what an organisation sells.
OFFERING = re.compile(
    r"\b(services?|solutions?|products?|offer(?:ing)?s?|what we do|expertise|features?|plans?|pricing|menu|shop"
    r"|prestations?|produits?|offres?|nos métiers|savoir-faire|tarifs?|boutique|leistungen|produkte|angebot)\b",
    re.IGNORECASE,
)
ABOUT = re.compile(
    r"\b(we (?:are|make|build|help|offer|provide|design|sell|run|specialis|specializ)|our (?:company|mission|team)"
    r"|is an? |are an? |nous (?:sommes|proposons|concevons|aidons|accompagnons|fabriquons|offrons)|notre mission"
    r"|wir (?:sind|bieten|helfen|entwickeln))",
    re.IGNORECASE,
)
AUDIENCE = re.compile(
    r"\b(?:designed for|built for|made for|tailored to|aimed at|helps?|serving|for|pour|destiné(?:e|s|es)? aux?"
    r"|conçu(?:e|s|es)? pour|accompagnons|für)\s{1,4}"
    r"(?P<who>(?:(?:small|medium|large|local|independent|young|growing|busy|les|des|la|le|petites|grandes|jeunes"
    r"|and|or|et|ou|kleine|junge)\s{1,4}|[\w’'-]{1,40},\s{1,4}){0,8}"
    r"(?:businesses|companies|teams|developers|designers|families|students|teachers|schools|startups|start-ups|agencies|"
    r"restaurants|retailers|professionals|homeowners|nonprofits|charities|municipalities|hospitals|patients|children|"
    r"parents|travellers|travelers|freelancers|enterprises|organisations|organizations|customers|engineers|lawyers|"
    r"notaries|accountants|farmers|shops|hotels|couples|beginners|bakers|collectors|musicians|"
    r"entreprises|PME|particuliers|professionnels|familles|étudiants|écoles|artisans|commerçants|collectivités|"
    r"associations|agences|enfants|développeurs|notaires|comptables|agriculteurs|restaurateurs|débutants|"
    r"Unternehmen|Familien|Schulen|Vereine)"
    r"(?:\s{1,4}(?:and|et|und)\s{1,4}(?:(?:les|des|la|le|aux|die|the)\s{1,4})?[\w-]+)?)",
    re.IGNORECASE,
)
FOUNDED = re.compile(
    r"\b(?:founded|established|since|est\.|fondée?s?|créée?s?|depuis|gegründet|seit)\s+(?:in\s+|en\s+|im\s+)?"
    r"(?P<year>(?:1[6-9]|20)\d\d)\b",
    re.IGNORECASE,
)
FRIENDLY = re.compile(
    r"\b(hi|hello|hey|welcome|love|fun|happy|we[’']re|you[’']ll|let[’']s|bonjour|bienvenue|envie|avec plaisir|ensemble"
    r"|hallo|willkommen)\b|😀|🎉|❤",
    re.IGNORECASE,
)
PROMOTIONAL = re.compile(
    r"!|\b(best|leading|unique|amazing|exclusive|discount|free|now|save|deal|offer|guarantee|meilleure?s?|leader"
    r"|exclusif|promo|gratuite?s?|offre|profitez|garantie?s?)\b",
    re.IGNORECASE,
)
TECHNICAL = re.compile(
    r"\b(API|SDK|open source|protocol|integration|deploy|framework|database|latency|throughput|specification|engine"
    r"|architecture|algorithm|norme|protocole|intégration|déploiement|base de données|spécification)\b"
)
FORMAL = re.compile(
    r"\b(pursuant|hereby|regulation|committee|ministry|accredited|jurisdiction|veuillez|arrêté|ministère|règlement"
    r"|commission|conformément|agréée?s?|soussignée?s?|gemäß)\b",
    re.IGNORECASE,
)
LEAST_MARKS = 2  #: of a tone; below that it is neutral
MOST_OFFERS, MOST_AUDIENCES = 12, 8


def describe(info: WebsiteInfo) -> dict[str, tuple[ResultItem, ...]]:
    """The fields of the type `profile`."""
    organisation = next(
        (thing for thing in structured_objects(info) if any(map(ORGANISATIONS.search, types_of(thing)))), {}
    )
    return {
        "name": _first(_names(info, organisation)),
        "summary": _first(_summaries(info, organisation)),
        "offer": _distinct(_offers(info))[:MOST_OFFERS],
        "audience": _distinct(_audiences(info))[:MOST_AUDIENCES],
        "tone": (_tone(info),) if any(page.text for page in info.pages) else (),
        "location": _first(_locations(info, organisation)),
        "founded": _first(_years(info, organisation)),
    }


def _names(info: WebsiteInfo, organisation: Any) -> Iterator[ResultItem]:
    if isinstance(organisation.get("name"), str):
        yield ResultItem(organisation["name"], (quote_structured_data(info, organisation["name"]),))
    for name in (info.open_graph.get("og:site_name") or info.open_graph.get("site_name"), info.site_name):
        if name:
            yield ResultItem(name, (quote_structured_data(info, name),))
    if info.title:
        # "Home | Name" and "Name: what it does" both occur; the part that headings or the domain repeat is the name.
        parts = [part.strip() for part in re.split(r"\s[|–—·:-]\s|: ", info.title) if part.strip()]
        host = re.sub(r"\W", "", info.final_url.split("/")[2].removeprefix("www.").rpartition(".")[0]).casefold()
        best = next((part for part in parts if re.sub(r"\W", "", part).casefold() in host or host in part), parts[0])
        yield ResultItem(best, (Source("title", info.title, info.final_url),))


def _summaries(info: WebsiteInfo, organisation: Any) -> Iterator[ResultItem]:
    for text in (info.description, info.open_graph.get("og:description") or info.open_graph.get("description")):
        if text and len(text) >= 40:
            yield ResultItem(text, (Source("description", text, info.final_url),))
    if isinstance(organisation.get("description"), str):
        yield ResultItem(organisation["description"], (quote_structured_data(info, organisation["description"]),))
    found = [(text, source) for text, source in sentences(info) if 40 <= len(text) <= LONGEST]
    for text, source in found:
        if ABOUT.search(text):
            yield ResultItem(text, (source,))
    for text, source in found:
        yield ResultItem(text, (source,))
    if info.title:
        yield ResultItem(info.title, (Source("title", info.title, info.final_url),))


def _offers(info: WebsiteInfo) -> Iterator[ResultItem]:
    for thing in structured_objects(info):
        name = thing.get("name")
        if types_of(thing) & OFFERS and isinstance(name, str):
            yield ResultItem(name, (quote_structured_data(info, name),))
    for page in info.pages:
        yield from _headings_below(page)
    for link in info.links.internal:
        path = link.url.split("/", 3)[-1]
        if OFFERING.search(path.replace("-", " ")) and "/" in path.strip("/") and 3 < len(link.text) <= 60:
            yield ResultItem(link.text, (Source("link", link.text, info.final_url),))


def _headings_below(page: PageInfo) -> Iterator[ResultItem]:
    """The headings below one that announces an offer, or all lower ones of a page that is about it."""
    about = OFFERING.search(page.url.split("/", 3)[-1].replace("-", " ")) or OFFERING.search(page.title.split("|")[0])
    above = 1 if about and page.found != "home" else 0
    for heading in page.headings:
        if above and heading.level <= above:
            above = 0
        if above and heading.level > above and 3 < len(heading.text) <= 80:
            yield ResultItem(heading.text, (Source("heading", heading.text, page.url),))
        elif OFFERING.search(heading.text) and len(heading.text) <= 60:
            above = above or heading.level


def _audiences(info: WebsiteInfo) -> Iterator[ResultItem]:
    for text, source in [(info.description, Source("description", info.description, info.final_url)), *sentences(info)]:
        for match in AUDIENCE.finditer(text):
            yield ResultItem(re.sub(r"^(les|des|la|le)\s+", "", " ".join(match["who"].split())), (source,))


def _tone(info: WebsiteInfo) -> ResultItem:
    """The tone with the most marks for each hundred words; the first mark is its source."""
    words = max(100, sum(len(page.text.split()) for page in info.pages))
    best, source, most = "neutral", (), 0.0
    for tone, pattern in (
        ("formal", FORMAL), ("technical", TECHNICAL), ("friendly", FRIENDLY), ("promotional", PROMOTIONAL),
    ):  # fmt: skip
        found = [source for text, source in sentences(info) for _ in pattern.finditer(text)]
        share = len(found) * 100 / words / (2 if tone == "promotional" else 1)
        if len(found) >= LEAST_MARKS and share > max(most, 0.2):
            best, source, most = tone, (found[0],), share  # type: ignore[assignment]
    return ResultItem(best, source)


def _locations(info: WebsiteInfo, organisation: Any) -> Iterator[ResultItem]:
    for thing in (organisation, *structured_objects(info)):
        address = thing.get("address")
        if isinstance(address, dict):
            keys = ("streetAddress", "postalCode", "addressLocality", "addressRegion", "addressCountry")
            parts = [value for key in keys if isinstance(value := address.get(key), str) and value]
            if parts:
                yield ResultItem(", ".join(parts), (quote_structured_data(info, ", ".join(parts)),))
        elif isinstance(address, str) and address:
            yield ResultItem(address, (quote_structured_data(info, address),))
    for contact in info.contacts.addresses:
        yield ResultItem(contact.value, (Source("contact", contact.value, contact.page),))


def _years(info: WebsiteInfo, organisation: Any) -> Iterator[ResultItem]:
    year = str(organisation.get("foundingDate") or "")[:4]
    if year.isdigit():
        yield ResultItem(year, (quote_structured_data(info, str(organisation["foundingDate"])),))
    for text, source in sentences(info):
        if match := FOUNDED.search(text):
            yield ResultItem(match["year"], (source,))


def _first(items: Iterator[ResultItem]) -> tuple[ResultItem, ...]:
    return tuple(item for item, _ in zip(items, range(1), strict=False))


def _distinct(items: Iterable[ResultItem]) -> tuple[ResultItem, ...]:
    found: dict[str, ResultItem] = {}
    for item in items:
        found.setdefault(" ".join(str(item.value).casefold().split()), item)
    return tuple(found.values())
