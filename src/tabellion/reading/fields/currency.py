"""The currency of a document: printed with its amounts, after a label, or inferred from its taxes and places."""

from __future__ import annotations

import re
from collections import Counter

from tabellion.reading.fields.candidates import FieldCandidate
from tabellion.reading.fields.labelled_text import LabelledText
from tabellion.reading.fields.values import CODES, NAMED_SIGNS, amounts, currency, fold_in_place

_MARK = re.compile(rf"(?<![A-Za-z])(?:{NAMED_SIGNS}|[A-Z]{{3}}|RM)(?![A-Za-z])|[€£¥₹]|(?:US|CA|C|A|S)\$|\$\s?CA|\$")
#: Taxes and places that make a dollar Canadian.
_CANADIAN = re.compile(r"\b(?:tps|tvq|hst|qst|quebec|canada|ontario|montreal|toronto|[a-z]\d[a-z] ?\d[a-z]\d)\b")
_WHERE = {
    "MYR": re.compile(r"\b(?:malaysia|sdn\.? ?bhd|kuala lumpur|selangor|johor|rm)\b"),
    "EUR": re.compile(r"\b(?:deutschland|france|germany|mwst|siret|ust-idnr|osterreich)\b"),
    "CHF": re.compile(r"\b(?:schweiz|suisse|che-\d)"),
    "GBP": re.compile(r"\b(?:united kingdom|london|vat reg)\b"),
}


def read_currency(doc: LabelledText) -> list[FieldCandidate]:
    """Candidates, the most frequent first."""
    votes: Counter[str] = Counter()
    first: dict[str, tuple] = {}  # type: ignore[type-arg]
    for label in doc.find_labels("currency"):
        lines = [(label.line, label.end), *((other, 0) for other in doc.layout.right(label.line)[:1])]
        for line, start in lines:
            for match in _MARK.finditer(line.text, start):
                if code := currency(match.group()):
                    votes[code] += 20
                    first.setdefault(code, (line, match.start(), match.end(), label))
    for line in doc.layout.lines:
        priced = {amount.currency for amount in amounts(line.text, doc.mark)}
        for match in _MARK.finditer(line.text):
            code = currency(match.group())
            if match.group() == "SFR" and code not in priced:
                continue  # the French telephone company
            if code and (match.group() not in CODES or re.search(r"\d", line.text) or len(line.text) < 40):
                votes[code] += 3 if code in priced else 1
                first.setdefault(code, (line, match.start(), match.end(), None))
    if votes["USD"] and "us$" not in doc.plain and _CANADIAN.search(doc.plain):
        votes["CAD"] += votes.pop("USD")
        first["CAD"] = first["USD"]
    found = []
    for code, count in votes.most_common(3):
        line, start, end, label = first[code]
        share = count / sum(votes.values())
        found.append(FieldCandidate("currency", code, line, start, end, share, label, "printed"))
    return found or _infer_from_places(doc)


def _infer_from_places(doc: LabelledText) -> list[FieldCandidate]:
    for code, words in _WHERE.items():
        for line in doc.layout.lines:
            if place := words.search(fold_in_place(line.text)):
                return [FieldCandidate("currency", code, line, place.start(), place.end(), 0.5, None, "place")]
    return []
