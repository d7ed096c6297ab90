"""Indexes the words of a document for search: streams of characters with their words, and the numbers."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator, Sequence
from datetime import date
from functools import cached_property

from tabellion.reading.grounding.variants import CONFUSED, days_in, fold
from tabellion.reading.page import Box, Page, Word, around

Places = tuple[int, ...]  #: words, as positions in the document
#: Folded letters that OCR and people confuse with digits.
ALIKE = str.maketrans({"o": "0", "q": "0", "l": "1", "i": "1", "z": "2", "s": "5", "b": "8", "g": "9"})
NEAR = 0.6  #: of its height: how far the next group of a number may be
NOBODY = 2**32 - 1  #: owns the line end between two pages
INNER = ".,'’/-"  #: between two digits they continue a number or a date
HYPHENS = "-‐‑\u00ad"
RUN = re.compile(r"\d(?:[\d.,'’]*\d)?")
GROUP = re.compile(r"(\d{3}(?:[.,]\d++)?)(?![\d.,]*\d)")  #: of a number with spaces between its thousands
BEGUN = re.compile(r"(?<![\d.,])\d{1,3}$")
#: A possible number with letters that OCR read for digits.
DOUBTFUL = re.compile(r"[-+(€$£]*[\dOoQDlIiZzSsBgqεЗОоб|!][\dOoQDlIiZzSsBgqεЗОоб|!.,'’]*[)€$£%-]*")


class Stream:
    """All characters of the document after some folding, without white space, each with its word."""

    def __init__(self, extents: Sequence[tuple[int, int]], pieces: Sequence[str]) -> None:
        owners = array("L")
        for at, piece in enumerate(pieces):
            owners.extend([at] * len(piece))
        # A line end between pages, so that nothing is found across them.
        self.text = "\n".join("".join(pieces[start:end]) for start, end in extents)
        self.owners = owners
        at = 0
        for start, end in extents[:-1]:
            at += sum(map(len, pieces[start:end]))
            owners.insert(at, NOBODY)
            at += 1

    def find(self, needle: str) -> Iterator[tuple[int, int]]:
        """The positions of the needle outside of longer words and numbers."""
        at = self.text.find(needle) if needle else -1
        while at >= 0:
            end = at + len(needle)
            if self.is_separate(at, end):
                yield at, end
            at = self.text.find(needle, at + 1)

    def is_separate(self, start: int, end: int) -> bool:
        """Whether a span is not a part of a longer word or number."""
        return self._free(start - 1, start) and self._free(end, end - 1)

    def places(self, start: int, end: int) -> Places:
        """The words that a span of characters touches."""
        return tuple(range(self.owners[start], self.owners[end - 1] + 1))

    def edge(self, at: int) -> bool:
        """Whether a word ends or starts before this character."""
        return at in (0, len(self.text)) or self.owners[at - 1] != self.owners[at]

    def _free(self, outside: int, inside: int) -> bool:
        if not 0 <= outside < len(self.text) or self.owners[outside] != self.owners[inside]:
            return True
        other, own = self.text[outside], self.text[inside]
        if own.isdigit() and other in INNER:
            beyond = 2 * outside - inside
            other = self.text[beyond] if 0 <= beyond < len(self.text) else ""
            return not (other.isdigit() and self.owners[beyond] == self.owners[inside])
        return not (other.isalnum() and own.isalnum())


class Index:
    """The words of some pages, indexed once for many values."""

    def __init__(self, pages: Sequence[Page]) -> None:
        self.pages = tuple(pages)
        self.words: list[Word] = []
        self.homes = array("L")  #: the page number of each word
        self.extents: list[tuple[int, int]] = []
        self.shapes = {page.number: page.height / page.width if page.width else 1.0 for page in self.pages}
        for page in self.pages:
            start = len(self.words)
            self.words.extend(page.words)
            self.homes.extend([page.number] * len(page.words))
            self.extents.append((start, len(self.words)))

    @cached_property
    def exact(self) -> Stream:
        """The characters as they are."""
        return Stream(self.extents, ["".join(word.text.split()) for word in self.words])

    @cached_property
    def _joined_texts(self) -> list[str]:
        return [self._join(at, "".join(word.text.split())) for at, word in enumerate(self.words)]

    @cached_property
    def _folded_texts(self) -> list[str]:
        return ["".join(fold(text).split()) for text in self._joined_texts]

    @cached_property
    def _bare_texts(self) -> list[str]:
        return [text if text.isalnum() else letters(text) for text in self._folded_texts]

    @cached_property
    def unbroken_stream(self) -> Stream:
        """The characters with words joined that are divided at a line end."""
        return Stream(self.extents, self._joined_texts)

    @cached_property
    def folded_stream(self) -> Stream:
        """The characters without case, accents and typography."""
        return Stream(self.extents, self._folded_texts)

    @cached_property
    def bare_stream(self) -> Stream:
        """Letters and digits only."""
        return Stream(self.extents, self._bare_texts)

    @cached_property
    def confusable_stream(self) -> Stream:
        """Letters and digits, where those that OCR confuses are the same."""
        return Stream(self.extents, [self.confuse(text) for text in self._bare_texts])

    @cached_property
    def days(self) -> dict[date, list[Places]]:
        """The places of each date, in any notation."""
        found: dict[date, list[Places]] = {}
        stream = self.folded_stream
        for start, end, day in days_in(stream.text):
            if stream.is_separate(start, end):
                found.setdefault(day, []).append(stream.places(start, end))
        return {day: sorted(set(places)) for day, places in found.items()}

    @staticmethod
    def confuse(text: str) -> str:
        """Replaces letters by the digits that OCR confuses with them."""
        return text.translate(ALIKE)

    @cached_property
    def starts(self) -> dict[str, list[int]]:
        """The positions of each word."""
        found: dict[str, list[int]] = {}
        for at, word in enumerate(self.words):
            found.setdefault(word.text, []).append(at)
        return found

    @cached_property
    def numbers(self) -> dict[str, list[tuple[Places, str]]]:
        """Printed numbers by their digits: their places and notations."""
        found: dict[str, list[tuple[Places, str]]] = {}
        for at, word in enumerate(self.words):
            runs = list(RUN.finditer(word.text))
            for run in runs:
                if not self.cut(at, run):
                    self._note(found, (at,), run[0])
            if runs and runs[-1].end() == len(word.text):
                self._note_groups(found, at, runs[-1][0])
        return found

    @cached_property
    def doubtful(self) -> dict[str, list[tuple[Places, str]]]:
        """Numbers with letters that OCR read for digits, by the correct digits."""
        found: dict[str, list[tuple[Places, str]]] = {}
        for at, word in enumerate(self.words):
            if not DOUBTFUL.fullmatch(word.text) or not any(map(str.isdigit, word.text)):
                continue
            corrected = word.text.translate(CONFUSED)
            for run in RUN.findall(corrected) if corrected != word.text else ():
                self._note(found, (at,), run)
        return found

    def _note(self, found: dict[str, list[tuple[Places, str]]], places: Places, text: str) -> None:
        found.setdefault(re.sub(r"\D", "", text), []).append((places, text))

    def _note_groups(self, found: dict[str, list[tuple[Places, str]]], at: int, text: str) -> None:
        """Records a number that consists of several words, because its thousands are separated by spaces."""
        if len(text) > 3 or not text.isdigit():
            return
        last = at
        while (following := self._next_group(last)) is not None:
            last, text = last + 1, text + following
            self._note(found, tuple(range(at, last + 1)), text)
            if not text.isdigit():
                return

    def _next_group(self, at: int) -> str | None:
        if at + 1 >= len(self.words) or not self.is_close_to_next(at):
            return None
        match = GROUP.match(self.words[at + 1].text)
        return match[1] if match else None

    def cut(self, at: int, run: re.Match[str]) -> bool:
        """Whether a number is a part of a longer one that continues in the next word or began in the one before."""
        start, end = run.span()
        if end - start <= 3 and end == len(run.string) and run[0].isdigit() and self._next_group(at) is not None:
            return True
        if start or not at or not self.words[at - 1].text[-1:].isdigit():
            return False
        return BEGUN.search(self.words[at - 1].text) is not None and self._next_group(at - 1) is not None

    def is_close_to_next(self, at: int) -> bool:
        """Whether the next word is on the same line, at most a thin space away."""
        word, following = self.words[at], self.words[at + 1]
        height = max(word.box[3] - word.box[1], following.box[3] - following.box[1])
        same_line = self.homes[at] == self.homes[at + 1] and word.line == following.line
        # Boxes are fractions of the page: a height becomes a fraction of the width to be compared with a gap.
        return same_line and following.box[0] - word.box[2] <= height * self.shapes[self.homes[at]] * NEAR

    def box(self, places: Places) -> Box:
        """The box around some words."""
        return around(self.words[at].box for at in places)

    def _join(self, at: int, text: str) -> str:
        """The text without a hyphen at a line end."""
        if len(text) < 2 or text[-1] not in HYPHENS or not text[-2].isalpha() or at + 1 >= len(self.words):
            return text
        following = self.words[at + 1]
        broken = self.homes[at] == self.homes[at + 1] and following.line != self.words[at].line
        return text[:-1] if broken and following.text[:1].islower() else text


def letters(text: str) -> str:
    """The folded text, letters and digits only."""
    return "".join(sign for sign in fold(text) if sign.isalnum())
