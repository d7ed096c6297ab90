"""What is wrong with a document's values now: the one judgement for extraction, review and outputs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any, TypedDict

from tabellion.messages import restore_text
from tabellion.reading.alternative import Candidate
from tabellion.reading.field import ToldField
from tabellion.reading.issue import Issue, ToldIssue
from tabellion.reading.page import PageSummary
from tabellion.reading.types import rules
from tabellion.reading.types.doctype import DocumentType

#: What may be wrong with a document itself: it stands when people say of every field of it that the document has it so.
PRINTED = ("rule", "range", "pattern")


class Result(TypedDict, total=False):
    """What the `result` column keeps of a document's last reading, as JSON; what people changed is in it too."""

    type: str | None
    type_version: str | None
    verdict: str
    fields: dict[str, ToldField]
    issues: list[ToldIssue]
    notes: list[str]
    pages: list[PageSummary]
    candidates: dict[str, list[Candidate]]  #: of fields that have no row
    read_issues: list[ToldIssue]  #: as the reading itself had them
    read_fields: dict[str, ToldField]


def judge_issues(
    issues: Iterable[Issue], values: Mapping[str, Any], doctype: DocumentType, settled: Collection[str],
    absent: Collection[str] = (),
) -> tuple[Issue, ...]:  # fmt: skip
    """The issues of a reading, judged anew with these values: the rules speak again, and what was said of fields that
    people have settled is over. One of which they say that the document does not have it is not missing, and what is
    wrong although they have settled all of it is a fault of the document, not of its reading: a warning."""
    named = {"", *(rule.name for rule in doctype.rules)}
    kept = [
        issue
        for issue in issues
        if (issue.code not in rules.CODES or issue.rule not in named) and not is_settled(issue.fields, settled)
    ]
    found = (one for one in rules.check(doctype, values) if one.code != "missing" or not {*one.fields} <= {*absent})
    return (*(replace(one, severity="warning") if stands(one, values, settled) else one for one in found), *kept)


def stands(issue: Issue, values: Mapping[str, Any], said: Collection[str]) -> bool:
    """Whether people have looked at everything that an issue is about and say that the document has it so."""
    about = {base for path in issue.fields if values.get(base := field_of(path)) not in (None, "", [])}
    return issue.code in PRINTED and bool(about) and about <= {*said}


def is_settled(paths: Iterable[str], said: Collection[str]) -> bool:
    """Whether people have had their word on every field that something is about: what a reading said of it is over."""
    about = {field_of(path) for path in paths}
    return bool(about) and about <= {*said}


def read_issues(result: Result) -> list[ToldIssue]:
    """What the reading itself found: a result that people changed since says what is left of it beside."""
    return list(result.get("read_issues", result.get("issues") or []))


def issue_of(told: ToldIssue) -> Issue:
    """An issue as JSON tells it."""
    return Issue(
        told["code"],
        told["severity"],
        str(restore_text(told, "message")),
        tuple(told["fields"]),
        told.get("rule") or "",
    )


def field_of(path: str) -> str:
    """The field of a path such as lines[2].amount."""
    return path.partition("[")[0]
