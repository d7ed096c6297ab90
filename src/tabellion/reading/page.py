"""Words and the pages they stand on, with one coordinate space for everything.

A box is `(x0, y0, x1, y1)` in 0..1 of the page as a person sees it (turned upright), origin top left.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NotRequired

from tabellion.answers import Answer
from tabellion.messages import Message, Translatable, restore_text, translatable
from tabellion.reading.errors import CODES

Box = tuple[float, float, float, float]
Source = Literal["text", "ocr", "model", "failed"]  #: where a page's words came from


@dataclass(frozen=True, slots=True)
class Word:
    """One word as it stands on the page."""

    text: str
    box: Box
    score: float = 1.0  #: how sure its reader was; 1.0 for a text layer
    line: int = 0  #: words with the same number stand on one printed line


class PageSummary(Answer):
    """A page without its words, as JSON tells it."""

    number: int
    size: list[float]
    rotation: int
    source: str
    quality: float
    error: NotRequired[str]
    error_code: NotRequired[str | None]
    translatable: NotRequired[Translatable]
    words: NotRequired[list[Any]]  #: where they are asked for: text, box and score of each


@dataclass(frozen=True, slots=True)
class Page:
    """One page: its words in reading order, where they came from, and how good they are."""

    number: int  #: from 1
    width: float  #: as seen, in points for a PDF and pixels for an image
    height: float
    source: Source
    quality: float = 1.0  #: 0..1: mean score of the OCR, or how much of a text layer looks like language
    words: tuple[Word, ...] = field(default=(), repr=False)
    rotation: int = 0  #: degrees clockwise it was turned by to stand upright, beyond what the file itself says
    error: str | None = None  #: why this page could not be read, when its source is "failed"
    error_code: str | None = None  #: the same as one of the codes of `Unreadable`
    slope: float = 0.0  #: how far lines fall, in shares of the height, per share of the width: the page lies askew
    damage: str | None = None  #: why something of it may be missing although it was read

    @property
    def text(self) -> str:
        """The words, a printed line each."""
        lines: dict[int, list[str]] = {}
        for word in self.words:
            lines.setdefault(word.line, []).append(word.text)
        return "\n".join(" ".join(line) for line in lines.values())

    def summary(self) -> PageSummary:
        """What is told about a page without its words."""
        told: PageSummary = {
            "number": self.number, "source": self.source, "quality": round(self.quality, 3),
            "size": [round(self.width, 2), round(self.height, 2)], "rotation": self.rotation,
        }  # fmt: skip
        if not self.error:
            return told
        told["error"], told["error_code"] = self.error, self.error_code
        if isinstance(self.error, Message):
            told["translatable"] = {"error": self.error.form}
        return told


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


def parse_page(told: Mapping[str, Any]) -> Page:
    """A page from what `serialize_page` gave."""
    words = tuple(
        Word(str(text), (float(x0), float(y0), float(x1), float(y1)), float(score), int(line))
        for text, x0, y0, x1, y1, score, line in told["words"]
    )
    source = told["source"]
    if source not in ("text", "ocr", "failed"):
        raise ValueError(f"no such source: {source!r}")
    error, code = told["error"], told.get("error_code")
    return Page(
        int(told["number"]), float(told["width"]), float(told["height"]), source, float(told["quality"]), words,
        int(told["rotation"]), None if error is None else str(restore_text(told, "error")),
        code if code in CODES else None,
        float(told.get("slope", 0.0)), None if told.get("damage") is None else str(restore_text(told, "damage")),
    )  # fmt: skip
