"""Addresses: finds the block of lines that belongs to a name."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tabellion.reading.fields.labelled_text import LabelledText
from tabellion.reading.fields.layout import Line
from tabellion.reading.fields.letterhead import (
    ADDRESSEE,
    BULLETS,
    IMPRINT,
    NOISE,
    ONLY_REGISTRATION,
    POSTAL,
    STREET,
    clean_name,
    is_address,
    is_place,
    phone_or_web,
)  # fmt: skip
from tabellion.reading.fields.values import days, fold_in_place

LONGEST = 7  # lines of an address
HOUSE = re.compile(
    r"[^\W\d_][^\d:@]*\s\d{1,4}\s?[a-zA-Z]?"
)  # a street that is not in our lists, recognised by its house number


@dataclass(frozen=True, slots=True)
class Address:
    """An address as text, and the lines it is printed on."""

    text: str = ""
    lines: tuple[Line, ...] = ()

    def certainty(self) -> float:
        """How complete it looks: a street, a town with its postal code, a usual number of lines."""
        plain = fold_in_place(self.text)
        street, town = bool(STREET.search(plain)), bool(POSTAL.search(plain))
        return 0.4 * street + 0.4 * town + 0.2 * (2 <= len(self.lines) <= 5)


NOWHERE = Address()


def find_address(doc: LabelledText, head: Line, name: str) -> Address:
    """The lines under a name: from the first that looks like an address to the first that is something else."""
    if rest := _inline(head.text, name):
        return Address(rest, (head,))
    block: list[Line] = []
    last = head.box[3]
    left, top, right, bottom = head.box
    for other in doc.layout.below(head, 24.0, box=(left - 0.05, top, right + 0.05, bottom)):
        apart = (other.box[1] - last) / max(head.height, other.height)
        if other.number in doc.customer_lines or len(block) >= LONGEST or apart > (1.3 if block else 4.0):
            break
        last = max(last, other.box[3])
        if not block:
            if is_address(other.text):
                block.append(other)
        elif _ends_address(other) or (POSTAL.search(fold_in_place(block[-1].text)) and not is_address(other.text)):
            break
        else:
            block.append(other)
    if block:
        block = [*_before(doc, head, block[0]), *block]
    return Address(" ".join(part for line in block if (part := _part(line.text))), tuple(block))


def borrow_address(doc: LabelledText, name: str, mentions: list[Line]) -> Address:
    """The address for a name that has none under it: at its other mentions, else in the letterhead or small print."""
    words = _words(name)
    for line in sorted(mentions, key=lambda line: not words & _words(line.text)):
        if words & _words(line.text) or _at_the_edge(line):
            found = find_address(doc, line, clean_name(line.text))
            if POSTAL.search(fold_in_place(found.text)):
                return found
    lines = doc.layout.lines
    for line in lines:
        if _at_the_edge(line) and line.number not in doc.customer_lines and POSTAL.search(fold_in_place(line.text)):
            above = [
                other
                for other in lines
                if other.number == line.number - 1 and other.page == line.page and is_place(other.text)
            ]
            both = (*above, line)
            return Address(", ".join(part for other in both if (part := _part(other.text))), both)
    return NOWHERE


def _words(text: str) -> set[str]:
    return set(re.findall(r"[a-z]{4,}", fold_in_place(text)))


def _at_the_edge(line: Line) -> bool:
    return line.box[1] < 0.13 or line.box[1] > 0.82


def _before(doc: LabelledText, head: Line, first: Line) -> list[Line]:
    """Lines with a number between the name and the first certain line of the address, such as "3 Old Yard"."""
    between = [
        line for line in doc.layout.below(head, 8.0)
        if line.box[1] < first.box[1] and abs(line.box[0] - first.box[0]) < 0.2 and line is not first
    ]  # fmt: skip
    found: list[Line] = []
    for line in reversed(between):
        if _ends_address(line) or not re.search(r"\d", line.text):
            break
        found.insert(0, line)
    return found


def _inline(text: str, name: str) -> str:
    """The address on the name's own line: after bullets, or after the name."""
    parts = BULLETS.split(text)[1:]
    if not parts and name and text.startswith(name):
        parts = re.split(r"(?<=[^\W\d_]{3})\.\s+|\s+[-–]\s+", text[len(name) :].strip(" ,."))
    places: list[str] = []
    for before, part in zip(["", *parts], parts, strict=False):
        if is_place(part) and not IMPRINT.search(fold_in_place(part)):
            if not places and POSTAL.match(fold_in_place(part)) and HOUSE.fullmatch(before.strip(" ,.")):
                places.append(before.strip(" ,."))
            places.append(part.strip(" ,."))
        elif places:
            break
    return ", ".join(places) if any(POSTAL.search(fold_in_place(place)) for place in places) else ""


def _ends_address(line: Line) -> bool:
    plain = fold_in_place(line.text)
    return bool(
        phone_or_web(plain)
        or NOISE.search(plain)
        or ADDRESSEE.match(plain)
        or days(line.text)
        or ONLY_REGISTRATION.match(plain)
        or not re.search(r"[^\W_]{2}", plain)
    )


def _part(text: str) -> str:
    text = re.sub(r"^(?:address|adresse|anschrift|add)\s*:\s*", "", text, flags=re.IGNORECASE)
    parts = [
        part
        for part in BULLETS.split(text)
        if not phone_or_web(fold_in_place(part)) and not IMPRINT.search(fold_in_place(part))
    ]
    text = re.split(
        r"[\s,]+(?:tel|t[eé]l|telefon|telephone|fax|phone|fon|hst|gst|vat|tva|abn|ust)\b",
        ", ".join(part.strip() for part in parts),
        flags=re.IGNORECASE,
    )[0]
    return text.strip()
