"""Reads fields by their kind alone: the value after, beside or below one of the labels that the type defines."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from tabellion.reading.fields.answer import Answer, answer_at, answer_of
from tabellion.reading.fields.candidates import Candidate, find_labelled
from tabellion.reading.fields.codes import Code, read_codes
from tabellion.reading.fields.currency import read_currency
from tabellion.reading.fields.layout import Line
from tabellion.reading.fields.sheet import Sheet
from tabellion.reading.fields.sums import money_parser
from tabellion.reading.fields.values import amounts, days, digits, fold_in_place, money
from tabellion.reading.types import pattern
from tabellion.reading.types.field_spec import FieldSpec

_TRUE = {"yes", "oui", "ja", "true", "x", "☒", "☑", "1"}
_FALSE = {"no", "non", "nein", "false", "☐", "0"}


def read(sheet: Sheet, spec: FieldSpec) -> Answer | None:
    """The field's answer, read by its kind; None where nothing was found."""
    reader = _READERS.get(spec.kind)
    return reader(sheet, spec) if reader else None


def _date(sheet: Sheet, spec: FieldSpec) -> Answer | None:
    found = _rank_candidates(find_labelled(sheet, (spec.name,), lambda text: days(text, sheet.order, compact=True)))
    return answer_of(found, found[0].value.isoformat()) if found else None


def _money(sheet: Sheet, spec: FieldSpec) -> Answer | None:
    found = _rank_candidates(find_labelled(sheet, (spec.name,), money_parser(sheet)))
    return answer_of(found, money(found[0].value)) if found else None


def _number(sheet: Sheet, spec: FieldSpec) -> Answer | None:
    percent = spec.kind == "percent"

    def parse(text: str) -> Iterator[Any]:
        return (amount for amount in amounts(text, sheet.mark) if amount.percent == percent)

    found = _rank_candidates(find_labelled(sheet, (spec.name,), parse))
    return answer_of(found, digits(found[0].value)) if found else None


def _code(sheet: Sheet, spec: FieldSpec) -> Answer | None:
    if spec.pattern and (found := _rank_candidates(find_labelled(sheet, (spec.name,), _pattern_parser(spec.pattern)))):
        return answer_of(found)
    return answer_of(read_codes(sheet, spec.name))


def _text(sheet: Sheet, spec: FieldSpec) -> Answer | None:
    for label in sheet.find_labels(spec.name):
        rest = label.line.text[label.end :]
        if not rest.lstrip().startswith(":"):
            rest = label.line.text[label.end : sheet.free_until(label)]
        value = rest.strip(" :;.-–=")
        if value and (rest.lstrip()[:1] in ":-–=" or label.leads) and _fits(spec, value):
            start = label.end + rest.index(value)
            candidate = Candidate(spec.name, value, label.line, start, start + len(value), 0.9, label, "after")
            return answer_of([candidate])
        if value or not label.leads:
            continue
        for other in [*sheet.layout.right(label.line)[:1], *list(sheet.layout.below(label.line, 2.5))[:1]]:
            text = other.text.strip(" :;")
            if text and not sheet.is_labelled(other) and _fits(spec, text):
                lines = [other, *_more(sheet, other)] if spec.kind == "address" else [other]
                return answer_at(spec.name, " ".join(line.text.strip(" :;") for line in lines), lines, 0.75)
    return None


def _more(sheet: Sheet, line: Line) -> list[Line]:
    """The lines that continue an address."""
    found: list[Line] = []
    last = line
    for other in sheet.layout.below(line, 6.0):
        labelled_row = any(sheet.is_labelled(part) for part in sheet.layout.row(other))
        if len(found) == 3 or other.box[1] - last.box[3] > line.height or labelled_row:
            break
        found.append(other)
        last = other
    return found


def _choice(sheet: Sheet, spec: FieldSpec) -> Answer | None:
    """The option at the label, else the first option that the page mentions."""
    options = {fold_in_place(option): option for option in sorted(spec.options, key=len, reverse=True)}
    labelled_text = _text(sheet, spec)
    if labelled_text is not None:
        plain = fold_in_place(str(labelled_text.value))
        for known, option in options.items():
            if re.search(rf"\b{re.escape(known)}\b", plain):
                labelled_text.value = option
                return labelled_text
    for line in sheet.layout.lines:
        plain = fold_in_place(line.text)
        for known, option in options.items():
            if match := re.search(rf"\b{re.escape(known)}\b", plain):
                candidate = Candidate(spec.name, option, line, match.start(), match.end(), 0.4, None, "unlabelled")
                return answer_of([candidate])
    return None


def _bool(sheet: Sheet, spec: FieldSpec) -> Answer | None:
    answer = _text(sheet, spec)
    if answer is None:
        return None
    word = fold_in_place(str(answer.value)).split(" ")[0].strip(".,")
    if word not in _TRUE | _FALSE:
        return None
    answer.value = word in _TRUE
    return answer


def _list(sheet: Sheet, spec: FieldSpec) -> Answer | None:
    """A list by its first column with a pattern: every value of that form at one of the column's labels."""
    column = next((item for item in spec.items if item.pattern), None)
    if column is None or column.pattern is None:
        return None
    parse = _pattern_parser(column.pattern)
    found = list(find_labelled(sheet, (f"{spec.name}.{column.name}", spec.name), parse))
    if not found:
        return None
    values = list(dict.fromkeys(str(candidate.value) for candidate in found))
    lines = list(dict.fromkeys(candidate.line for candidate in found))
    page = [line for line in lines if line.page == lines[0].page]
    return answer_at(spec.name, [{column.name: value} for value in values], page, 0.8)


def _rank_candidates(found: Iterator[Candidate]) -> list[Candidate]:
    return sorted(found, key=lambda candidate: (-candidate.score, candidate.line.number, candidate.start))


def _fits(spec: FieldSpec, value: str) -> bool:
    return spec.pattern is None or pattern.fits(spec.pattern, value)


def _pattern_parser(expected: str) -> Callable[[str], Iterator[Code]]:
    return lambda text: (Code(text[start:end], start, end) for start, end in pattern.find(expected, text))


_READERS: dict[str, Callable[[Sheet, FieldSpec], Answer | None]] = {
    "date": _date, "money": _money, "number": _number, "percent": _number, "id": _code, "text": _text, "name": _text,
    "address": _text, "choice": _choice, "bool": _bool, "list": _list,
    "currency": lambda sheet, spec: answer_of(read_currency(sheet)),
}  # fmt: skip
