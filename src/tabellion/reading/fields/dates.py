"""The issue and due dates of a document, by their labels, else by their usual positions."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator

from tabellion.reading.fields.candidates import ALONE, FieldCandidate, find_labelled
from tabellion.reading.fields.labelled_text import LabelledText
from tabellion.reading.fields.table import columns_of
from tabellion.reading.fields.values import Day, days, fold_in_place

FIELDS = ("invoice_date", "due_date")
_OLDEST = datetime.date(1970, 1, 1)
#: Words between a number and its date: "Nr. 4711 vom 05.03.2018", "facture F27 du 15/01/2020".
_OF = re.compile(r"(?:\b(?:vom|von|du|dated|of|date|le|en date du)\s*:?\s*)$")
_BILL = re.compile(r"rechnung|facture|invoice|avoir|gutschrift|credit note")
_OTHER_BILL = re.compile(r"relatif|prochaine|next|previous|letzte|storno|zu rechnung|credit|bestellung|commande|order")
#: The place before a letter's date: "Marburg, 09.12.2024", "Fait à Lyon, le 3 mai 2024".
_PLACE = re.compile(r"\W*(?:fait a )?[^\W\d_]{3,}(?:[ -][^\W\d_]{2,}){0,3},\s*(?:le|den|the)?\s*")
#: Words before the date by which to pay.
_UNTIL = re.compile(
    r"(?:bis (?:zum|spatestens)?|fallig (?:am|zum)?|before|until|avant le|au plus tard le|by|netto bis)\s*:?\s*$"
)
#: Words before a date that grants a discount for early payment.
_EARLY = re.compile(r"skonto|escompte|discount")
_TIME = re.compile(r"\d{1,2}[:.]\d{2}(?:[:.]\d{2})?\s*(?:am|pm)?|\b[ap]m\b")


def read_dates(doc: LabelledText) -> dict[str, list[FieldCandidate]]:
    """The candidates of each field, the best first."""

    def parse(text: str) -> list[Day]:
        return [day for day in days(text, doc.order) if day.value >= _OLDEST]

    def parse_days(text: str) -> list[Day]:
        return [day for day in days(text, doc.order, compact=True) if day.value >= _OLDEST]

    found: dict[str, list[FieldCandidate]] = {name: [] for name in FIELDS}
    for candidate in find_labelled(doc, FIELDS, parse_days):
        if (
            candidate.how == "below"
            and candidate.label
            and len({column.kind for column in columns_of(doc.layout.row(candidate.label.line))}) >= 2
        ):
            continue  # a column of items has dates of its own
        candidate.score *= 1.0 if candidate.label and len(candidate.label.phrase) > 4 else 0.85
        if candidate.label and not candidate.label.leads:
            candidate.score *= 0.78
        if candidate.field == "due_date" and _EARLY.search(fold_in_place(candidate.line.text[: candidate.start])[-45:]):
            candidate.score *= 0.3
        found[candidate.field].append(candidate)
    not_dates = {candidate.key for candidate in find_labelled(doc, ("",), parse) if candidate.how != "below"}
    for candidate in _loose(doc, parse):
        known = {present.key for name in FIELDS for present in found[name]}
        if candidate.key not in known:
            if candidate.key in not_dates:
                candidate.score *= 0.4
            found[candidate.field].append(candidate)
    for candidates in found.values():
        candidates.sort(key=lambda candidate: (-candidate.score, candidate.line.number, candidate.start))
    due = found["due_date"]
    issued = found["invoice_date"]
    if due and issued:
        keys = {candidate.key for candidate in due if candidate.score >= 0.6}
        found["invoice_date"] = [candidate for candidate in issued if candidate.key not in keys] or issued
    return found


def _loose(doc: LabelledText, parse) -> Iterator[FieldCandidate]:  # type: ignore[no-untyped-def]
    """Candidates for dates without a label."""
    first = True
    for line in doc.layout.lines:
        plain = fold_in_place(line.text)
        for day in parse(line.text):
            before = plain[: day.start]
            if _UNTIL.search(before):
                yield _one("due_date", day, line, 0.75, "until")
                continue
            score = ALONE + (0.1 if first else 0.0)
            if _OF.search(before) and _BILL.search(before):
                score = 0.95 if not _OTHER_BILL.search(before) else 0.5
            elif _PLACE.fullmatch(before) and not re.search(r"\w", plain[day.end :]):
                score = 0.8
            elif _TIME.search(plain[day.end : day.end + 14]):
                score = ALONE + 0.25
            elif not re.search(r"\w", before):
                score = ALONE + 0.15
            first = False
            yield _one("invoice_date", day, line, score, "unlabelled")


def _one(name: str, day: Day, line, score: float, how: str) -> FieldCandidate:  # type: ignore[no-untyped-def]
    return FieldCandidate(name, day.value, line, day.start, day.end, score, None, how, day)
