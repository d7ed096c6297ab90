"""Recognises the type of a document by the words that its types list."""

from __future__ import annotations

from collections.abc import Sequence

from tabellion.reading.fields.labels import tokens_of
from tabellion.reading.page import Page
from tabellion.reading.types.doctype import DocumentType

ENOUGH = 3000  # words: the first pages are enough to recognise a document
NARROW = 0.62  # width by height: a till's paper is narrower than any sheet


def recognise(pages: Sequence[Page], types: Sequence[DocumentType]) -> tuple[DocumentType | None, float]:
    """The most likely type and its share of the evidence; None where there is no evidence for any."""
    text = " " + " ".join(_tokens(pages)) + " "
    scores = [_score(text, kind) + _shape(pages, kind) for kind in types]
    best = max(range(len(types)), key=lambda index: (scores[index], -index))
    total = sum(scores)
    return (types[best], scores[best] / total) if total > 0 else (None, 0.0)


def _tokens(pages: Sequence[Page]) -> list[str]:
    tokens: list[str] = []
    for page in pages:
        tokens += [token for token, _, _ in tokens_of(page.text)]
        if len(tokens) > ENOUGH:
            break
    return tokens


def _score(text: str, kind: DocumentType) -> float:
    """The evidence of the text: each phrase counts once, longer ones more: "net à payer" is rarer than "total"."""
    score = 0.0
    for phrases in kind.recognise.values():
        for phrase in phrases:
            words = [token for token, _, _ in tokens_of(phrase)]
            if words and f" {' '.join(words)} " in text:
                score += 1.0 + 0.5 * (len(words) - 1)
    return score


def _shape(pages: Sequence[Page], kind: DocumentType) -> float:
    """The evidence of the page's shape: a receipt is a narrow column of words."""
    if kind.name != "receipt" or len(pages) != 1 or not pages[0].words:
        return 0.0
    page = pages[0]
    left = min(word.box[0] for word in page.words) * page.width
    right = max(word.box[2] for word in page.words) * page.width
    height = (max(word.box[3] for word in page.words) - min(word.box[1] for word in page.words)) * page.height
    return 3.0 if height > 0 and (right - left) / height < NARROW and len(page.words) < 400 else 0.0
