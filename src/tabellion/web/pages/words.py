"""The words of the pages in every language there is; each page keeps its own in words_<page>.py."""

from __future__ import annotations

import functools
import importlib
import pkgutil
import re
from collections.abc import Iterable
from typing import Any

from tabellion.pipeline import installed
from tabellion.web import pages
from tabellion.web.pages.words_sentences import SENTENCES

LANGUAGES = {"en": "English", "fr": "Français"}
DEFAULT = "en"
#: Where French wants a space at which no line is broken.
_TIED = re.compile(r" (?=[:;?!%»])|(?<=«) ")


@functools.cache
def catalogue() -> dict[str, dict[str, str]]:
    """The words of our own pages and of every installed pipeline; a key said twice would mean two things."""
    found: dict[str, dict[str, str]] = {language: {} for language in LANGUAGES}
    own = sorted(one.name for one in pkgutil.iter_modules(pages.__path__) if one.name.startswith("words_"))
    modules = [importlib.import_module(f"{pages.__name__}.{name}") for name in own]
    blueprints = [made for one in installed().values() if (made := one.blueprint()) is not None]
    for module in (*modules, *(module for one in blueprints for module in one.words)):
        given = getattr(module, "WORDS", {})  # sentences have none
        for language, words in given.items():
            twice = words.keys() & found[language].keys()
            if twice:
                raise ValueError(f"{module.__name__} says {', '.join(sorted(twice))} again")
            found[language] |= words
    return found | {"fr": tied(found["fr"])}


def tied(words: dict[str, str]) -> dict[str, str]:
    """French as it is printed: with a space that no line ends at before : ; ? ! % and within quotes."""
    return {key: _TIED.sub("\N{NO-BREAK SPACE}", text) for key, text in words.items()}


#: What the reader, the rules and the server say, by its English words; English needs none.
SPOKEN: dict[str, dict[str, str]] = {"en": {}, "fr": tied(SENTENCES)}


def say(language: str, key: str, **facts: Any) -> str:
    """The words of a key with its facts filled in; where `n` is one, those of `key.one` if there are such."""
    words = catalogue()[language]
    if "n" in facts and f"{key}.one" in words and _is_one(language, facts["n"]):
        key = f"{key}.one"
    text = words[key]
    for name, value in facts.items():
        text = text.replace(f"{{{name}}}", str(value))
    return text


def chosen(language: str, prefixes: Iterable[str]) -> dict[str, str]:
    """The words that a page's script may need: those whose keys begin with one of these and a dot."""
    starts = tuple(f"{prefix}." for prefix in prefixes)
    return {key: text for key, text in catalogue()[language].items() if key.startswith(starts)}


def accepted(header: str) -> str:
    """The language of an Accept-Language header that we speak, the most wanted first."""
    wanted: list[tuple[float, int, str]] = []
    for place, part in enumerate(header.split(",")[:20]):
        tag, _, weight = part.strip().partition(";q=")
        try:
            quality = float(weight) if weight else 1.0
        except ValueError:
            continue
        language = tag.strip().lower().partition("-")[0]
        if language in LANGUAGES and quality > 0:
            wanted.append((-quality, place, language))
    return min(wanted)[2] if wanted else DEFAULT


def _is_one(language: str, n: Any) -> bool:
    return bool(n == 1 or (language == "fr" and n == 0))
