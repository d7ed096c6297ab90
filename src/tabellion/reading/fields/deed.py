"""Land-registry acts: the parties and their roles, the lots, the notary."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from tabellion.reading.fields.answer import FieldAnswer, answer_at
from tabellion.reading.fields.labelled_text import LabelledText
from tabellion.reading.fields.layout import Line
from tabellion.reading.fields.values import fold_in_place

_ROLE = re.compile(
    r"(?:ci-apres|hereinafter)\s+(?:(?:collectivement\s+)?(?:nommee?s?|appelee?s?|designee?s?|called|referred to "
    r"as)\s*)?"
    r"[:,]?\s*(?:l['’]|le |la |les |the )?[«\"“”'’‘\s]*(?:l['’]|le |la |les |the )?\s*([a-z][a-z' "
    r"-]{3,40}?)\s*[»\"“”'’.;,)\n]"
)
_BETWEEN = re.compile(
    r"(?:^|\n)\s*(?:entre|et|comparaissent|between|and|ont comparu|a comparu)\s*:?\s*\n?|(?:^|\n)\s*\d\)\s"
)
_LOTS = re.compile(r"\blots?\b(?:\s+(?:numeros?|no\.?|n[o°]s?\.?|number))?[^\d\n]{0,40}?((?:\d{1,3}(?: \d{3}){1,2}|"
r"\d{1,4}-\d{1,4}|\d{1,4})(?:\s*(?:,|et|and)\s*(?:\d{1,3}(?: \d{3}){1,2}|\d{1,4}-\d{1,4}))*)")  # fmt: skip
_LOT = re.compile(r"\d{1,3}(?: \d{3}){1,2}|\d{1,4}-\d{1,4}|\d{1,4}")
_NOTARY = re.compile(r"\b(?:Me|M[eᵉ]|Maître|maître|MAÎTRE|ME)\s+([A-ZÀ-Ý][\w'’.-]+(?:[ -][A-ZÀ-Ý][\w'’.-]+){1,4})")


def read_notary(doc: LabelledText) -> FieldAnswer | None:
    """The notary who received the act."""
    for line in doc.layout.lines:
        if (match := _NOTARY.search(line.text)) and re.search(r"notaire|notary", _after(doc, line)):
            return answer_at("notary", match[1].strip(" ,."), [line], 0.8)
    return None


def read_lots(doc: LabelledText) -> FieldAnswer | None:
    """Every lot that the act mentions."""
    lots: dict[str, Line] = {}
    for line in doc.layout.lines:
        for match in _LOTS.finditer(fold_in_place(line.text)):
            for lot in _LOT.findall(match[1]):
                lots.setdefault(lot, line)
    if not lots:
        return None
    lines = list(dict.fromkeys(lots.values()))
    page = [line for line in lines if line.page == lines[0].page]
    return answer_at("lots", [{"lot": lot} for lot in lots], page, 0.9 if any(" " in lot for lot in lots) else 0.6)


def read_parties(doc: LabelledText) -> FieldAnswer | None:
    """The parties: each passage that ends with "ci-après nommé « le vendeur »" begins with the party's name."""
    lines = doc.layout.lines
    text = "\n".join(line.text for line in lines)
    plain = fold_in_place(text)
    parties: list[dict[str, Any]] = []
    name_lines: list[Line] = []
    start = 0
    for match in _ROLE.finditer(plain):
        passage_start = max(
            (match_between.end() for match_between in _BETWEEN.finditer(plain, start, match.start())), default=start
        )
        name = _name(text[passage_start : match.start()])
        start = match.end()
        if not name:
            continue
        parties.append(
            {"name": name, "role": match[1].strip(), "address": _address(text[passage_start : match.start()])}
        )
        name_lines.append(_line_at(lines, passage_start + text[passage_start : match.start()].find(name)))
    if not parties:
        return None
    page = [line for line in name_lines if line.page == name_lines[0].page]
    return answer_at("parties", parties, page, 0.8)


READERS: dict[str, Callable[[LabelledText], FieldAnswer | None]] = {
    "notary": read_notary,
    "lots": read_lots,
    "parties": read_parties,
}


def _after(doc: LabelledText, line: Line) -> str:
    """The line and the next two, folded: "notaire" is often on the next one."""
    place = doc.layout.lines.index(line)
    return fold_in_place(" ".join(other.text for other in doc.layout.lines[place : place + 3]))


def _name(passage: str) -> str:
    words = re.sub(r"^\s*(?:ENTRE|ET|BETWEEN|AND|Entre|Et)\b\s*:?", "", passage.strip()).strip(" :\n")
    first = re.split(
        r",|\n(?=[a-zà-ý])|\s+(?:domicili|résid|demeurant|ayant|personne morale|société|née? le|of the|residing)",
        words,
        maxsplit=1,
    )[0]
    name = re.sub(r"\s+", " ", first).strip(" ,:;")
    return name if 3 <= len(name) <= 120 else ""


def _address(passage: str) -> str | None:
    match = re.search(r"(?:domicili\w* (?:et résidant )?(?:au|à)|résidant au|demeurant au|siège (?:social )?(?:au|à)|"
    r"residing at)\s+([^;]{8,160}?)(?=,?\s*(?:ci-après|représent|hereinafter|"
    r"$))", passage, re.IGNORECASE | re.DOTALL)  # fmt: skip
    return re.sub(r"\s+", " ", match[1]).strip(" ,") if match else None


def _line_at(lines: list[Line], place: int) -> Line:
    for line in lines:
        if place <= len(line.text):
            return line
        place -= len(line.text) + 1
    return lines[-1]
