"""The text of a page with how it was read, and the text and confidence of a document."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tabellion.engine.job import storable
from tabellion.reading.page import Page

BREAK = "\f"  #: between the texts of two pages


@dataclass(frozen=True, slots=True)
class PageText:
    """The text of one page."""

    number: int
    text: str
    source: str  #: text (the file's own), ocr (local), model, failed
    confidence: float | None = None  #: 0..1; None: unknown, models do not report one
    rotation: int = 0  #: degrees clockwise
    boosted: bool = False  #: whether the second pass changed its text
    error: str | None = None
    error_code: str | None = None

    @classmethod
    def of(cls, page: Page, text: str, *, boosted: bool = False) -> PageText:
        """The text of a page that was read locally."""
        confidence = None if page.source == "failed" else round(page.quality, 3)
        return cls(
            page.number, clean(text), page.source, confidence, page.rotation, boosted,
            None if page.error is None else str(page.error), page.error_code,
        )  # fmt: skip

    def as_dict(self) -> dict[str, Any]:
        """The page without its text, for the metadata column."""
        facts: dict[str, Any] = {
            "number": self.number, "source": self.source, "confidence": self.confidence, "rotation": self.rotation,
            "characters": len(self.text), "boosted": self.boosted,
        }  # fmt: skip
        return facts | ({"error": self.error, "error_code": self.error_code} if self.error else {})


def clean(text: str) -> str:
    """The text of a page as it is stored: without form feeds, which separate pages."""
    return storable(text.replace(BREAK, "\n")).strip("\n")


def join_pages(pages: Sequence[PageText]) -> str:
    """The text of a document."""
    return BREAK.join(page.text for page in pages)


def confidence_of(pages: Sequence[PageText]) -> float | None:
    """The confidence of a document: the mean of its pages weighted by their length; None if unknown."""
    known = [(page.confidence, max(1, len(page.text))) for page in pages if page.confidence is not None]
    if not known:
        return None
    return round(sum(confidence * weight for confidence, weight in known) / sum(weight for _, weight in known), 3)
