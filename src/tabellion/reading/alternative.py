"""Alternatives: other values for a field that the document contains, for a person to choose from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from typing_extensions import TypedDict

from tabellion.reading.field import Field
from tabellion.reading.page import Box

MOST = 9  #: per field: a person picks one by a digit key
PAGE = "page"  #: found on the pages in another role
#: The source of an alternative by the source of its field: all readings of words have one name.
_WORDS = {"text": "words", "ocr": "words", "computed": "words"}


Candidate = TypedDict(
    "Candidate", {"value": Any, "page": int | None, "box": list[float] | None, "quote": str | None, "from": str}
)
Candidate.__doc__ = "Another value that the document may have for a field."


@dataclass(frozen=True, slots=True)
class Alternative:
    """A value that a field might have instead."""

    value: Any  #: in the form of the field's kind
    page: int | None = None
    box: Box | None = None
    quote: str | None = None
    source: str = PAGE  #: or the reading it is from: words, xml, model

    def as_dict(self) -> Candidate:
        """The alternative as JSON."""
        box = [round(side, 4) for side in self.box] if self.box else None
        return {"value": self.value, "page": self.page, "box": box, "quote": self.quote, "from": self.source}

    @classmethod
    def from_dict(cls, data: Candidate) -> Alternative:
        """Restores the result of `as_dict`."""
        box, page, quote = data["box"], data["page"], data["quote"]
        return cls(
            data["value"], None if page is None else int(page),
            None if box is None else (float(box[0]), float(box[1]), float(box[2]), float(box[3])),
            None if quote is None else str(quote), str(data["from"]),
        )  # fmt: skip


Alternatives = Mapping[str, Sequence[Alternative]]  #: by field, also for fields without a value


def distinct(value: Any, offers: Iterable[Alternative], most: int = MOST) -> list[Alternative]:
    """The first few offers, each value once and without the field's own value."""
    keys, found = {_key(value), _key(None), _key("")}, []
    for offer in offers:
        if (key := _key(offer.value)) not in keys:
            keys.add(key)
            found.append(offer)
            if len(found) == most:
                break
    return found


def merge_alternatives(
    offers: Alternatives, chosen: Mapping[str, Field], *readings: Mapping[str, Field]
) -> dict[str, list[Alternative]]:
    """The offers for fields that were chosen from several readings: first the values of the other readings."""
    from_readings: dict[str, list[Alternative]] = {}
    for reading in readings:
        for name, field in reading.items():
            source = _WORDS.get(field.source, field.source)
            alternative = Alternative(field.value, field.page, field.box, field.quote, source)
            from_readings.setdefault(name, []).append(alternative)
    found = {
        name: distinct(
            chosen[name].value if name in chosen else None, [*from_readings.get(name, ()), *offers.get(name, ())]
        )
        for name in {**chosen, **from_readings, **offers}
    }
    return {name: alternatives for name, alternatives in found.items() if alternatives}


def _key(value: Any) -> str:
    return " ".join(value.casefold().split()) if isinstance(value, str) else repr(value)
