"""Identifiers: invoice numbers, tax ids, IBANs, order numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tabellion.reading.fields.candidates import FieldCandidate, find_labelled
from tabellion.reading.fields.labelled_text import LabelledText
from tabellion.reading.fields.values import days, fold_in_place

_LEAD = re.compile(
    r"^[\s:.#,;=-]*(?:\(\d+\)\s*)?(?:n[°ºo]\s*[.:]?|nr\.?|no\.?|num[eé]ro|number|nummer|id|code|#|№)?[\s:.#=-]*",
    re.IGNORECASE,
)
#: A code as one word; with a prefix of its own; in groups of three digits; with a stroke between spaces.
_DIGIT = re.compile(r"\d")
_CODE = re.compile(
    r"\d{1,3}(?: \d{3}){1,4}(?![\w/.,-])|(?:[A-Z]{1,4} )?\d[A-Za-z0-9/_.+-]* / [A-Z0-9]{2,}\b|"
    r"[A-Z]{1,4} \d[A-Za-z0-9/_.+-]*[A-Za-z0-9]|[A-Za-z0-9][A-Za-z0-9/_.+-]*[A-Za-z0-9]|\d"
)
_BILL = re.compile(
    r"\b(?:\w*rechnung|facture|invoice|avoir|gutschrift)\b\s*(?:\(\d+\))?\s*(?:n[°ºo.]{1,2}|nr\.?|no\.?|#|numero|nummer|number)[\s:.]*"
)
#: Titles that a number often follows, and words that announce any number at all.
_TITLES = frozenset(("invoice", "facture", "rechnung", "bill", "receipt"))
_ANY_NUMBER = frozenset(
    ("nummer", "number", "numero", "n", "no", "nr", "reference", "ref", "referenz", "document", "id", "code", "#")
)
_YEAR = re.compile(r"(?:19|20)\d\d")
_IBAN = re.compile(r"\b[A-Z]{2}\d{2}(?:\s?[A-Z0-9]{4}){2,7}(?:\s?[A-Z0-9]{1,3})?\b")
#: Kinds of tax numbers by their form.
_TAX_NUMBERS = {
    "GST": re.compile(r"(?<!\d)(?:\d ?){9}RT ?\d{4}(?!\d)"),
    "QST": re.compile(r"(?<!\d)(?:\d ?){10}TQ ?\d{4}(?!\d)"),
    "CHE": re.compile(r"\bCHE-?\d{3}\.?\d{3}\.?\d{3}(?!\d)"),
    "VAT": re.compile(
        r"\b(?:DE ?(?:\d ?){9}|FR ?[0-9A-Z]{2} ?(?:\d ?){9}|ATU ?\d{8}|BE ?0?\d{3}\.?\d{3}\.?\d{3}|NL ?\d{9}B\d{2}|"
        r"IT ?\d{11}|"
        r"ES ?[A-Z0-9]\d{7}[A-Z0-9]|LU ?\d{8}|GB ?(?:\d ?){9}|PL ?\d{10}|CZ ?\d{8,10}|DK ?\d{8}|SE ?\d{12}|IE "
        r"?\d{7}[A-Z]{1,2})"
        r"(?![A-Z0-9])"
    ),
}


@dataclass(frozen=True, slots=True)
class Code:
    """A code as printed."""

    value: str
    start: int
    end: int


def read_codes(doc: LabelledText, name: str) -> list[FieldCandidate]:
    """Candidates for an identifier with a label, the best first."""
    found: list[FieldCandidate] = []
    for candidate in find_labelled(doc, (name,), _after_marks):
        if candidate.how == "after" and candidate.label and not _directly(candidate):
            continue
        found.append(candidate)
    if name == "invoice_number":
        found += _find_in_titles(doc)
    for candidate in found:
        candidate.score *= _likely(str(candidate.value))
        phrase = candidate.label.phrase if candidate.label else ""
        if phrase in _TITLES:
            candidate.score *= 0.75
        elif phrase in _ANY_NUMBER:
            candidate.score *= 0.55
    best: dict[str, FieldCandidate] = {}
    for candidate in sorted(found, key=lambda candidate: (-candidate.score, candidate.line.number)):
        best.setdefault(str(candidate.value), candidate)
    return list(best.values())


def read_numbers(text: str) -> list[Code]:
    """Every number of a text that may be an identifier, with or without a label."""
    return [code for code in _after_marks(text) if _likely(code.value) == 1.0 and not _YEAR.fullmatch(code.value)]


def read_ibans(doc: LabelledText) -> list[FieldCandidate]:
    """Bank accounts, recognised by their form alone."""
    return [candidate for candidate in _of_form(doc, "iban", _IBAN) if 15 <= len(str(candidate.value)) <= 34]


def read_tax_numbers(doc: LabelledText) -> list[FieldCandidate]:
    """Tax numbers by their form, each once, with its kind as `how`; Canada's federal number first."""
    found: dict[str, FieldCandidate] = {}
    for kind, pattern in _TAX_NUMBERS.items():
        for candidate in _of_form(doc, "vendor_tax_id", pattern):
            candidate.how = kind
            found.setdefault(str(candidate.value), candidate)
    return list(found.values())


def _of_form(doc: LabelledText, name: str, pattern: re.Pattern[str]) -> Iterator[FieldCandidate]:
    for line in doc.layout.lines:
        for match in pattern.finditer(line.text):
            value = re.sub(r"[\s.]", "", match.group())
            yield FieldCandidate(name, value, line, match.start(), match.end(), 0.8, None, "form", Code(value, 0, 0))


def _after_marks(text: str) -> Iterator[Code]:
    if not _DIGIT.search(text):
        return  # the usual case, found cheaply
    for match in _CODE.finditer(text):
        value = match.group().strip("./")
        if any(letter.isdigit() for letter in value):
            yield Code(value, match.start(), match.start() + len(value))


def _directly(candidate: FieldCandidate) -> bool:
    """Whether only marks and number words are between the label and the value."""
    assert candidate.label is not None  # noqa: S101 - only labelled candidates come here
    between = candidate.line.text[candidate.label.end : candidate.start]
    return bool(_LEAD.fullmatch(between))


def _find_in_titles(doc: LabelledText) -> Iterator[FieldCandidate]:
    """Invoice numbers in headings such as "Mietrechnung (387) Nr. 9314 vom …"."""
    for line in doc.layout.lines:
        plain = fold_in_place(line.text)
        for match in _BILL.finditer(plain):
            code = _CODE.match(line.text, match.end())
            if code and any(letter.isdigit() for letter in code.group()):
                yield FieldCandidate(
                    "invoice_number", code.group(), line, code.start(), code.end(), 0.9, None, "heading", None
                )


def _likely(value: str) -> float:
    if days(value) or re.fullmatch(r"\d{1,2}:\d{2}|\d+[.,]\d{2}|\d{1,3}%?", value):
        return 0.2
    digits = sum(letter.isdigit() for letter in value)
    if len(value) > 35:
        return 0.1
    return 1.0 if digits >= 3 else 0.8 if digits >= 2 else 0.5
