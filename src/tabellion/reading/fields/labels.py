"""Finds labels: which words of a line announce which field. One lexicon for all fields, the longest match wins."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from tabellion.reading.fields.layout import Line
from tabellion.reading.fields.values import fold_in_place

_TOKEN = re.compile(r"[^\W_]+|#|%|°|№")
#: Words after a label that belong to it: "(Inclusive of GST @ 6%)", "ohne USt.".
_TAIL = re.compile(
    r"(?:\s*(?:sales?|amount|rm|myr|eur|usd))?[\s(\[.:,-]*\b(?:(?P<with>incl?\w{0,8}|inkl\w*|including|mit|avec|ttc|after)|"
    r"(?P<without>excl?\w{0,8}|exkl\w*|ohne|hors|before|without|sans|ht|net of))\b[.,]?(?:\s*(?:of|de|la|der|les))?"
    r"(?:\s*(?:gst|sst|vat|tva|ust|mwst|tax(?:es)?|taxes?|steuer|umsatzsteuer|mehrwertsteuer))?\s*(?:@?\s*\d{1,2}\s?%)?[\s.)\]]*"
)
_LETTERS = str.maketrans("0158", "olsb")  # digits that OCR reads for letters
_JOINED = 3  # words that may be joined in print: "InvoiceNo", "Rechnungs-Nr"


@dataclass(frozen=True, slots=True)
class Label:
    """A label on a line."""

    field: str  #: which field it announces; "" for words that only look like a label
    line: Line
    start: int
    end: int
    phrase: str
    exact: bool = True
    taxed: bool | None = None  #: True with "incl. GST" after it, False with "excl. USt."

    @property
    def leads(self) -> bool:
        """Whether only marks are before it on its line."""
        return not re.search(r"\w", self.line.text[: self.start])


@dataclass(slots=True)
class Lexicon:
    """Every phrase that announces a field, indexed for search in lines."""

    phrases: dict[tuple[str, ...], str] = field(default_factory=dict)
    _longest: int = 1
    _joined: dict[str, tuple[str, ...]] = field(default_factory=dict)
    _worn: dict[str, tuple[str, ...]] = field(default_factory=dict)  #: every phrase with any one letter left out

    @classmethod
    def of(cls, labels: Mapping[str, Iterable[str]]) -> Lexicon:
        """Builds it from phrases by field; the field "" holds phrases that are not labels."""
        lexicon = cls()
        for name, phrases in labels.items():
            for text in phrases:
                tokens = tuple(token for token, _, _ in tokens_of(text))
                if len("".join(tokens)) > 1 and not (tokens in lexicon.phrases and name == ""):
                    lexicon.phrases[tokens] = name
        lexicon._longest = max(map(len, lexicon.phrases), default=1)
        lexicon._joined = {"".join(tokens): tokens for tokens in lexicon.phrases if len("".join(tokens)) >= 4}
        for joined, phrase in lexicon._joined.items():
            if len(joined) >= 5:
                for worn in (joined, *_shorter(joined)):
                    lexicon._worn.setdefault(worn, phrase)
        return lexicon

    def find(self, line: Line) -> Iterator[Label]:
        """The labels of a line, from left to right, none inside another."""
        plain = fold_in_place(line.text)
        tokens = list(tokens_of(line.text))
        at = 0
        while at < len(tokens):
            match = self._match(tokens, at, worn=line.source == "ocr")
            if match is None:
                at += 1
                continue
            size, phrase, exact = match
            start, end = tokens[at][1], tokens[at + size - 1][2]
            at += size
            taxed = None
            if tail := _TAIL.match(plain, end):
                taxed, end = tail["with"] is not None, tail.end()
                while at < len(tokens) and tokens[at][1] < end:
                    at += 1
            yield Label(self.phrases[phrase], line, start, end, " ".join(phrase), exact, taxed)

    def _match(
        self, tokens: list[tuple[str, int, int]], at: int, *, worn: bool
    ) -> tuple[int, tuple[str, ...], bool] | None:
        for size in range(min(self._longest, len(tokens) - at), 0, -1):
            words = tuple(token for token, _, _ in tokens[at : at + size])
            if words in self.phrases:
                return size, words, True
            if size <= _JOINED and (phrase := self._joined.get("".join(words))):
                return size, phrase, True
        if not worn:
            return None
        for size in range(min(_JOINED, len(tokens) - at), 0, -1):
            words = tuple(token for token, _, _ in tokens[at : at + size])
            joined = "".join(words)
            if not joined.isdigit() and any(map(str.isdigit, joined)):
                joined = joined.translate(_LETTERS)
                if phrase := self._joined.get(joined):
                    return size, phrase, False
            if len(joined) >= 5 and joined.isalpha() and (phrase := self._near(joined)):
                return size, phrase, False
        return None

    def _near(self, joined: str) -> tuple[str, ...] | None:
        """The phrase that differs by one misread, lost or added letter."""
        for worn in (joined, *_shorter(joined)):
            if phrase := self._worn.get(worn):
                return phrase
        return None


def tokens_of(text: str) -> Iterator[tuple[str, int, int]]:
    """Folded words with their start and end."""
    for match in _TOKEN.finditer(fold_in_place(text)):
        yield match.group(), match.start(), match.end()


def _shorter(text: str) -> Iterator[str]:
    """The text with each one of its letters left out."""
    return (text[:place] + text[place + 1 :] for place in range(len(text)))
