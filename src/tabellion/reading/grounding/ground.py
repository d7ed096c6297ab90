"""Locates a value on the page: its quote is found in the words, or it is ungrounded; a box is never invented."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from tabellion.reading.grounding.fuzzy import find_fuzzy, lines
from tabellion.reading.grounding.index import RUN, Index, Places, Stream, letters
from tabellion.reading.grounding.variants import date_of, decimal_of, digits_of, fold, says
from tabellion.reading.page import Box, Page, Word

#: How a value was found, and its score.
SCORES = {
    "exact": 1.0, "whitespace": 0.99, "case": 0.97, "number": 0.97, "date": 0.97, "punctuation": 0.95, "lines": 0.93,
    "confusion": 0.8, "fuzzy": 0.75,
}  # fmt: skip
UNGROUNDED = "ungrounded"
LONG = 6  #: digits; a number this long is an identifier, and may be printed in groups of any size
MINUS = "-−–("


@dataclass(frozen=True, slots=True)
class Grounding:
    """The place of a value on a page."""

    page: int
    box: Box
    words: tuple[Word, ...]
    how: str  #: one of SCORES
    score: float
    count: int = 1  #: the number of places with the same value

    @property
    def quote(self) -> str:
        """The words there."""
        return " ".join(word.text for word in self.words)


FoundPlaces = tuple[str, list[Places]]


def ground(
    value: object,
    pages: Sequence[Page] | Index,
    *,
    kind: str | None = None,
    near: Box | str | None = None,
    page: int | None = None,
) -> Grounding | None:
    """The place of a quote or a value, or None.

    `kind` is text, money, number, date or id; by default it is inferred from the value. Of several places the one
    nearest to `near` (a box, on `page` if given, or the words of its label) is taken, or else the first; `page` alone
    restricts the search to that page.
    """
    index = pages if isinstance(pages, Index) else Index(pages)
    text = str(value).strip()
    if not text or isinstance(value, bool):
        return None
    for how, found in _tries(index, text, kind or _kind(value)):
        on_page = [places for places in found if page is None or index.homes[places[0]] == page]
        if on_page:
            return _build_grounding(index, _nearest(index, on_page, near), how, len(on_page))
    return None


def ground_all(data: Any, pages: Sequence[Page] | Index) -> Any:
    """The same structure, with each value as {value, page, box, quote, match}; `match` may be "ungrounded".

    A dict with `value` and `quote`, as models return it, is one value: its quote is searched first.
    """
    index = pages if isinstance(pages, Index) else Index(pages)
    return _all(data, index, None)


def find_ungrounded(data: Any, path: str = "") -> Iterator[str]:
    """The paths of the values that `ground_all` did not find."""
    if isinstance(data, dict) and "match" in data:
        if data["match"] == UNGROUNDED:
            yield path
    elif isinstance(data, dict):
        for key, value in data.items():
            yield from find_ungrounded(value, f"{path}.{key}" if path else str(key))
    elif isinstance(data, list):
        for number, value in enumerate(data):
            yield from find_ungrounded(value, f"{path}[{number}]")


def _all(data: Any, index: Index, near: tuple[int, Box] | None) -> Any:
    if isinstance(data, list):
        return [_row(item, index) if isinstance(item, dict) else _all(item, index, near) for item in data]
    if isinstance(data, dict) and "value" not in data:
        return {key: _all(value, index, near) for key, value in data.items()}
    if data is None or isinstance(data, bool):
        return data
    value, quote = (data.get("value"), data.get("quote")) if isinstance(data, dict) else (data, None)
    if isinstance(value, dict | list):
        return {**data, "value": _all(value, index, near)}
    grounding = None
    for text in (quote, value):
        if text not in (None, "") and grounding is None:
            grounding = _beside(text, index, near)
    result = dict(data) if isinstance(data, dict) else {"value": value}
    if grounding is None:
        return {**result, "page": None, "box": None, "quote": None, "match": UNGROUNDED}
    return {
        **result,
        "page": grounding.page,
        "box": [round(side, 4) for side in grounding.box],
        "quote": grounding.quote,
        "match": grounding.how,
    }


def _row(item: dict[str, Any], index: Index) -> Any:
    """Grounds the values of one row near its longest text, because they are beside each other."""
    if "value" in item:
        return _all(item, index, None)
    texts = [value for value in item.values() if isinstance(value, str) and _kind(value) == "text"]
    anchor = ground(max(texts, key=len), index) if texts else None
    near = (anchor.page, anchor.box) if anchor else None
    return {key: _all(value, index, near) for key, value in item.items()}


def _beside(value: object, index: Index, near: tuple[int, Box] | None) -> Grounding | None:
    found = ground(value, index, near=near[1], page=near[0]) if near else None
    return found or ground(value, index)


def _kind(value: object) -> str:
    if isinstance(value, int | float | Decimal):
        return "number"
    text = str(value)
    if date_of(text):
        return "date"
    return "number" if decimal_of(text) is not None else "text"


def _tries(index: Index, text: str, kind: str) -> Iterator[FoundPlaces]:
    """The results of each way to search, the most reliable first."""
    number = decimal_of(text) if kind in ("money", "number") else None
    if number is not None:
        yield from _numbers(index, text, number)
        if not any(map(str.isalpha, text)):
            return
    yield "exact", _words(index, text)
    yield "whitespace", _in(index.exact, "".join(text.split()))
    yield "whitespace", _in(index.unbroken_stream, "".join(text.split()))
    yield "case", _in(index.folded_stream, "".join(fold(text).split()))
    if kind == "date" and (day := date_of(text)):
        yield "date", index.days.get(day, [])
        return
    yield "punctuation", _in(index.bare_stream, letters(text))
    if kind != "date" and number is None:
        yield "lines", lines(index, text)
        yield from find_fuzzy(index, text)


def _numbers(index: Index, text: str, number: Decimal) -> Iterator[FoundPlaces]:
    yield "exact", [places for places in _words(index, text) if not _cut(index, places)]
    for how, table in (("number", index.numbers), ("confusion", index.doubtful)):
        found = [
            places
            for digits in dict.fromkeys(digits_of(number))
            for places, printed in table.get(digits, ())
            if says(printed, number)
        ]
        negative = [places for places in found if _minus(index, places)]
        if number < 0:
            yield how, negative
        else:
            yield how, [places for places in found if places not in negative] or negative
    if text.isdigit() and len(text) >= LONG:
        yield "whitespace", _in(index.exact, text)


def _cut(index: Index, places: Places) -> bool:
    """Whether the number is a part of a longer one."""
    ends = [(at, run) for at in (places[0], places[-1]) for run in RUN.finditer(index.words[at].text)]
    return len(places) == 1 and any(index.cut(at, run) for at, run in ends)


def _minus(index: Index, places: Places) -> bool:
    first, last = index.words[places[0]].text, index.words[places[-1]].text
    before = index.words[places[0] - 1].text if places[0] and index.is_close_to_next(places[0] - 1) else ""
    return first[0] in MINUS or first[1:2] in tuple(MINUS) or last.endswith(("-", "−")) or before in tuple("-−–")


def _words(index: Index, text: str) -> list[Places]:
    """The places where exactly these words follow each other."""
    words = text.split()
    return [
        tuple(range(at, at + len(words)))
        for at in index.starts.get(words[0], ())
        if [found.text for found in index.words[at : at + len(words)]] == words
        and index.homes[at] == index.homes[at + len(words) - 1]
    ]


def _in(stream: Stream, needle: str) -> list[Places]:
    return [stream.places(start, end) for start, end in stream.find(needle)]


def _nearest(index: Index, found: list[Places], near: Box | str | None) -> Places:
    if near is None or len(found) == 1:
        return found[0]
    if not isinstance(near, str):
        return min(found, key=lambda places: _distance(near, index.box(places)))
    labels = next((labels for _, labels in _tries(index, near, "text") if labels), [])
    boxes = [(index.homes[label[0]], index.box(label)) for label in labels]

    def distance(places: Places) -> float:
        distances = [_distance(box, index.box(places)) for page, box in boxes if page == index.homes[places[0]]]
        return min(distances, default=9.0)

    return min(found, key=distance)


def _distance(first: Box, second: Box) -> float:
    """The distance of two boxes; another line is further than the other end of the same line."""
    across = max(0.0, second[0] - first[2], first[0] - second[2])
    down = abs((first[1] + first[3]) - (second[1] + second[3])) / 2
    return across + 4 * down


def _build_grounding(index: Index, places: Places, how: str, count: int) -> Grounding:
    words = tuple(index.words[at] for at in places)
    return Grounding(index.homes[places[0]], index.box(places), words, how, SCORES[how], count)
