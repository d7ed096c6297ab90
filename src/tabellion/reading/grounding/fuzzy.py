"""Finds a text with small differences: letters read as digits, a few wrong letters, or lines set apart."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from tabellion.reading.grounding.index import Index, Places, Stream, letters

MOST_PLACES = 60  #: places of a piece that are tried
MOST_FIRST = 10  #: places of a first line that are tried
MOST_SEGMENTS = 8
MOST_WORDS = 40
SHORTEST = 6  #: characters; a shorter text with a wrong letter would be found everywhere
GAP = 2.5  #: line heights between the lines of one value


def find_fuzzy(index: Index, text: str) -> Iterator[tuple[str, list[Places]]]:
    """The places with letters for digits, then with wrong letters; digits must always match."""
    needle = letters(text)
    digits = _digits(needle)
    if digits and len(needle) >= 3:
        stream = index.confusable_stream
        yield "confusion", [stream.places(*at) for at in stream.find(index.confuse(needle))]
    slips = 0 if len(needle) < SHORTEST or len(digits) * 2 > len(needle) else min(6, max(1, len(needle) // 8))
    if slips:
        yield "fuzzy", _find_misread(index.bare_stream, needle, slips)


def _digits(text: str) -> str:
    return "".join(sign for sign in text if sign.isdigit())


def _find_misread(stream: Stream, needle: str, most: int) -> list[Places]:
    """The places with the fewest wrong letters, at most `most`.

    With n wrong letters at least one of n + 1 pieces of the needle is intact: only the places of pieces are tried.
    """
    from rapidfuzz.distance import Levenshtein

    best: dict[Places, int] = {}
    size = len(needle) // (most + 1)
    for number in range(most + 1):
        offset = number * size
        piece = needle[offset : offset + size] if number < most else needle[offset:]
        for at in _occurrences(stream.text, piece):
            for start, end in _windows(stream, at - offset, len(needle), most):
                candidate = stream.text[start:end]
                if "\n" in candidate or _digits(candidate) != _digits(needle):
                    continue
                slips = Levenshtein.distance(needle, candidate, score_cutoff=most)
                if slips <= most:
                    places = stream.places(start, end)
                    best[places] = min(slips, best.get(places, slips))
    fewest = min(best.values(), default=0)
    return sorted(places for places, slips in best.items() if slips == fewest)


def _occurrences(text: str, piece: str) -> Iterator[int]:
    at = text.find(piece)
    for _ in range(MOST_PLACES):
        if at < 0:
            return
        yield at
        at = text.find(piece, at + 1)


def _windows(stream: Stream, at: int, size: int, most: int) -> Iterator[tuple[int, int]]:
    """Spans of whole words with about the right position and size."""
    total = len(stream.text)
    ends = [
        end for end in range(max(1, at + size - 2 * most), min(total, at + size + 2 * most) + 1) if stream.edge(end)
    ]
    for start in range(max(0, at - most), min(total, at + most + 1)):
        if stream.edge(start):
            yield from ((start, end) for end in ends if abs(end - start - size) <= most)


def lines(index: Index, text: str) -> list[Places]:
    """The places of a text of several lines below each other, with other columns read in between."""
    words = [piece for piece in map(letters, text.split()) if piece]
    if not 3 <= len(words) <= MOST_WORDS:
        return []
    for count in range(len(words) - 1, 0, -1):
        for at in islice(index.bare_stream.find("".join(words[:count])), MOST_FIRST):
            found = _below(index, index.bare_stream.places(*at), words[count:])
            if found:
                return [found]
    return []


def _below(index: Index, places: Places, words: list[str]) -> Places | None:
    """The rest of a text in the lines below a first line."""
    segments = 1
    last = places
    while words:
        for count in range(len(words), 0, -1):
            needle = "".join(words[:count])
            options = [index.bare_stream.places(*at) for at in islice(index.bare_stream.find(needle), MOST_PLACES)]
            following = next((option for option in options if _is_just_below(index, last, option)), None)
            if following:
                break
        else:
            return None
        places, last, words, segments = (*places, *following), following, words[count:], segments + 1
        if segments > MOST_SEGMENTS:
            return None
    return places


def _is_just_below(index: Index, above: Places, below: Places) -> bool:
    upper, lower = index.box(above), index.box(below)
    height = min(upper[3] - upper[1], lower[3] - lower[1])
    same_page = index.homes[above[0]] == index.homes[below[0]]
    return same_page and 0 < lower[1] - upper[1] <= height * (1 + GAP) and lower[0] < upper[2] and upper[0] < lower[2]
