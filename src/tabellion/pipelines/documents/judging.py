"""What is wrong with a document's values now: the one judgement for extraction, review and outputs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypedDict, get_args

from tabellion.engine.job import storable
from tabellion.messages import restore_text
from tabellion.pipelines.documents.review.queue import OPEN, REVIEWED
from tabellion.reading.alternative import Candidate
from tabellion.reading.field import FieldJson
from tabellion.reading.issue import Issue, IssueJson
from tabellion.reading.page import PageSummary
from tabellion.reading.types import rules
from tabellion.reading.types.doctype import DocumentType
from tabellion.reading.types.rules import Verdict

if TYPE_CHECKING:
    from tabellion.pipelines.documents.review_reasons import Reason

DECIDED = ("confirmed", "corrected", "absent")  #: states of a field that a person has set
#: Issues that the document itself may have: warnings once people have decided every field they are about.
PRINTED = ("rule", "range", "pattern")
#: Reasons for review about the document itself. The others are about the confidence in values that may well be right.
GRAVE = ("missing", "ungrounded", "issue", "page_failed", "type_uncertain")
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)  #: from best to worst


class DocumentResult(TypedDict, total=False):
    """The `result` column: a document's last reading as JSON, with people's changes."""

    type: str | None
    type_version: str | None
    verdict: Verdict | None
    fields: dict[str, FieldJson]
    issues: list[IssueJson]
    notes: list[str]
    pages: list[PageSummary]
    candidates: dict[str, list[Candidate]]  #: of fields that have no row
    read_issues: list[IssueJson]  #: as the reading found them
    read_fields: dict[str, FieldJson]


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a document comes to, with what people have decided so far."""

    issues: tuple[Issue, ...]
    reasons: list[Reason]  #: those for review that still hold
    verdict: Verdict | None  #: None: it has not been read


@dataclass(frozen=True, slots=True)
class StoredDocument:
    """What is stored of a document that its judgement depends on."""

    result: DocumentResult
    reasons: list[Reason]
    verdict: Verdict | None
    review: str | None  #: the status of its review item
    fields: Sequence[Mapping[str, Any]]  #: its rows: `name`, `value` as parsed from JSON, `state` and `locked`


def judge_stored(document: StoredDocument, doctype: DocumentType | None, *, rewrite: bool = False) -> Judgement:
    """What a stored document comes to now: the one answer for the API, the review screen and the outputs.

    It is judged again while its review is open, and as soon as people have decided a field. After the review, the
    verdict is the stored one, which the outputs have; `rewrite`: the outputs are being written, so it is judged again.
    Until people decide something, or the outputs are rewritten, the verdict is not better than the stored one.

    `doctype` is the type as it is now, without fields for a document that matches none. None: its file has a mistake
    or no longer exists. Then nothing can be judged again, and issues, reasons and verdict are those that are stored.
    """
    result, settled = document.result, find_decided(document.fields)
    is_open = document.review in OPEN
    if doctype is None or not (rewrite or is_open or settled):
        return Judgement(tuple(map(issue_of, result.get("issues") or [])), document.reasons, document.verdict)
    is_untouched = not rewrite and not settled and "read_issues" not in result
    judgement = judge(
        map(issue_of, read_issues(result)), document.reasons, document.review, settled=settled, doctype=doctype,
        values={row["name"]: row["value"] for row in document.fields},
        absent=[row["name"] for row in document.fields if row["state"] == "absent"],
        least=(document.verdict if is_untouched else None) or "accept",
    )  # fmt: skip
    return judgement if rewrite or is_open else replace(judgement, verdict=document.verdict)


def find_decided(rows: Iterable[Mapping[str, Any]]) -> set[str]:
    """The fields that people have decided."""
    return {row["name"] for row in rows if is_decided(row)}


def is_decided(row: Mapping[str, Any]) -> bool:
    """Whether people have decided a field: a locked one has the value of a person, whatever its state."""
    return row["locked"] or row["state"] in DECIDED


def judge(
    issues: Iterable[Issue], reasons: Iterable[Reason], review: str | None, *, settled: Collection[str],
    doctype: DocumentType | None = None, values: Mapping[str, Any] | None = None, absent: Collection[str] = (),
    least: Verdict = "accept",
) -> Judgement:  # fmt: skip
    """Judges a document in this state of `review`: with its type, issues are judged again as in `judge_issues`; without
    it, they already are. The verdict is not better than `least`."""
    current = tuple(issues)
    if doctype is not None:
        current = judge_issues(current, values or {}, doctype, settled, absent)
    held = [reason for reason in reasons if is_open(reason, settled, current)]
    return Judgement(current, held, verdict(max(least, rules.verdict(current), key=VERDICTS.index), held, review))


def is_open(reason: Reason, settled: Collection[str], issues: Sequence[Issue]) -> bool:
    """Whether a reason for review still holds: people may have settled the fields it is about."""
    if not settled or not reason["fields"]:
        return True
    if reason["code"] in ("issue", "missing"):
        return any(reason["fields"] == [*issue.fields] for issue in issues)
    return not is_settled(reason["fields"], settled)


def verdict(judged: Verdict, reasons: Iterable[Mapping[str, Any]], review: str | None = None) -> Verdict:
    """The verdict on a document: as its issues are `judged`, but `reject` after a rejection, and never `accept` while
    a reason for review is about the document itself and its `review` has not found it correct."""
    if review == "rejected":
        return "reject"
    is_doubtful = review not in REVIEWED and any(reason["code"] in GRAVE for reason in reasons)
    return "warn" if is_doubtful and judged == "accept" else judged


def judge_issues(
    issues: Iterable[Issue], values: Mapping[str, Any], doctype: DocumentType, settled: Collection[str],
    absent: Collection[str] = (),
) -> tuple[Issue, ...]:  # fmt: skip
    """The issues of a reading, judged again with these values: the rules are checked again, and issues about fields
    that people have settled are dropped. A field that people marked as absent is not missing. An issue that remains
    although people have settled all its fields is a fault of the document, not of its reading: a warning."""
    named = {"", *(rule.name for rule in doctype.rules)}
    values = {name: value for name, value in values.items() if name in doctype}
    remaining = [
        issue
        for issue in issues
        if (issue.code not in rules.CODES or issue.rule not in named) and not is_settled(issue.fields, settled)
    ]
    found = (
        issue for issue in rules.check(doctype, values) if issue.code != "missing" or not {*issue.fields} <= {*absent}
    )
    return (
        *(replace(issue, severity="warning") if is_of_document(issue, values, settled) else issue for issue in found),
        *remaining,
    )


def is_of_document(issue: Issue, values: Mapping[str, Any], decided: Collection[str]) -> bool:
    """Whether an issue is a fault of the document itself: people have decided every field that it is about."""
    subjects = {base for path in issue.fields if values.get(base := field_of(path)) not in (None, "", [])}
    return issue.code in PRINTED and bool(subjects) and subjects <= {*decided}


def is_settled(paths: Iterable[str], decided: Collection[str]) -> bool:
    """Whether people have decided every field in `paths`: what a reading found about them no longer counts."""
    subjects = {field_of(path) for path in paths}
    return bool(subjects) and subjects <= {*decided}


def read_issues(result: DocumentResult) -> list[IssueJson]:
    """The issues that the reading itself found: if people changed the result since, they are stored separately."""
    return list(result.get("read_issues", result.get("issues") or []))


def issue_of(data: IssueJson) -> Issue:
    """An issue from its JSON form."""
    return Issue(
        data["code"],
        data["severity"],
        str(restore_text(data, "message")),
        tuple(data["fields"]),
        data.get("rule") or "",
    )


def field_of(path: str) -> str:
    """The field of a path such as lines[2].amount."""
    return path.partition("[")[0]


def clean_value(value: Any) -> Any:
    """A value that every database and every JSON parser accepts: NULs and lone surrogates are escaped."""
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, Mapping):
        return {clean_value(key): clean_value(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [clean_value(inner) for inner in value]
    return value
