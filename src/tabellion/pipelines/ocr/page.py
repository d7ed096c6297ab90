"""The text of one page with what is known of how it was made, and the document that pages make together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tabellion.engine.job import storable
from tabellion.reading.page import Page

BREAK = "\f"  #: between the texts of two pages


@dataclass(frozen=True, slots=True)
class PageText:
    """One page."""

    number: int
    text: str
    source: str  #: text (the file's own), ocr (read here), model, failed
    confidence: float | None = None  #: 0..1; None: nobody can say, for models do not
    rotation: int = 0  #: degrees clockwise that it was turned by
    boosted: bool = False  #: whether the second pass changed its text
    error: str | None = None
    error_code: str | None = None

    @classmethod
    def of(cls, page: Page, text: str, *, boosted: bool = False) -> PageText:
        """A page that was read here, with its text."""
        confidence = None if page.source == "failed" else round(page.quality, 3)
        return cls(
            page.number, clean(text), page.source, confidence, page.rotation, boosted,
            None if page.error is None else str(page.error), page.error_code,
        )  # fmt: skip

    def as_dict(self) -> dict[str, Any]:
        """Without its text, as metadata tell of it."""
        told: dict[str, Any] = {
            "number": self.number, "source": self.source, "confidence": self.confidence, "rotation": self.rotation,
            "characters": len(self.text), "boosted": self.boosted,
        }  # fmt: skip
        return told | ({"error": self.error, "error_code": self.error_code} if self.error else {})


def clean(text: str) -> str:
    """A page's text as it is stored: what parts pages stands between them only."""
    return storable(text.replace(BREAK, "\n")).strip("\n")


def join_pages(pages: Sequence[PageText]) -> str:
    """The text of a document."""
    return BREAK.join(page.text for page in pages)


def confidence_of(pages: Sequence[PageText]) -> float | None:
    """Of a document: the mean of its pages, each with the weight of its text; None where nobody can say."""
    known = [(page.confidence, max(1, len(page.text))) for page in pages if page.confidence is not None]
    if not known:
        return None
    return round(sum(one * weight for one, weight in known) / sum(weight for _, weight in known), 3)
