"""The fields of an item: what was read, what people decided, and their current issues."""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NotRequired, TypedDict, cast

from tabellion.answers import Answer
from tabellion.engine.store import Store
from tabellion.engine.timestamps import iso
from tabellion.errors import TabellionError
from tabellion.messages import Message, Translatable, has_code, quote_value, translatable
from tabellion.pipelines.documents import extracted_fields
from tabellion.pipelines.documents.judging import (
    DocumentResult,
    field_of,
    find_decided,
    is_decided,
    issue_of,
    judge_issues,
)
from tabellion.pipelines.documents.review.errors import TypeBroken
from tabellion.reading.alternative import Candidate
from tabellion.reading.field import restore_reasons
from tabellion.reading.issue import IssueJson
from tabellion.reading.types.doctype import DocumentType
from tabellion.reading.types.field_spec import THRESHOLD, FieldSpec
from tabellion.reading.types.yamlnode import TypeFileError

if TYPE_CHECKING:
    from tabellion.pipelines.documents.review_reasons import Reason

Types = Callable[[str], DocumentType]  #: returns the document type of a name, or raises
#: The type of a document that matches no type, or whose type no longer exists.
NO_TYPE = DocumentType(name="unknown", version="1", fields=())
#: The reasons for the confidence of a person's decision.
CORRECTED, ABSENT = (Message("reason.corrected"),), (Message("reason.absent"),)
State = Literal["auto", "needs_look", "rule_failed", "confirmed", "corrected", "absent"]
LONGEST = 1000  #: characters of a sentence that lists fields
EMPTY: tuple[Any, ...] = (None, "", [])  #: values of a field without a value


class StoredField(TypedDict):
    """A row of `tabellion_extracted_fields`, its JSON parsed."""

    name: str
    place: int
    value: Any
    confidence: float
    page: int | None
    box: list[float] | None
    quote: str | None
    source: str | None
    reasons: list[str]
    locked: bool
    corrected_by: str | None
    corrected_at: float | None
    state: State | None
    manually_corrected: bool
    noted: dict[str, Any]  #: what readings found, by column: `read_value` and `old_value`, if they were stored
    candidates: list[Candidate] | None


class ListColumn(Answer):
    """A column of a list."""

    name: str
    label: str
    kind: str
    values: list[str] | None


class ThreeWay(Answer):
    """The values of the person, of the previous reading and of the new reading."""

    human: Any
    old_model: Any
    new_model: Any


class ReviewField(Answer):
    """One field of the document: its value, position and confidence."""

    name: str
    label: str
    kind: str
    help: str | None
    required: bool
    values: list[str] | None
    columns: list[ListColumn] | None
    value: Any
    confidence: float
    threshold: float
    page: int | None
    box: list[float] | None
    quote: str | None
    source: str | None
    reasons: list[str]
    translatable: NotRequired[Translatable]
    state: State
    locked: bool
    manually_corrected: bool
    corrected_by: str | None
    corrected_at: str | None
    candidates: list[Candidate]
    three_way: ThreeWay | None


class UncertainField(TypedDict):
    """A field whose reading is uncertain."""

    name: str
    label: str
    value: Any
    threshold: float
    confidence: float


async def rows(store: Store, document: str) -> dict[str, StoredField]:
    """The rows of a document's fields by name, their JSON parsed."""
    found = await store.database.fetch(extracted_fields.select(store.dialect), document)
    return {row["name"]: _parse_row(row) for row in found}


async def load_reading(store: Store, document: str) -> DocumentResult:
    """The document's last reading: its pages, fields and issues."""
    found = await store.database.fetch("SELECT result FROM tabellion_documents WHERE id = $1", document)
    return cast("DocumentResult", json.loads(found[0]["result"] or "{}")) if found else {}


async def load_judged(store: Store, document: str) -> tuple[DocumentResult, list[Reason]]:
    """The document's last reading, and the reasons for review that it gave."""
    found = await store.database.fetch("SELECT result, reasons FROM tabellion_documents WHERE id = $1", document)
    if not found:
        return {}, []
    return json.loads(found[0]["result"] or "{}"), json.loads(found[0]["reasons"] or "[]")


def _parse_row(row: Any) -> StoredField:
    # NULL in the column (nothing stored) differs from JSON null (the reading found no value).
    row["noted"] = {name: json.loads(row[name]) for name in ("read_value", "old_value") if row[name] is not None}
    for name in ("value", "box", "reasons", "candidates"):
        row[name] = json.loads(row[name]) if row[name] is not None else None
    row["reasons"] = restore_reasons(row["reasons"])
    return cast("StoredField", row | {name: bool(row[name]) for name in ("locked", "manually_corrected")})


def type_of(types: Types, name: str | None) -> DocumentType:
    """The type of this name, or one without fields if there is none; raises TypeBroken.

    A type file with a mistake must not make everything approvable: a type without fields requires nothing.
    """
    if name is None:
        return NO_TYPE
    try:
        return types(name)
    except TypeFileError as error:
        raise TypeBroken(name, error) from error
    except TabellionError:
        return NO_TYPE


def usable_type(types: Types, name: str | None) -> DocumentType | None:
    """The type of this name, or one without fields for a document that matches none; None if its file has a mistake or
    no longer exists."""
    if name is None:
        return NO_TYPE
    try:
        return types(name)
    except TabellionError:
        return None


def values_of(found: Mapping[str, StoredField]) -> dict[str, Any]:
    """The values of fields by name."""
    return {name: row["value"] for name, row in found.items()}


def known_values(row: StoredField | None, offered: Iterable[Candidate] | None = None) -> list[Any]:
    """The values that a field has, that readings found, and that it is offered."""
    others = (row["candidates"] if row is not None else None) or offered or ()
    stored = [] if row is None else [row["value"], *row["noted"].values()]
    return [*stored, *(candidate["value"] for candidate in others)]


def decided_fields(found: Mapping[str, StoredField]) -> set[str]:
    """The fields that people have decided."""
    return find_decided(found.values())


def issues(
    doctype: DocumentType, values: Mapping[str, Any], absent: Collection[str], read: Sequence[IssueJson] = (),
    decided: Collection[str] = (),
) -> list[IssueJson]:  # fmt: skip
    """All current issues of these values, as JSON; `read` are those that the reading found."""
    return [issue.as_dict() for issue in judge_issues(map(issue_of, read), values, doctype, decided, absent)]


def gate(doctype: DocumentType, found: Mapping[str, StoredField]) -> tuple[list[str], list[IssueJson]]:
    """What prevents an approval: required fields that are neither present nor absent, and failing rules whose fields
    people have not decided."""
    absent = [name for name, row in found.items() if row["state"] == "absent"]
    found_issues = issues(doctype, values_of(found), absent, decided=decided_fields(found))
    errors = [issue for issue in found_issues if issue["severity"] == "error"]
    missing = [name for issue in errors if issue["code"] == "missing" for name in issue["fields"]]
    return missing, [issue for issue in errors if issue["code"] != "missing"]


def find_unseen(doctype: DocumentType, found: Mapping[str, StoredField]) -> list[UncertainField]:
    """The uncertain fields that nobody has reviewed."""
    return [
        {"name": spec.name, "label": spec.title, "value": row["value"], "threshold": spec.threshold,
         "confidence": round(float(row["confidence"]), 3)}
        for spec in doctype.fields
        if (row := found.get(spec.name)) is not None and not is_decided(row) and _unsure(spec, row)
    ]  # fmt: skip


def _unsure(spec: FieldSpec, row: StoredField) -> bool:
    """Whether the confidence of a value is below what its type requires."""
    if row["value"] in EMPTY:
        return False
    return float(row["confidence"]) < spec.threshold or has_code(row["reasons"], "reason.ungrounded")


def serialize_fields(
    doctype: DocumentType, found: Mapping[str, StoredField], found_issues: Sequence[IssueJson],
    offered: Mapping[str, list[Candidate]] | None = None,
) -> list[ReviewField]:  # fmt: skip
    """The fields as JSON, in the type's order; includes fields that were not found, with what is `offered`."""
    # A missing field is reported as missing; a field with a missing cell fails.
    failed = {
        field_of(name)
        for issue in found_issues
        for name in issue["fields"]
        if issue["code"] != "missing" or name != field_of(name)
    }
    declared = [
        _field(spec, found.get(spec.name), spec.name in failed, (offered or {}).get(spec.name))
        for spec in doctype.fields
    ]
    others = [
        _field(FieldSpec(name, _guess_kind(row["value"]), name.replace("_", " ").capitalize()), row, name in failed)
        for name, row in found.items()
        if name not in doctype
    ]
    return [*declared, *others]


def _field(
    spec: FieldSpec, row: StoredField | None, failed: bool, offered: list[Candidate] | None = None
) -> ReviewField:  # fmt: skip
    found: StoredField = row or {
        "name": spec.name, "place": 0, "value": None, "confidence": 0.0, "page": None, "box": None, "quote": None,
        "source": None, "reasons": [], "locked": False, "corrected_by": None, "corrected_at": None, "state": None,
        "manually_corrected": False, "candidates": offered, "noted": {},
    }  # fmt: skip
    columns: list[ListColumn] = [
        {"name": column.name, "label": column.title, "kind": column.kind, "values": list(column.options) or None}
        for column in spec.items
    ]
    return {
        "name": spec.name, "label": spec.title, "kind": spec.kind, "help": spec.description or None,
        "required": spec.required, "values": list(spec.options) or None, "columns": columns or None,
        "value": found["value"], "confidence": round(float(found["confidence"]), 3),
        "threshold": spec.threshold, "page": found["page"], "box": found["box"], "quote": found["quote"],
        "source": found["source"], "reasons": found["reasons"], "state": _state(spec, row, failed),
        "locked": found["locked"], "manually_corrected": found["manually_corrected"],
        "corrected_by": found["corrected_by"], "corrected_at": iso(found["corrected_at"]),
        "candidates": found["candidates"] or [], "three_way": _three_way(found),
        **translatable(reasons=found["reasons"]),
    }  # fmt: skip


def _state(spec: FieldSpec, row: StoredField | None, failed: bool) -> State:
    """A person's decision takes precedence; then failed rules, then uncertainty."""
    if row is not None and row["state"]:
        return row["state"]
    if failed:
        return "rule_failed"
    if row is None or row["value"] in EMPTY:
        return "needs_look" if spec.required else "auto"
    return "needs_look" if _unsure(spec, row) else "auto"


def _three_way(row: StoredField) -> ThreeWay | None:
    """The values of the person, the earlier reading and the new reading, if the readings differ."""
    noted = row["noted"]
    if not row["manually_corrected"] or "read_value" not in noted or noted["read_value"] == noted.get("old_value"):
        return None
    return {"human": row["value"], "old_model": noted.get("old_value"), "new_model": noted["read_value"]}


def spec_of(doctype: DocumentType, name: str, row: StoredField | None) -> FieldSpec | None:
    """The definition of a field: from its type, or derived from its value; None if there is no such field."""
    if name in doctype:
        return doctype.field(name)
    return FieldSpec(name, _guess_kind(row["value"]), name, threshold=THRESHOLD) if row is not None else None


def unknown(doctype: DocumentType, name: str, found: Iterable[str]) -> str:
    """The message about an unknown field, with the most similar one and the list of all."""
    known = [*(spec.name for spec in doctype.fields), *(field for field in found if field not in doctype)]
    similar = difflib.get_close_matches(name, known, 1)
    if not known:
        return Message("edit.unknown_field", value=quote_value(name[:100]))
    code, guess = ("edit.unknown_field_guess", {"field": similar[0]}) if similar else ("edit.unknown_field_known", {})
    return Message(code, value=quote_value(name[:100]), **guess, fields=list(known))


def _guess_kind(value: Any) -> str:
    return "list" if isinstance(value, list) else "bool" if isinstance(value, bool) else "text"
