"""A field that was read: its value, where it stands, how sure we are, and why."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, NotRequired

from tabellion.answers import Answer, Doc
from tabellion.messages import Message, Translatable, translatable
from tabellion.reading.page import Box


class ToldField(Answer):
    """A field as JSON tells it."""

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
    """One value of a document."""

    value: Any  #: normalised: ISO dates, decimal strings, ISO currency; a list of dicts for line items
    confidence: float = 0.0  #: the chance that the value is right
    page: int | None = None
    box: Box | None = None
    quote: str | None = None  #: the words of the page that say so
    source: str = "text"  #: xml, text, ocr, model, or computed from other fields
    reasons: tuple[str, ...] = ()  #: messages: compare their codes

    def as_dict(self) -> ToldField:
        """As JSON tells it."""
        box = [round(side, 4) for side in self.box] if self.box else None
        return {
            "value": self.value, "confidence": round(self.confidence, 3), "page": self.page, "box": box,
            "quote": self.quote, "source": self.source, "reasons": list(self.reasons),
            **translatable(reasons=self.reasons),
        }  # fmt: skip


def serialize_reasons(reasons: Iterable[str]) -> list[Any]:
    """Reasons as a column keeps them: each a text, with its code and parameters where it has them."""
    return [{"text": one, **one.form} if isinstance(one, Message) else one for one in reasons]


def restore_reasons(stored: Iterable[Any] | None) -> list[str]:
    """Reasons from what a column keeps."""
    return [Message.from_stored(one["text"], one) if isinstance(one, Mapping) else _former(one) for one in stored or ()]


def _former(text: str) -> str:
    """A reason that was kept without its code; one of them decides whether somebody has to look."""
    return Message("reason.ungrounded") if text == "ungrounded" else text
