"""Why a person must review a document: everything about its reading that is uncertain."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, NotRequired, cast

from tabellion.answers import Answer
from tabellion.messages import Message, Translatable, has_code, translatable
from tabellion.pipelines.documents.extracted_fields import PERSON
from tabellion.pipelines.documents.judging import judge_issues
from tabellion.pipelines.documents.locks import Locks
from tabellion.reading.alternative import merge_alternatives
from tabellion.reading.reader import Reading
from tabellion.reading.types.doctype import DocumentType

POOR = 0.5  #: quality of a page below which its words are unreliable
UNSURE = 0.5  #: share of the evidence that a detected type needs
MOST = 100  #: reasons; nobody reads more

#: Every reason and what it means. Codes are stable: people script against them.
REASONS = {
    code: Message(f"review_reason.{code}")
    for code in (
        "low_confidence", "missing", "ungrounded", "issue", "damaged", "page_failed", "page_poor", "type_uncertain",
        "reread", "sampled", "always",
    )
}  # fmt: skip


class Reason(Answer):
    """Why the document needs review."""

    code: str
    message: str
    translatable: NotRequired[Translatable]
    fields: list[str]
    certainty: NotRequired[float]
    confidence: NotRequired[float]
    threshold: NotRequired[float]
    issue: NotRequired[str]
    severity: NotRequired[str]
    page: NotRequired[int]


def find_doubts(reading: Reading, doctype: DocumentType, *, asked: bool) -> list[Reason]:
    """The reasons for doubt in the order of the type's fields; `asked`: the type was requested, not detected."""
    found = [*_type(reading, asked), *_fields(reading, doctype), *_issues(reading), *_pages(reading)]
    return found[:MOST]


def review(found: list[Reason], doctype: DocumentType, document: str) -> list[Reason]:
    """The reasons for reviewing this document; empty: no review."""
    processing = doctype.processing
    if processing.review == "never":
        return []
    if found:
        return found
    if processing.review == "always":
        return [_reason("always", REASONS["always"])]
    if is_sampled(document, processing.sampling):
        return [_reason("sampled", Message("review_reason.sampled_share", n=processing.sampling))]
    return []


def is_sampled(document: str, percent: float) -> bool:
    """Whether a document without doubts is reviewed anyway. Its id alone decides: reading it again changes nothing."""
    return int.from_bytes(hashlib.sha256(document.encode()).digest()[:4], "big") / 2**32 * 100 < percent


def explain_departures(names: Iterable[str]) -> list[Reason]:
    """The doubts about fields whose values differ from what was approved."""
    return [_reason("reread", Message("review_reason.field_reread", field=name), name) for name in names]


def apply_locks(reading: Reading, locks: Locks, doctype: DocumentType) -> Reading:
    """The reading with people's values in place of what was read, judged again."""
    held = {name: field for name, field in locks.fields.items() if name in doctype}
    settled = {name for name in locks.decided_fields(reading.fields) if name in doctype}
    if not settled:
        return reading
    fields = {**reading.fields, **held}
    fields = {spec.name: fields[spec.name] for spec in doctype.fields if spec.name in fields}
    values = {name: field.value for name, field in fields.items()}
    return replace(
        reading, fields=fields, issues=judge_issues(reading.issues, values, doctype, settled, locks.absent),
        offers=merge_alternatives(reading.offers, fields, reading.fields),
    )  # fmt: skip


def _type(reading: Reading, asked: bool) -> Iterator[Reason]:
    if reading.type is None:
        yield _reason("type_uncertain", Message("note.no_type"), certainty=0.0)
    elif not asked and reading.certainty < UNSURE:
        share = f"{reading.certainty:.0%}".rstrip("%")
        message = Message("review_reason.type_guessed", type=reading.type, share=share)
        yield _reason("type_uncertain", message, certainty=round(reading.certainty, 3))


def _fields(reading: Reading, doctype: DocumentType) -> Iterator[Reason]:
    for spec in doctype.fields:
        field = reading.fields.get(spec.name)
        if field is None or field.source == PERSON:
            continue
        if has_code(field.reasons, "reason.ungrounded"):
            yield _reason("ungrounded", Message("review_reason.field_ungrounded", field=spec.name), spec.name)
        if field.confidence < spec.threshold:
            confidence = _below(field.confidence, spec.threshold)
            message = Message(
                "review_reason.field_low_confidence", field=spec.name, n=confidence, threshold=f"{spec.threshold:.3g}"
            )
            yield _reason(
                "low_confidence", message, spec.name, confidence=round(field.confidence, 3), threshold=spec.threshold
            )


def _issues(reading: Reading) -> Iterator[Reason]:
    for issue in reading.issues:
        if issue.code == "ungrounded":
            continue  # reported for the field already
        code = issue.code if issue.code in ("missing", "damaged") else "issue"
        yield _reason(code, issue.message, *issue.fields, issue=issue.code, severity=issue.severity)


def _pages(reading: Reading) -> Iterator[Reason]:
    for page in reading.pages:
        if page.source == "failed":
            because = page.error or Message("unreadable.page")
            message = Message("review_reason.page_failed_because", n=page.number, detail=because)
            yield _reason("page_failed", message, page=page.number)
        elif page.quality < POOR:
            message = Message("review_reason.page_poor_quality", n=page.number, quality=f"{page.quality:.2f}")
            yield _reason("page_poor", message, page=page.number)


def _below(confidence: float, threshold: float) -> str:
    """A confidence below its threshold, with enough digits to show that it is."""
    shown = f"{confidence:.2f}"
    return shown if float(shown) < threshold else f"{math.floor(confidence * 1000) / 1000:.3f}"


def _reason(code: str, message: str, *fields: str, **facts: Any) -> Reason:
    reason = {"code": code, "message": message, "fields": list(fields), **facts, **translatable(message=message)}
    return cast("Reason", reason)
