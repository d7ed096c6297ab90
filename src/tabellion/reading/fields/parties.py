"""The vendor's name and address, and the customer, which must not be taken for the vendor."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from tabellion.messages import Message
from tabellion.reading.fields.addresses import NOWHERE, Address, borrow_address, find_address
from tabellion.reading.fields.labelled_text import LabelledText
from tabellion.reading.fields.layout import Line
from tabellion.reading.fields.letterhead import clean_name, is_address, is_name, legal_alone, same
from tabellion.reading.fields.vendor import REASONS, name_candidates, weights

RIVALS = 10  #: names that are kept, the chosen one included


@dataclass(frozen=True, slots=True)
class Party:
    """A name and an address, with the lines they are printed on."""

    name: str = ""
    lines: tuple[Line, ...] = ()
    address: Address = NOWHERE
    score: float = 0.0
    margin: float = 1.0
    reasons: list[str] = field(default_factory=list)
    rivals: tuple[tuple[Line, str], ...] = ()  #: other lines that may be the name, the likeliest first


def read_vendor(doc: LabelledText) -> Party:
    """The sender: the line of the first page with the highest score, and its address."""
    if not doc.layout.lines:
        return Party()
    learned = weights()
    scored = [
        (sum(learned.get(key, 0.0) * value for key, value in features.items()), line, name, features)
        for line, name, features in name_candidates(doc)
    ]
    if not scored:
        return Party()
    scored.sort(key=lambda row: -row[0])
    score, line, name, features = scored[0]
    rival = next((other[0] for other in scored[1:] if not same(other[2], name)), score - 3)
    reasons: list[str] = [Message(f"reason.{code}") for key, code in REASONS.items() if features[key]]
    lines = (line, *_rest_of_name(doc, line))
    full_name = " ".join((name, *(clean_name(part.text) for part in lines[1:])))
    address = find_address(doc, lines[-1], name)
    if not address.text:
        address = borrow_address(doc, full_name, [row[1] for row in scored])
    rivals = tuple((other, other_name) for _, other, other_name, _ in scored[1:RIVALS])
    return Party(full_name, lines, address, score, score - rival, reasons, rivals)


def read_customer(doc: LabelledText) -> Party:
    """The recipient: the first name after, beside or under a customer's label."""
    for label in doc.find_labels("customer"):
        if not label.leads or not label.exact:
            continue
        rest = label.line.text[label.end :].lstrip()
        if rest.startswith(":") and is_name(rest.lstrip(" :")):
            return Party(
                clean_name(rest.lstrip(" :")), (label.line,), score=0.8, reasons=[Message("reason.after_its_label")]
            )
        beside = [other for other in doc.layout.right(label.line)[:1] if other.box[0] - label.line.box[2] < 0.15]
        for other in [*beside, *doc.layout.below(label.line, 4.0)]:
            if (other.number in doc.customer_lines or other in beside) and is_name(other.text):
                return Party(clean_name(other.text), (other,), score=0.8, reasons=[Message("reason.under_its_label")])
    return Party()


def _rest_of_name(doc: LabelledText, line: Line) -> tuple[Line, ...]:
    """The next line, where it is only a legal form, or has the same size and begins with a small letter."""
    below = next(iter(doc.layout.below(line, 1.6)), None)
    if below is None:
        return ()
    same_height = abs(below.height / max(line.height, 1e-6) - 1) < 0.15
    continues = same_height and re.match(r"[a-zà-ÿ]", below.text) and not is_address(below.text)
    return (below,) if continues or legal_alone(below) else ()
