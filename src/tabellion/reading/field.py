"""A field that was read: its value, position, confidence and the reasons for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, NotRequired

from tabellion.answers import Answer, Doc
from tabellion.messages import Message, Translatable, translatable
from tabellion.reading.page import Box


class FieldJson(Answer):
    """A field as JSON."""

    value: Any
    confidence: float
    page: int | None
    box: Annotated[list[float] | None, Doc("x0, y0, x1, y1 as fractions of the page, from the top left corner.")]
    quote: str | None
    source: str
    reasons: list[str]
    translatable: NotRequired[Translatable]


@dataclass(frozen=True, slots=True)
class Field:
    """One value of a document, with its evidence."""

    value: Any  #: normalised: ISO dates, decimal strings, ISO currency; a list of dicts for line items
    confidence: float = 0.0  #: the probability that the value is right
    page: int | None = None
    box: Box | None = None
    quote: str | None = None  #: the words of the page it was read from
    source: str = "text"  #: xml, text, ocr, model, or computed from other fields
    reasons: tuple[str, ...] = ()  #: messages: compare their codes

    def as_dict(self) -> FieldJson:
        """The field as JSON."""
        box = [round(side, 4) for side in self.box] if self.box else None
        return {
            "value": self.value, "confidence": round(self.confidence, 3), "page": self.page, "box": box,
            "quote": self.quote, "source": self.source, "reasons": list(self.reasons),
            **translatable(reasons=self.reasons),
        }  # fmt: skip


def serialize_reasons(reasons: Iterable[str]) -> list[Any]:
    """Reasons for storage in a column: each a text, with its code and parameters where it has them."""
    return [{"text": reason, **reason.form} if isinstance(reason, Message) else reason for reason in reasons]


def restore_reasons(stored: Iterable[Any] | None) -> list[str]:
    """Reasons from storage."""
    return [
        Message.from_stored(reason["text"], reason) if isinstance(reason, Mapping) else _former(reason)
        for reason in stored or ()
    ]


def _former(text: str) -> str:
    """A reason that was stored without its code; "ungrounded" gets it back, because it decides whether to review."""
    return Message("reason.ungrounded") if text == "ungrounded" else text
