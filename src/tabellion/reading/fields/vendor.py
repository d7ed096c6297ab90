"""Scores the lines of the first page as the vendor's name: features of each line and their learned weights."""

from __future__ import annotations

import json
import re
from functools import lru_cache
from pathlib import Path

from tabellion.reading.fields.labelled_text import LabelledText, announces
from tabellion.reading.fields.layout import Line
from tabellion.reading.fields.letterhead import (
    BULLETS,
    DOMAIN,
    IMPRINT,
    LEGAL,
    POSTAL,
    STRONG,
    TRADE,
    is_address,
    legal_alone,
    name_of,
    phone_or_web,
)  # fmt: skip
from tabellion.reading.fields.values import fold_in_place

WEIGHTS = Path(__file__).with_name("vendor.json")  #: fitted by `python -m bench.rank`


#: Features that are shown to people as reasons, and their message codes.
REASONS = {
    "legal": "legal_form", "trade": "trade_word", "above_address": "above_address", "sender_line": "sender_line",
    "labelled": "labelled", "repeated": "repeated", "domain": "like_web_site", "imprint": "small_print",
}  # fmt: skip


def name_candidates(doc: LabelledText) -> list[tuple[Line, str, dict[str, float]]]:
    """Every line of the first page that may be the vendor's name, from top to bottom, with its features."""
    first = min(line.page for line in doc.layout.lines)
    lines = sorted(
        (line for line in doc.layout.lines if line.page == first), key=lambda line: (line.box[1], line.box[0])
    )
    usual = sorted(line.height for line in lines)[len(lines) // 2]
    customer = doc.customer_lines
    found: list[tuple[Line, str, dict[str, float]]] = []
    for line in lines:
        if name := name_of(line, customer):
            found.append((line, name, name_features(doc, line, name, customer, len(found), usual)))
    return found


def name_features(
    doc: LabelledText, line: Line, name: str, customer: set[int], rank: int, usual: float
) -> dict[str, float]:
    """The evidence for and against a line being the vendor's name, as numbers."""
    plain = fold_in_place(name)
    below = [other for other in doc.layout.below(line, 7.0) if other.number not in customer][:5]
    following = below[0] if below else None
    legal = bool(LEGAL.search(plain)) or (following is not None and legal_alone(following))
    top = line.box[1]
    texts = [fold_in_place(other.text) for other in (line, *below)]
    contact = any(phone_or_web(text) or IMPRINT.search(text) for text in texts)
    postal = any(POSTAL.search(text) for text in texts[1:])
    return {
        "legal": float(legal),
        "strong_legal": float(bool(STRONG.search(plain))),
        "trade": float(bool(TRADE.search(plain))),
        "first": float(rank == 0),
        "rank": min(rank, 8) / 8,
        "middle": float(0.42 < top <= 0.82),
        "foot": float(top > 0.82),
        "tall": min(max(line.height / max(usual, 1e-6) - 1.0, 0.0), 1.5),
        "misread": float(line.score < 0.93),
        "small": float(name[:1].islower()),
        "above_address": float(any(is_address(other.text) for other in below)),
        "sender_line": float(_is_sender_line(doc, line)),
        "labelled": float(_is_announced(doc, line)),
        "repeated": float(
            len(plain) > 5
            and any(plain in fold_in_place(other.text) for other in doc.layout.lines if other is not line)
        ),
        "domain": float(_like_a_domain(doc, plain)),
        "imprint": float(top > 0.82 and _in_imprint(doc, line)),
        "contact": float(contact and top < 0.42),
        "window": float(not contact and postal and 0.1 < top < 0.36),
        "long": float(len(name.split()) > 6),
        "words": min(len(name.split()), 6) / 6,
    }


@lru_cache(maxsize=1)
def weights() -> dict[str, float]:
    """The weight of each feature."""
    loaded: dict[str, float] = json.loads(WEIGHTS.read_text(encoding="utf-8"))["weights"]
    return loaded


def _is_sender_line(doc: LabelledText, line: Line) -> bool:
    """Whether a line has both a name and an address, and no name right above that the whole line is the address of."""
    if not BULLETS.search(line.text) or not is_address(BULLETS.split(line.text, maxsplit=1)[-1]):
        return False
    place = doc.layout.place(line)
    above = [other for row in doc.layout.rows[max(place - 1, 0) : place] for other in row if other.page == line.page]
    return not any(
        line.box[1] - other.box[3] < 1.2 * line.height and other.box[0] < line.box[2] and line.box[0] < other.box[2]
        and other.height >= line.height and name_of(other, set())
        for other in above
    )  # fmt: skip


def _like_a_domain(doc: LabelledText, plain: str) -> bool:
    """Whether the domain of a web site or mail address contains the name or one of its words."""
    squeezed = re.sub(r"[^a-z0-9]", "", plain)
    words = re.findall(r"[a-z]{4,}", plain)
    return any(
        (bare := domain.replace("-", "")) in squeezed or any(word in bare for word in words)
        for domain in set(DOMAIN.findall(doc.plain))
    )


def _in_imprint(doc: LabelledText, line: Line) -> bool:
    """Whether tax ids, registers or bank accounts are printed near the line."""
    place = doc.layout.place(line)
    near = [other for row in doc.layout.rows[max(place - 2, 0) : place + 4] for other in row if other.page == line.page]
    return any(IMPRINT.search(fold_in_place(other.text)) for other in near)


def _is_announced(doc: LabelledText, line: Line) -> bool:
    """Whether the vendor's label is before the line, or heads the block in which the line is the name."""
    beside = [other for other in doc.layout.row(line) if other.box[0] <= line.box[0]]
    if any(
        label.field == "vendor" and announces(label) for other in beside for label in doc.on_line.get(other.number, ())
    ):
        return True
    has_name_label = any(
        re.match(r"\W*(?:name|nom|firma|raison sociale)\b", fold_in_place(other.text)) for other in beside
    )
    place = doc.layout.place(line)
    between = 0
    for row in reversed(doc.layout.rows[max(place - 6, 0) : place]):
        heads = [
            label
            for other in row
            if other.page == line.page and other.box[0] <= line.box[0] + 0.02
            for label in doc.on_line.get(other.number, ())
            if label.leads
        ]
        if any(label.field == "customer" and announces(label) for label in heads):
            return False
        if any(label.field == "vendor" and label.exact and announces(label) for label in heads):
            return has_name_label or between == 0
        between += any(abs(other.box[0] - line.box[0]) < 0.05 and name_of(other, set()) != "" for other in row)
    return False
