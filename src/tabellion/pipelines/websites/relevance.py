"""Trims the text of a website to a budget of tokens: the most relevant passages stay, in their order."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from tabellion.pipelines.websites.site.info import WebsiteInfo

LONGEST_PASSAGE = 1200  #: characters; longer paragraphs are divided
GAP = "[…]"  #: stands for what was left out
_WORD = re.compile(r"\w+")
_SENTENCE = re.compile(r"(?<=[.!?…])\s+")
_WIDE = re.compile(r"[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0002ffff]")


def count_tokens(text: str) -> int:
    """An estimate of the tokens of a text that is rather too high: a budget must hold with every model."""
    wide = len(_WIDE.findall(text))
    words = sum(max(1, math.ceil(len(word) / 4)) for word in _WORD.findall(_WIDE.sub(" ", text)))
    marks = sum(not sign.isalnum() and not sign.isspace() for sign in text)
    return wide + words + math.ceil(marks / 2) + text.count("\n")


@dataclass(frozen=True, slots=True)
class Passage:
    """A piece of a page's text."""

    page: int
    number: int  #: its place on the page
    text: str
    tokens: int


@dataclass(frozen=True, slots=True)
class TrimmedText:
    """What is left of a website's text."""

    text: str
    tokens: int
    passages: int  #: that were kept
    of: int  #: that there were


def trim_text(info: WebsiteInfo, budget: int, relevance: Sequence[str] = ()) -> TrimmedText:
    """The passages of all pages that fit the budget, each page under its URL."""
    texts = [page.text for page in info.pages]
    heads = [f"# {page.url}" + (f" ({page.title})" if page.title else "") for page in info.pages]
    if around := _join_around(info):
        texts.append(around)
        heads.append("# Headers and footers of the pages")
    passages = [passage for number, text in enumerate(texts) for passage in divide(text, number)]
    scores = _score(passages, info, relevance)
    kept: set[Passage] = set()
    left = budget
    opened: set[int] = set()
    for passage in sorted(passages, key=lambda one: scores[one], reverse=True):
        # A passage may also need its page's heading, and a gap before and after it.
        cost = passage.tokens + 4 + (0 if passage.page in opened else count_tokens(heads[passage.page]) + 2)
        if cost <= left:
            left -= cost
            kept.add(passage)
            opened.add(passage.page)
    text = _join(passages, kept, heads)
    return TrimmedText(text, count_tokens(text), len(kept), len(passages))


def _join_around(info: WebsiteInfo) -> str:
    """What surrounds the main texts, each line once: the pages of a site share their footer."""
    return "\n".join(dict.fromkeys(line for page in info.pages for line in page.text_around.split("\n") if line))


def divide(text: str, page: int = 0) -> list[Passage]:
    """The passages of a text: its paragraphs, long ones divided between sentences; repeated ones once."""
    found: dict[str, Passage] = {}
    for paragraph in re.split(r"\n+", text):
        piece = ""
        for sentence in _SENTENCE.split(" ".join(paragraph.split())):
            while len(sentence) > LONGEST_PASSAGE:
                _add(found, page, piece)
                piece, sentence = "", _cut(found, page, sentence)
            if piece and len(piece) + len(sentence) > LONGEST_PASSAGE:
                _add(found, page, piece)
                piece = ""
            piece = f"{piece} {sentence}".strip()
        _add(found, page, piece)
    return list(found.values())


def _cut(found: dict[str, Passage], page: int, sentence: str) -> str:
    """Adds the beginning of a sentence that is longer than a passage; returns the rest."""
    at = sentence.rfind(" ", 0, LONGEST_PASSAGE)
    at = at if at > 0 else LONGEST_PASSAGE
    _add(found, page, sentence[:at])
    return sentence[at:].strip()


def _add(found: dict[str, Passage], page: int, text: str) -> None:
    if text and text not in found:
        found[text] = Passage(page, len(found), text, count_tokens(text))


def _score(passages: Sequence[Passage], info: WebsiteInfo, relevance: Sequence[str]) -> dict[Passage, float]:
    """How relevant each passage is: rare words that were asked for, on an early page, early on it."""
    asked = Counter(_words(" ".join(relevance)))
    asked.update(set(_words(f"{info.title} {info.description}")))
    words = {passage: set(_words(passage.text)) for passage in passages}
    frequency = Counter(word for found in words.values() for word in found if word in asked)
    scores = {}
    for passage, found in words.items():
        matched = sum(
            math.log(1 + (len(passages) + 1) / frequency[word]) * min(asked[word], 2) for word in found if word in asked
        )
        length = max(len(found), 8)
        early = 1.5 / (1 + passage.number / 3) + (1.0 if passage.page == 0 else 0.4 / passage.page)
        scores[passage] = matched / math.sqrt(length) + early
    return scores


def _words(text: str) -> list[str]:
    return [word for word in _WORD.findall(text.casefold()) if len(word) > 1]


def _join(passages: Sequence[Passage], kept: set[Passage], heads: Sequence[str]) -> str:
    lines: list[str] = []
    page = -1
    for passage in passages:
        if passage not in kept:
            if lines and lines[-1] != GAP and passage.page == page:
                lines.append(GAP)
            continue
        if passage.page != page:
            page = passage.page
            lines += ["", heads[page]] if lines else [heads[page]]
            if passage.number > 0:
                lines.append(GAP)
        lines.append(passage.text)
    return "\n".join(lines)
