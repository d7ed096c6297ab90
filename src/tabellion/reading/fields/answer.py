"""A field's answer before its confidence: the value, the words it came from, and the evidence for it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tabellion.messages import Message, quote_value
from tabellion.reading.fields.candidates import FieldCandidate
from tabellion.reading.fields.layout import Line
from tabellion.reading.page import Box, around

#: Positions of a value relative to its label.
PLACES = ("after", "beside", "below")


@dataclass(slots=True)
class FieldAnswer:
    """The value read for one field, with the evidence for and against it."""

    name: str
    value: Any
    page: int
    box: Box
    quote: str
    source: str
    score: float  #: how well its position and label fit, 0..1 or a little more
    margin: float = 1.0  #: score difference to the next best value
    reading: float = 1.0  #: the reader's score of the words
    rivals: int = 0
    proofs: list[str] = field(default_factory=list)  #: what else in the document confirms it
    doubts: list[str] = field(default_factory=list)
    ceiling: float = 1.0  #: the highest confidence, whatever the evidence
    reasons: list[str] = field(default_factory=list)
    others: Sequence[FieldCandidate] = ()  #: the rejected candidates, the best first
    found: Any = None  #: the parser's result

    def features(self) -> dict[str, float]:
        """The evidence as numbers, the input of the calibrated model."""
        return {
            "score": min(self.score, 2.0),
            "margin": min(self.margin, 1.5),
            "misread": min((1.0 - self.reading) * 10, 3.0),
            "rivals": math.log1p(self.rivals),
            "proofs": float(min(len(self.proofs), 2)),
            "doubts": float(min(len(self.doubts), 2)),
            "ocr": float(self.source == "ocr"),
        }


def answer_of(candidates: Sequence[FieldCandidate], value: Any = None) -> FieldAnswer | None:
    """The best candidate as an answer; the others are its rivals."""
    if not candidates:
        return None
    best = candidates[0]
    others = [candidate for candidate in candidates[1:] if candidate.value != best.value]
    words = best.line.words_at(best.start, best.end) or best.line.words
    return FieldAnswer(
        name=best.field,
        value=best.value if value is None else value,
        page=best.line.page,
        box=best.box,
        quote=best.quote,
        source="ocr" if best.line.source == "ocr" else "text",
        score=best.score,
        margin=best.score - others[0].score if others else 1.0,
        reading=min(word.score for word in words),
        rivals=len({str(candidate.value) for candidate in others}),
        reasons=[_where(best), *best.reasons, beside(len(others))],
        others=others,
        found=best.found,
    )


def beside(rivals: int) -> str:
    """The reason that counts the other candidates."""
    return Message("reason.other_candidates", n=rivals) if rivals else Message("reason.single_candidate")


def _where(best: FieldCandidate) -> str:
    if best.label is None:
        return Message(f"reason.{best.how.lower()}")
    if best.how in PLACES:
        return Message(f"reason.{best.how}_label", label=quote_value(best.label.phrase))
    return Message(
        "reason.with_label", detail=Message(f"reason.{best.how.lower()}"), label=quote_value(best.label.phrase)
    )


def answer_at(name: str, value: Any, lines: Sequence[Line], score: float, **more: Any) -> FieldAnswer:
    """An answer whose value was read from whole lines."""
    return FieldAnswer(
        name=name, value=value, page=lines[0].page, box=around([line.box for line in lines]),
        quote="\n".join(line.text for line in lines), source="ocr" if lines[0].source == "ocr" else "text",
        score=score, reading=min(line.score for line in lines), **more,
    )  # fmt: skip
