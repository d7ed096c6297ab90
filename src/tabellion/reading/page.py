"""Words and their pages, with one coordinate space for everything.

A box is `(x0, y0, x1, y1)` in 0..1 of the page as a person sees it (rotated upright), origin top left.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NotRequired

from tabellion.answers import Answer
from tabellion.messages import Message, Translatable, restore_text, translatable
from tabellion.reading.errors import CODES

Box = tuple[float, float, float, float]
OCR = Literal["auto", "never", "always"]  #: when pages are read by OCR
TextSource = Literal["text", "ocr", "model", "failed"]  #: where a page's words came from


@dataclass(frozen=True, slots=True)
class Word:
    """One word on a page."""

    text: str
    box: Box
    score: float = 1.0  #: the score of OCR; 1.0 for a text layer
    line: int = 0  #: words with the same number are on one printed line


class PageSummary(Answer):
    """A page without its words, as JSON."""

    number: int
    size: list[float]
    rotation: int
    source: str
    quality: float
    error: NotRequired[str]
    error_code: NotRequired[str | None]
    translatable: NotRequired[Translatable]
    words: NotRequired[list[Any]]  #: where requested: text, box and score of each


@dataclass(frozen=True, slots=True)
class Page:
    """One page: its words in reading order, where they came from, and how good they are."""

    number: int  #: from 1
    width: float  #: as seen, in points for a PDF and pixels for an image
    height: float
    source: TextSource
    quality: float = 1.0  #: 0..1: mean score of the OCR, or how much of a text layer looks like language
    words: tuple[Word, ...] = field(default=(), repr=False)
    rotation: int = 0  #: degrees clockwise by which it was rotated to be upright, beyond the file's own rotation
    error: str | None = None  #: why this page could not be read, when its source is "failed"
    error_code: str | None = None  #: its code, as of `Unreadable`
    slope: float = (
        0.0  #: how far lines fall, as fraction of the height per fraction of the width, on a page that is not straight
    )
    damage: str | None = None  #: why parts may be missing although it was read

    @property
    def text(self) -> str:
        """The words, one printed line per line."""
        lines: dict[int, list[str]] = {}
        for word in self.words:
            lines.setdefault(word.line, []).append(word.text)
        return "\n".join(" ".join(line) for line in lines.values())

    def summary(self) -> PageSummary:
        """The page without its words, as JSON."""
        data: PageSummary = {
            "number": self.number, "source": self.source, "quality": round(self.quality, 3),
            "size": [round(self.width, 2), round(self.height, 2)], "rotation": self.rotation,
        }  # fmt: skip
        if not self.error:
            return data
        data["error"], data["error_code"] = self.error, self.error_code
        if isinstance(self.error, Message):
            data["translatable"] = {"error": self.error.form}
        return data


def around(boxes: Iterable[Box]) -> Box:
    """The smallest box around all of them."""
    x0, y0, x1, y1 = zip(*boxes, strict=True)
    return min(x0), min(y0), max(x1), max(y1)


def serialize_page(page: Page) -> dict[str, Any]:
    """A page as JSON, its words as short rows."""
    rows = [[w.text, *(round(side, 5) for side in w.box), round(w.score, 3), w.line] for w in page.words]
    return {
        "number": page.number, "width": page.width, "height": page.height, "source": page.source,
        "quality": round(page.quality, 4), "rotation": page.rotation, "error": page.error,
        "error_code": page.error_code, "slope": round(page.slope, 6), "damage": page.damage, "words": rows,
        **translatable(error=page.error, damage=page.damage),
    }  # fmt: skip


def parse_page(data: Mapping[str, Any]) -> Page:
    """Restores the result of `serialize_page`."""
    words = tuple(
        Word(str(text), (float(x0), float(y0), float(x1), float(y1)), float(score), int(line))
        for text, x0, y0, x1, y1, score, line in data["words"]
    )
    source = data["source"]
    if source not in ("text", "ocr", "failed"):
        raise ValueError(f"no such source: {source!r}")
    error, code = data["error"], data.get("error_code")
    return Page(
        int(data["number"]), float(data["width"]), float(data["height"]), source, float(data["quality"]), words,
        int(data["rotation"]), None if error is None else str(restore_text(data, "error")),
        code if code in CODES else None,
        float(data.get("slope", 0.0)), None if data.get("damage") is None else str(restore_text(data, "damage")),
    )  # fmt: skip


def build_failed_page(
    number: int, error: str, width: float = 0.0, height: float = 0.0, *, code: str = "pdf_damaged"
) -> Page:  # fmt: skip
    """A page that could not be read, with the reason."""
    return Page(number, width, height, "failed", 0.0, error=error, error_code=code)
