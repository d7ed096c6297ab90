"""Why a document needs review, and when it does not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tabellion.engine.ids import new_id
from tabellion.messages import Message
from tabellion.pipelines.documents.extracted_fields import PERSON
from tabellion.pipelines.documents.judging import verdict
from tabellion.pipelines.documents.locks import Locks
from tabellion.pipelines.documents.review_reasons import REASONS, Reason, apply_locks, find_doubts, review
from tabellion.reading.field import Field
from tabellion.reading.issue import Issue
from tabellion.reading.page import Page
from tabellion.reading.reader import Reading
from tabellion.reading.types.doctype import DocumentType, ProcessingOptions
from tests.models.bills import SMALL

SURE = {"vendor": Field("Acme", 0.95), "total": Field("120.00", 0.99)}
PAGE = Page(1, 1, 1, "text")


def reading(**changes: Any) -> Reading:
    return replace(Reading("x.pdf", type="small", pages=(PAGE,), fields=SURE), **changes)


def codes(one: Reading, *, asked: bool = True) -> list[str]:
    found = find_doubts(one, SMALL, asked=asked)
    assert all(doubt["code"] in REASONS and doubt["message"] for doubt in found)
    return [doubt["code"] for doubt in found]


def having(**processing: Any) -> DocumentType:
    return replace(SMALL, processing=ProcessingOptions(**processing))


def test_a_certain_reading_has_no_doubts() -> None:
    """Nothing below its threshold, nothing wrong, every page read."""
    assert codes(reading()) == []


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"fields": {**SURE, "total": Field("120.00", 0.79)}}, "low_confidence"),
        ({"fields": {**SURE, "tax": Field("20.00", 0.5)}}, "low_confidence"),
        ({"fields": {**SURE, "tax": Field("20.00", 0.9, reasons=(Message("reason.ungrounded"),))}}, "ungrounded"),
        ({"issues": (Issue("missing", "error", "total is missing", ("total",)),)}, "missing"),
        ({"issues": (Issue("rule", "warning", "does not add up", ("total", "tax")),)}, "issue"),
        ({"issues": (Issue("damaged", "warning", "the image is cut off"),)}, "damaged"),
        ({"pages": (PAGE, replace(PAGE, number=2, source="failed", error="torn"))}, "page_failed"),
        ({"pages": (replace(PAGE, source="ocr", quality=0.4),)}, "page_poor"),
    ],
)  # fmt: skip
def test_each_doubt_has_its_code(changes: dict[str, Any], code: str) -> None:
    """For fields, issues and pages."""
    assert codes(reading(**changes)) == [code]


@pytest.mark.parametrize(
    ("confidence", "said"), [(0.5, "0.50"), (0.796, "0.796"), (0.79999, "0.799"), (0.7949, "0.79")]
)
def test_a_value_below_the_threshold_is_shown_as_below(confidence: float, said: str) -> None:
    """Not as 0.80 where 0.8 is required."""
    [doubt] = find_doubts(reading(fields={**SURE, "total": Field("120.00", confidence)}), SMALL, asked=True)
    assert doubt["message"] == f"total: low confidence, {said} (threshold 0.8)"


@pytest.mark.parametrize(
    ("changes", "judged"),
    [
        ({}, "accept"),
        ({"fields": {**SURE, "total": Field("120.00", 0.79)}}, "accept"),
        ({"pages": (replace(PAGE, source="ocr", quality=0.4),)}, "accept"),
        ({"pages": (PAGE, replace(PAGE, number=2, source="failed", error="torn"))}, "warn"),
        ({"certainty": 0.4}, "warn"),
        ({"type": None}, "warn"),
        ({"issues": (Issue("missing", "error", "total is missing", ("total",)),)}, "reject"),
    ],
)
def test_low_confidence_needs_review_but_does_not_reject(changes: dict[str, Any], judged: str) -> None:
    """A value that may well be right does not prevent acceptance; an unknown document, or one with missing
    values, does.
    """
    one = reading(**changes)
    assert verdict(one.verdict, find_doubts(one, SMALL, asked=False)) == judged


def test_a_detected_type_may_be_doubted() -> None:
    """A requested one is not."""
    one = reading(certainty=0.4)
    assert codes(one, asked=False) == ["type_uncertain"]
    assert codes(one, asked=True) == []


def test_a_decided_field_is_not_doubted() -> None:
    """However low the confidence was."""
    assert codes(reading(fields={**SURE, "total": Field("120.00", 0.1, source=PERSON)})) == []


def test_reasons_follow_the_policy_of_the_type() -> None:
    """Doubtful: the doubts; never: none; always: at least that."""
    some: list[Reason] = [{"code": "missing", "message": "x", "fields": []}]
    assert review(some, having(), "d") == some
    assert review([], having(), "d") == []
    assert review(some, having(review="never"), "d") == []
    assert review(some, having(review="always"), "d") == some
    assert [one["code"] for one in review([], having(review="always"), "d")] == ["always"]


def test_sampling_is_proportional_and_repeatable() -> None:
    """Ten percent of many, decided by the id alone."""
    ids = [new_id() for _ in range(5000)]
    doctype = having(sampling=10)
    drawn = [one for one in ids if review([], doctype, one)]
    assert 0.07 < len(drawn) / len(ids) < 0.13
    assert drawn == [one for one in ids if review([], doctype, one)]
    assert not any(review([], having(sampling=0), one) for one in ids)
    assert all(review([], having(sampling=100), one) for one in ids)


def test_a_correction_replaces_what_was_read_and_is_judged() -> None:
    """The value, its confidence and the rules; issues it fixes disappear, issues it causes appear."""
    wrong = reading(
        fields={"vendor": Field("Acme", 0.95), "subtotal": Field("100.00", 0.9), "tax": Field("20.00", 0.9),
                "total": Field("12.00", 0.9, 1, (0.1, 0.1, 0.2, 0.2))},
        issues=(Issue("rule", "error", "the rule 'adds up' is not met", ("total", "subtotal", "tax"), "adds up"),
                Issue("ungrounded", "warning", "no words", ("total",), "grounding"),
                Issue("xml_differs", "warning", "no", ("vendor",), "the same invoice twice")),
    )  # fmt: skip
    correction = Field("120.00", 1.0, 2, (0.3, 0.3, 0.4, 0.4), "120", PERSON)
    right = apply_locks(wrong, Locks({"total": correction, "elsewhere": Field(1)}), SMALL)
    assert (right.fields["total"].value, right.fields["total"].confidence) == ("120.00", 1.0)
    assert right.fields["total"] == correction
    assert [(one.value, one.page, one.source) for one in right.offers["total"]] == [("12.00", 1, "words")]
    assert [issue.code for issue in right.issues] == ["xml_differs"]
    assert list(right.fields) == ["vendor", "subtotal", "tax", "total"]
    broken = apply_locks(right, Locks({"tax": Field("1.00", 1.0)}), SMALL)
    assert [issue.code for issue in broken.issues] == ["rule", "xml_differs"]
    assert apply_locks(wrong, Locks(), SMALL) is wrong


def test_a_field_marked_absent_is_not_missing() -> None:
    """Even if its type requires it."""
    bare = reading(fields={"total": Field("12.00", 0.9)})
    missing = Issue("missing", "error", "vendor is missing", ("vendor",))
    gone = Locks({"vendor": Field(None, 1.0, source=PERSON)}, absent=frozenset({"vendor"}))
    result = apply_locks(replace(bare, issues=(missing,)), gone, SMALL)
    assert [issue.fields for issue in result.issues if issue.code == "missing"] == []
    assert result.fields["vendor"].value is None
