"""One judgement of what is wrong, for every caller."""

from __future__ import annotations

import pytest

from tabellion.pipelines.documents.judging import (
    DocumentResult,
    field_of,
    issue_of,
    judge,
    judge_issues,
    read_issues,
    verdict,
)
from tabellion.pipelines.documents.review import fields
from tabellion.pipelines.documents.review_reasons import Reason
from tabellion.reading.issue import Issue
from tabellion.reading.types import typefile
from tabellion.reading.types.rules import Verdict

TYPE = typefile.compile_type(
    """name: bill
version: "1"
fields:
  net: {type: money, required: true}
  tax: {type: money}
  total: {type: money, required: true}
validation:
  - {name: sums, rule: "net + tax == total", message: "net and tax are not the total"}
"""
)
DIFFERS = Issue("xml_differs", "warning", "the invoice inside says 12.00", ("total",), "the same invoice twice")
WRONG = {"net": "10.00", "tax": "1.00", "total": "12.00"}


def make_reason(code: str, *fields: str) -> Reason:
    """A reason for review."""
    return {"code": code, "message": code, "fields": [*fields]}


def codes(*settled: str, values: dict[str, str] = WRONG, absent: tuple[str, ...] = ()) -> list[tuple[str, str]]:
    """What is wrong, with its severity."""
    return [(one.code, one.severity) for one in judge_issues([DIFFERS], values, TYPE, settled, absent)]


def test_findings_stay_until_people_settle_them() -> None:
    """A difference between XML and paper is over once someone confirmed the total."""
    assert codes() == [("rule", "error"), ("xml_differs", "warning")]
    assert codes("total") == [("rule", "error")]


def test_a_rule_that_fails_on_settled_fields_is_a_warning() -> None:
    """Before that, an error."""
    assert codes("net", "tax", "total") == [("rule", "warning")]


def test_a_field_marked_absent_is_not_missing() -> None:
    """Where a person says so."""
    assert ("missing", "error") in codes(values={"net": "10.00"})
    assert ("missing", "error") not in codes(values={"net": "10.00"}, absent=("total",))


def test_review_and_outputs_agree() -> None:
    """Also after someone unlocked a field: what was read is not forgotten."""
    result: DocumentResult = {"issues": [], "read_issues": [DIFFERS.as_dict()]}
    read = read_issues(result)
    for said in ((), ("total",), ("net", "tax", "total")):
        shown = fields.issues(TYPE, WRONG, (), read, said)
        assert shown == [one.as_dict() for one in judge_issues(map(issue_of, read), WRONG, TYPE, said)]
    assert read_issues({"issues": [DIFFERS.as_dict()]}) == [DIFFERS.as_dict()]


def test_reasons_about_settled_fields_no_longer_count() -> None:
    """Neither in the list of reasons nor in the verdict; those about the whole document stay."""
    right = {"net": "10.00", "tax": "2.00", "total": "12.00"}
    missing, doubtful = (make_reason(code, "total") for code in ("missing", "ungrounded"))
    failed = make_reason("page_failed")

    def judged(*settled: str, reasons: list[Reason], least: Verdict = "accept") -> tuple[list[str], Verdict | None]:
        found = judge([], reasons, "pending", settled=settled, doctype=TYPE, values=right, least=least)
        return [one["code"] for one in found.reasons], found.verdict

    assert judged(reasons=[missing, doubtful]) == (["missing", "ungrounded"], "warn")
    assert judged("net", reasons=[missing, doubtful]) == (["ungrounded"], "warn")
    assert judged("total", reasons=[missing, doubtful]) == ([], "accept")
    assert judged("total", reasons=[missing, failed]) == (["page_failed"], "warn")
    assert judged("total", reasons=[], least="warn") == ([], "warn")


def test_a_path_belongs_to_its_field() -> None:
    """A cell of a table belongs to the table."""
    assert (field_of("lines[2].amount"), field_of("total")) == ("lines", "total")


@pytest.mark.parametrize(
    ("judged", "code", "review", "expected"),
    [("accept", "low_confidence", None, "accept"), ("accept", "missing", None, "warn"),
     ("accept", "missing", "pending", "warn"), ("accept", "missing", "approved", "accept"),
     ("reject", "missing", "corrected", "reject"), ("accept", "low_confidence", "rejected", "reject")],
)  # fmt: skip
def test_one_verdict_for_extraction_review_and_outputs(
    judged: Verdict, code: str, review: str | None, expected: str
) -> None:  # fmt: skip
    """A reason about the document itself prevents `accept` until a review has found the document correct."""
    assert verdict(judged, [{"code": code}], review) == expected
