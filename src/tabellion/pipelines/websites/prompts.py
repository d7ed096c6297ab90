"""Writes the prompts of a website: facts and the most relevant passages, within the type's budget of tokens."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from tabellion.messages import LANGUAGES
from tabellion.pipelines.websites.analysis_type import AnalysisType
from tabellion.pipelines.websites.analysis_type_file import PLACEHOLDER
from tabellion.pipelines.websites.relevance import count_tokens, trim_text
from tabellion.pipelines.websites.site.info import WebsiteInfo

MOST_LISTED = 12  #: headings, links and contacts each
LONGEST_FACT = 300  #: characters
FACTS_SHARE = 0.4  #: of the budget that facts may use
ENGLISH = {"en": "English", "fr": "French"}  #: languages as prompts name them


@dataclass(frozen=True, slots=True)
class Prompt:
    """What a model is sent, and how it came about."""

    system: str
    user: str
    schema: Mapping[str, Any]
    type: str
    version: str
    digest: str  #: of the type's file
    budget: int
    tokens: int  #: of everything that is sent, as estimated
    passages: int  #: of the website's text that are in it
    of: int  #: that there were
    answer: int  #: tokens that the answer may have

    def as_json(self) -> bytes:
        """The prompt as it is stored."""
        return json.dumps(asdict(self), ensure_ascii=False, indent=1).encode()

    @classmethod
    def from_json(cls, data: bytes) -> Prompt:
        """Restores a stored prompt."""
        return cls(**json.loads(data))


def form_prompt(kind: AnalysisType, info: WebsiteInfo, language: str = "en") -> Prompt:
    """The prompt for a website; text is left out, the least relevant first, until it fits the budget."""
    values = {
        "url": info.final_url, "language": ENGLISH.get(language, LANGUAGES.get(language, language)), "facts": "",
        "text": "",
    }  # fmt: skip
    schema = kind.json_schema()
    fixed = sum(map(count_tokens, (_fill(kind.system, values), _fill(kind.user, values), json.dumps(schema))))
    room = max(0, kind.budget - fixed)
    values["facts"] = _fit(list(describe_facts(info)), int(room * FACTS_SHARE)) if "{facts}" in kind.user else ""
    trimmed = trim_text(info, max(0, room - count_tokens(values["facts"])), kind.relevance)
    values["text"] = trimmed.text
    system, user = _fill(kind.system, values), _fill(kind.user, values)
    return Prompt(
        system, user, schema, kind.name, kind.version, kind.digest, kind.budget,
        tokens=count_tokens(system) + count_tokens(user) + count_tokens(json.dumps(schema)),
        passages=trimmed.passages, of=trimmed.of, answer=kind.answer,
    )  # fmt: skip


def describe_facts(info: WebsiteInfo) -> Iterator[str]:
    """What was read beside the text, the most telling facts first."""
    for name, value in (
        ("Title", info.page_title or info.title), ("Description", info.description), ("Site name", info.site_name),
        ("Language", info.language), ("Canonical URL", info.canonical),
    ):  # fmt: skip
        if value:
            yield f"{name}: {_short(value)}"
    yield f"HTTP status {info.status}" + (f", after {len(info.redirects)} redirects" if info.redirects else "")
    if info.tls is not None:
        yield f"Certificate: {info.tls.subject}, by {info.tls.issuer}, valid until {info.tls.valid_until}"
    else:
        yield "Not encrypted: plain HTTP"
    for heading in info.headings[:MOST_LISTED]:
        yield f"Heading {heading.level}: {_short(heading.text)}"
    for contact in (*info.contacts.emails, *info.contacts.phones, *info.contacts.addresses)[:MOST_LISTED]:
        yield f"Contact: {_short(contact.value)}"
    for profile in info.social[:MOST_LISTED]:
        yield f"Social profile: {profile.network} {profile.url}"
    for link in info.links.internal[:MOST_LISTED]:
        if link.text:
            yield f"Link: {_short(link.text)} ({link.url})"
    for name, value in list(info.open_graph.items())[:MOST_LISTED]:
        yield f"Open Graph {name}: {_short(value)}"
    for thing in info.json_ld[:3]:
        yield f"Structured data: {_short(json.dumps(thing, ensure_ascii=False))}"
    for name, value in list(info.headers.items())[:MOST_LISTED]:
        yield f"Header {name}: {_short(value)}"
    yield f"Links: {info.links.internal_count} internal, {info.links.external_count} external"
    names = ", ".join(technology.name for technology in info.technologies[:MOST_LISTED])
    if names:
        yield f"Technologies: {names}"
    for issue in info.issues:
        yield f"Note: {_short(str(issue))}"


def _fit(lines: list[str], budget: int) -> str:
    """As many of the first lines as fit."""
    kept: list[str] = []
    for line in lines:
        budget -= count_tokens(line) + 1
        if budget < 0:
            break
        kept.append(line)
    return "\n".join(kept)


def _fill(template: str, values: Mapping[str, str]) -> str:
    return PLACEHOLDER.sub(lambda hole: values.get(hole[1], hole[0]), template)


def _short(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= LONGEST_FACT else f"{flat[: LONGEST_FACT - 1]}…"
