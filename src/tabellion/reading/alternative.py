"""Offers: the other values that a document has for a field, for a person to choose from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from typing_extensions import TypedDict

from tabellion.reading.field import Field
from tabellion.reading.page import Box

MOST = 9  #: for each field: a person takes one by its number
PAGE = "page"  #: it stands on the pages, as something else
#: What the source of a field is called where its value lost: read from the words, whichever way these were read.
_WORDS = {"text": "words", "ocr": "words", "computed": "words"}


Candidate = TypedDict(
    "Candidate", {"value": Any, "page": int | None, "box": list[float] | None, "quote": str | None, "from": str}
)
Candidate.__doc__ = "Another value that the document may have for a field."


@dataclass(frozen=True, slots=True)
class Alternative:
    """A value that a field does not have, and might."""

    value: Any  #: in the form that the field's values have
    page: int | None = None
    box: Box | None = None
    quote: str | None = None
    source: str = PAGE  #: or which reading says so: words, xml, model

    def as_dict(self) -> Candidate:
        """As JSON tells it."""
        box = [round(side, 4) for side in self.box] if self.box else None
        return {"value": self.value, "page": self.page, "box": box, "quote": self.quote, "from": self.source}

    @classmethod
    def from_dict(cls, told: Candidate) -> Alternative:
        """Made from what `as_dict` gave."""
        box, page, quote = told["box"], told["page"], told["quote"]
        return cls(
            told["value"], None if page is None else int(page),
            None if box is None else (float(box[0]), float(box[1]), float(box[2]), float(box[3])),
            None if quote is None else str(quote), str(told["from"]),
        )  # fmt: skip


Offers = Mapping[str, Sequence[Alternative]]  #: by field; also of fields that have no value


def distinct(value: Any, offers: Iterable[Alternative], most: int = MOST) -> list[Alternative]:
    """The first few offers, each value once and none of them the one that the field has."""
    seen, found = {_key(value), _key(None), _key("")}, []
    for one in offers:
        if (key := _key(one.value)) not in seen:
            seen.add(key)
            found.append(one)
            if len(found) == most:
                break
    return found


def beside(offers: Offers, chosen: Mapping[str, Field], *readings: Mapping[str, Field]) -> dict[str, list[Alternative]]:
    """The offers of fields that were chosen of several readings: what the others say comes first."""
    said: dict[str, list[Alternative]] = {}
    for reading in readings:
        for name, field in reading.items():
            said.setdefault(name, []).append(_build_alternative(field))
    found = {
        name: distinct(chosen[name].value if name in chosen else None, [*said.get(name, ()), *offers.get(name, ())])
        for name in {**chosen, **said, **offers}
    }
    return {name: some for name, some in found.items() if some}


def _build_alternative(field: Field) -> Alternative:
    return Alternative(field.value, field.page, field.box, field.quote, _WORDS.get(field.source, field.source))


def _key(value: Any) -> str:
    return " ".join(value.casefold().split()) if isinstance(value, str) else repr(value)
