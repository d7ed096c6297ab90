"""Why a person must look at a document: everything about its reading that is not sure."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from tabellion.pipelines.documents.judging import judged
from tabellion.pipelines.documents.locks import PERSON, Locks
from tabellion.reading.alternative import beside
from tabellion.reading.reader import Reading
from tabellion.reading.types.doctype import DocumentType

POOR = 0.5  #: quality of a page below which its words are not to be relied on
UNSURE = 0.5  #: share of the evidence that must speak for a type that nobody asked for
MOST = 100  #: reasons; nobody reads more

#: Every reason and what it means. Codes are stable: people script against them.
REASONS = {
    "low_confidence": "a field is less sure than its type demands",
    "missing": "a required field was not found",
    "ungrounded": "the model says so, and no words on the pages do",
    "issue": "something is wrong with the values",
    "damaged": "the file is cut off or damaged: something may be missing",
    "page_failed": "a page could not be read",
    "page_poor": "a page is hard to read",
    "type_uncertain": "it is not clear which type of document it is",
    "reread": "a later reading says something else than what was approved",
    "sampled": "nobody doubts it; it was drawn for a look all the same",
    "always": "documents of this type are always looked at",
}

#: Those about the document itself. The others say how sure we are of values that may well be right.
GRAVE = ("missing", "ungrounded", "issue", "page_failed", "type_uncertain")

Doubt = dict[str, Any]


def doubts(reading: Reading, doctype: DocumentType, *, asked: bool) -> list[Doubt]:
    """What is not sure, in the order of the type's fields; `asked`: whether the type was said and not found out."""
    found = [*_type(reading, asked), *_fields(reading, doctype), *_issues(reading), *_pages(reading)]
    return found[:MOST]


def verdict(reading: Reading, found: list[Doubt]) -> str:
    """The reading's verdict; never `accept` where a doubt is about the document and not only about our sureness."""
    judged = reading.verdict
    return "warn" if judged == "accept" and any(doubt["code"] in GRAVE for doubt in found) else judged


def review(found: list[Doubt], doctype: DocumentType, document: str) -> list[Doubt]:
    """The reasons for showing this document to somebody; none: nobody need look.

    Whether a document without doubts is drawn depends on its id alone: reading it again draws no other lot.
    """
    rules_ = doctype.processing
    if rules_.review == "never":
        return []
    if found:
        return found
    if rules_.review == "always":
        return [_doubt("always", REASONS["always"])]
    lot = int.from_bytes(hashlib.sha256(document.encode()).digest()[:4], "big") / 2**32 * 100
    return [_doubt("sampled", f"drawn as one of {rules_.sampling:g} %")] if lot < rules_.sampling else []


def reread(names: Iterable[str]) -> list[Doubt]:
    """The doubts about fields that are not what was approved."""
    return [_doubt("reread", f"{name}: {REASONS['reread']}", name) for name in names]


def corrected(reading: Reading, locks: Locks, doctype: DocumentType) -> Reading:
    """The reading with what people said in place of what was read, judged anew."""
    held = {name: field for name, field in locks.fields.items() if name in doctype}
    if not held:
        return reading
    fields = {**reading.fields, **held}
    fields = {one.name: fields[one.name] for one in doctype.fields if one.name in fields}
    values = {name: field.value for name, field in fields.items()}
    return replace(
        reading, fields=fields, issues=judged(reading.issues, values, doctype, held.keys(), locks.absent),
        offers=beside(reading.offers, fields, reading.fields),
    )  # fmt: skip


def _type(reading: Reading, asked: bool) -> Iterator[Doubt]:
    if reading.type is None:
        yield _doubt("type_uncertain", "it is none of the types there are", certainty=0.0)
    elif not asked and reading.certainty < UNSURE:
        message = f"taken for {reading.type}, for which {reading.certainty:.0%} of the evidence speaks"
        yield _doubt("type_uncertain", message, certainty=round(reading.certainty, 3))


def _fields(reading: Reading, doctype: DocumentType) -> Iterator[Doubt]:
    for one in doctype.fields:
        field = reading.fields.get(one.name)
        if field is None or field.source == PERSON:
            continue
        if "ungrounded" in field.reasons:
            yield _doubt("ungrounded", f"{one.name}: {REASONS['ungrounded']}", one.name)
        if field.confidence < one.threshold:
            confidence = _below(field.confidence, one.threshold)
            message = f"{one.name}: low confidence, {confidence} (threshold {one.threshold:.3g})"
            yield _doubt(
                "low_confidence", message, one.name, confidence=round(field.confidence, 3), threshold=one.threshold
            )


def _issues(reading: Reading) -> Iterator[Doubt]:
    for issue in reading.issues:
        if issue.code == "ungrounded":
            continue  # said of the field already
        code = issue.code if issue.code in ("missing", "damaged") else "issue"
        yield _doubt(code, issue.message, *issue.fields, issue=issue.code, severity=issue.severity)


def _pages(reading: Reading) -> Iterator[Doubt]:
    for page in reading.pages:
        if page.source == "failed":
            yield _doubt("page_failed", f"page {page.number}: {page.error or 'could not be read'}", page=page.number)
        elif page.quality < POOR:
            message = f"page {page.number} is hard to read: quality {page.quality:.2f}"
            yield _doubt("page_poor", message, page=page.number)


def _below(confidence: float, threshold: float) -> str:
    """A confidence that is below its threshold, in so many digits that it looks so."""
    shown = f"{confidence:.2f}"
    return shown if float(shown) < threshold else f"{math.floor(confidence * 1000) / 1000:.3f}"


def _doubt(code: str, message: str, *fields: str, **facts: Any) -> Doubt:
    return {"code": code, "message": message, "fields": list(fields), **facts}
