"""Reads fields by their kind alone: the value after, beside or below one of the labels that the type defines."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from tabellion.reading.fields.answer import FieldAnswer, answer_at, answer_of
from tabellion.reading.fields.candidates import FieldCandidate, find_labelled
from tabellion.reading.fields.codes import Code, read_codes
from tabellion.reading.fields.currency import read_currency
from tabellion.reading.fields.labelled_text import LabelledText
from tabellion.reading.fields.layout import Line
from tabellion.reading.fields.sums import money_parser
from tabellion.reading.fields.values import amounts, days, digits, fold_in_place, money
from tabellion.reading.types import pattern
from tabellion.reading.types.field_spec import FieldSpec

_TRUE = {"yes", "oui", "ja", "true", "x", "☒", "☑", "1"}
_FALSE = {"no", "non", "nein", "false", "☐", "0"}


def read(doc: LabelledText, spec: FieldSpec) -> FieldAnswer | None:
    """The field's answer, read by its kind; None where nothing was found."""
    reader = _READERS.get(spec.kind)
    return reader(doc, spec) if reader else None


def _date(doc: LabelledText, spec: FieldSpec) -> FieldAnswer | None:
    found = _find_ranked(doc, spec, lambda text: days(text, doc.order, compact=True))
    return answer_of(found, found[0].value.isoformat()) if found else None


def _money(doc: LabelledText, spec: FieldSpec) -> FieldAnswer | None:
    found = _find_ranked(doc, spec, money_parser(doc))
    return answer_of(found, money(found[0].value)) if found else None


def _number(doc: LabelledText, spec: FieldSpec) -> FieldAnswer | None:
    percent = spec.kind == "percent"

    def parse(text: str) -> Iterator[Any]:
        return (amount for amount in amounts(text, doc.mark) if amount.percent == percent)

    found = _find_ranked(doc, spec, parse)
    return answer_of(found, digits(found[0].value)) if found else None


def _code(doc: LabelledText, spec: FieldSpec) -> FieldAnswer | None:
    if spec.pattern and (found := _find_ranked(doc, spec, _pattern_parser(spec.pattern))):
        return answer_of(found)
    return answer_of(read_codes(doc, spec.name))


def _text(doc: LabelledText, spec: FieldSpec) -> FieldAnswer | None:
    for label in doc.find_labels(spec.name):
        rest = label.line.text[label.end :]
        if not rest.lstrip().startswith(":"):
            rest = label.line.text[label.end : doc.free_until(label)]
        value = rest.strip(" :;.-–=")
        if value and (rest.lstrip()[:1] in ":-–=" or label.leads) and _fits(spec, value):
            start = label.end + rest.index(value)
            candidate = FieldCandidate(spec.name, value, label.line, start, start + len(value), 0.9, label, "after")
            return answer_of([candidate])
        if value or not label.leads:
            continue
        for other in [*doc.layout.right(label.line)[:1], *list(doc.layout.below(label.line, 2.5))[:1]]:
            text = other.text.strip(" :;")
            if text and not doc.is_labelled(other) and _fits(spec, text):
                lines = [other, *_more(doc, other)] if spec.kind == "address" else [other]
                return answer_at(spec.name, " ".join(line.text.strip(" :;") for line in lines), lines, 0.75)
    return None


def _more(doc: LabelledText, line: Line) -> list[Line]:
    """The lines that continue an address."""
    found: list[Line] = []
    last = line
    for other in doc.layout.below(line, 6.0):
        labelled_row = any(doc.is_labelled(part) for part in doc.layout.row(other))
        if len(found) == 3 or other.box[1] - last.box[3] > line.height or labelled_row:
            break
        found.append(other)
        last = other
    return found


def _choice(doc: LabelledText, spec: FieldSpec) -> FieldAnswer | None:
    """The option at the label, else the first option that the page mentions."""
    options = {fold_in_place(option): option for option in sorted(spec.options, key=len, reverse=True)}
    labelled_text = _text(doc, spec)
    if labelled_text is not None:
        plain = fold_in_place(str(labelled_text.value))
        for known, option in options.items():
            if re.search(rf"\b{re.escape(known)}\b", plain):
                labelled_text.value = option
                return labelled_text
    for line in doc.layout.lines:
        plain = fold_in_place(line.text)
        for known, option in options.items():
            if match := re.search(rf"\b{re.escape(known)}\b", plain):
                candidate = FieldCandidate(spec.name, option, line, match.start(), match.end(), 0.4, None, "unlabelled")
                return answer_of([candidate])
    return None


def _bool(doc: LabelledText, spec: FieldSpec) -> FieldAnswer | None:
    answer = _text(doc, spec)
    if answer is None:
        return None
    word = fold_in_place(str(answer.value)).split(" ")[0].strip(".,")
    if word not in _TRUE | _FALSE:
        return None
    answer.value = word in _TRUE
    return answer


def _list(doc: LabelledText, spec: FieldSpec) -> FieldAnswer | None:
    """A list by its first column with a pattern: every value of that form at one of the column's labels."""
    column = next((item for item in spec.items if item.pattern), None)
    if column is None or column.pattern is None:
        return None
    parse = _pattern_parser(column.pattern)
    found = list(find_labelled(doc, (f"{spec.name}.{column.name}", spec.name), parse))
    if not found:
        return None
    values = list(dict.fromkeys(str(candidate.value) for candidate in found))
    lines = list(dict.fromkeys(candidate.line for candidate in found))
    page = [line for line in lines if line.page == lines[0].page]
    return answer_at(spec.name, [{column.name: value} for value in values], page, 0.8)


def _find_ranked(doc: LabelledText, spec: FieldSpec, parse: Callable[[str], Iterable[Any]]) -> list[FieldCandidate]:
    found = find_labelled(doc, (spec.name,), parse)
    return sorted(found, key=lambda candidate: (-candidate.score, candidate.line.number, candidate.start))


def _fits(spec: FieldSpec, value: str) -> bool:
    return spec.pattern is None or pattern.fits(spec.pattern, value)


def _pattern_parser(expected: str) -> Callable[[str], Iterator[Code]]:
    return lambda text: (Code(text[start:end], start, end) for start, end in pattern.find(expected, text))


_READERS: dict[str, Callable[[LabelledText, FieldSpec], FieldAnswer | None]] = {
    "date": _date, "money": _money, "number": _number, "percent": _number, "id": _code, "text": _text, "name": _text,
    "address": _text, "choice": _choice, "bool": _bool, "list": _list,
    "currency": lambda doc, spec: answer_of(read_currency(doc)),
}  # fmt: skip
