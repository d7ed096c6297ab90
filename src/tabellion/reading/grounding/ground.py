"""Where a value stands on the page: a quote is located in the words, or it is ungrounded; a box is never invented."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from tabellion.reading.grounding.fuzzy import fuzzy, lines
from tabellion.reading.grounding.index import RUN, Index, Places, Stream, letters
from tabellion.reading.grounding.variants import date_of, decimal_of, digits_of, fold, says
from tabellion.reading.page import Box, Page, Word

#: How a value was found, and how much that is worth.
SCORES = {
    "exact": 1.0, "whitespace": 0.99, "case": 0.97, "number": 0.97, "date": 0.97, "punctuation": 0.95, "lines": 0.93,
    "confusion": 0.8, "fuzzy": 0.75,
}  # fmt: skip
UNGROUNDED = "ungrounded"
LONG = 6  #: digits; a number this long is an identifier, and may be set in groups of any size
MINUS = "-−–("


@dataclass(frozen=True, slots=True)
class Grounding:
    """The place where a value stands."""

    page: int
    box: Box
    words: tuple[Word, ...]
    how: str  #: one of SCORES
    score: float
    count: int = 1  #: how many places say the same

    @property
    def quote(self) -> str:
        """The words there."""
        return " ".join(word.text for word in self.words)


Found = tuple[str, list[Places]]


def ground(
    value: object,
    pages: Sequence[Page] | Index,
    *,
    kind: str | None = None,
    near: Box | str | None = None,
    page: int | None = None,
) -> Grounding | None:
    """The place of a quote or a value, or None.

    `kind` is text, money, number, date or id; without it the value tells. Of several places the one nearest to `near`
    (a box, on `page` if given, or the words of its label) is taken, or else the first; `page` alone keeps to that page.
    """
    index = pages if isinstance(pages, Index) else Index(pages)
    text = str(value).strip()
    if not text or isinstance(value, bool):
        return None
    for how, found in _tries(index, text, kind or _kind(value)):
        kept = [places for places in found if page is None or index.homes[places[0]] == page]
        if kept:
            return _build_grounding(index, _nearest(index, kept, near), how, len(kept))
    return None


def ground_all(data: Any, pages: Sequence[Page] | Index) -> Any:
    """The same shape, with each value as {value, page, box, quote, match}; `match` is "ungrounded" where it is nowhere.

    A dict with `value` and `quote`, as models answer, is one value: its quote is looked for first.
    """
    index = pages if isinstance(pages, Index) else Index(pages)
    return _all(data, index, None)


def find_ungrounded(told: Any, path: str = "") -> Iterator[str]:
    """The paths of the values that `ground_all` found nowhere."""
    if isinstance(told, dict) and "match" in told:
        if told["match"] == UNGROUNDED:
            yield path
    elif isinstance(told, dict):
        for key, value in told.items():
            yield from find_ungrounded(value, f"{path}.{key}" if path else str(key))
    elif isinstance(told, list):
        for number, value in enumerate(told):
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
    found = None
    for text in (quote, value):
        if text not in (None, "") and found is None:
            found = _beside(text, index, near)
    told = dict(data) if isinstance(data, dict) else {"value": value}
    if found is None:
        return {**told, "page": None, "box": None, "quote": None, "match": UNGROUNDED}
    return {
        **told,
        "page": found.page,
        "box": [round(side, 4) for side in found.box],
        "quote": found.quote,
        "match": found.how,
    }


def _row(item: dict[str, Any], index: Index) -> Any:
    """The values of one row stand beside each other: the longest text says where."""
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


def _tries(index: Index, text: str, kind: str) -> Iterator[Found]:
    """One way of finding after the other, the surest first."""
    number = decimal_of(text) if kind in ("money", "number") else None
    if number is not None:
        yield from _numbers(index, text, number)
        if not any(map(str.isalpha, text)):
            return
    yield "exact", _words(index, text)
    yield "whitespace", _in(index.exact, "".join(text.split()))
    yield "whitespace", _in(index.unbroken, "".join(text.split()))
    yield "case", _in(index.folded, "".join(fold(text).split()))
    if kind == "date" and (day := date_of(text)):
        yield "date", index.days.get(day, [])
        return
    yield "punctuation", _in(index.bare, letters(text))
    if kind != "date" and number is None:
        yield "lines", lines(index, text)
        yield from fuzzy(index, text)


def _numbers(index: Index, text: str, number: Decimal) -> Iterator[Found]:
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
    """Whether words that look like the number are pieces of a longer one."""
    ends = [(at, run) for at in (places[0], places[-1]) for run in RUN.finditer(index.words[at].text)]
    return len(places) == 1 and any(index.cut(at, run) for at, run in ends)


def _minus(index: Index, places: Places) -> bool:
    first, last = index.words[places[0]].text, index.words[places[-1]].text
    before = index.words[places[0] - 1].text if places[0] and index.touching(places[0] - 1) else ""
    return first[0] in MINUS or first[1:2] in tuple(MINUS) or last.endswith(("-", "−")) or before in tuple("-−–")


def _words(index: Index, text: str) -> list[Places]:
    """Where exactly these words follow each other."""
    wanted = text.split()
    return [
        tuple(range(at, at + len(wanted)))
        for at in index.starts.get(wanted[0], ())
        if [word.text for word in index.words[at : at + len(wanted)]] == wanted
        and index.homes[at] == index.homes[at + len(wanted) - 1]
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

    def away(places: Places) -> float:
        own = [_distance(box, index.box(places)) for page, box in boxes if page == index.homes[places[0]]]
        return min(own, default=9.0)

    return min(found, key=away)


def _distance(one: Box, other: Box) -> float:
    """How far apart; another line is further than the same line's other end."""
    across = max(0.0, other[0] - one[2], one[0] - other[2])
    down = abs((one[1] + one[3]) - (other[1] + other[3])) / 2
    return across + 4 * down


def _build_grounding(index: Index, places: Places, how: str, count: int) -> Grounding:
    words = tuple(index.words[at] for at in places)
    return Grounding(index.homes[places[0]], index.box(places), words, how, SCORES[how], count)
