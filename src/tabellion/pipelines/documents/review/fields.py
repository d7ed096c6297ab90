"""The fields of an item: what was read, what people said, what is wrong with them now."""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from tabellion.engine import sql
from tabellion.engine.store import Store
from tabellion.engine.timestamps import iso
from tabellion.errors import TabellionError
from tabellion.messages import Message, has_code, quoted, translatable
from tabellion.pipelines.documents.judging import field_of, issue_of, judged
from tabellion.pipelines.documents.review.errors import TypeBroken
from tabellion.reading.field import restored_reasons
from tabellion.reading.types.doctype import THRESHOLD, DocumentType, FieldSpec
from tabellion.reading.types.yamlnode import TypeFileError

Row = dict[str, Any]
Types = Callable[[str], DocumentType]  #: gives the document type of a name, or raises
#: What a document is of that is none of the types there are, or of one that is there no more.
NO_TYPE = DocumentType(name="unknown", version="1", fields=())
PERSON = "person"  #: the source of a field that somebody has corrected
DECIDED = ("confirmed", "corrected", "absent")  #: states that are a person's word
#: Why a person's word is so sure.
CORRECTED, ABSENT = (Message("reason.corrected"),), (Message("reason.absent"),)
STATES = ("auto", "needs_look", "rule_failed", "confirmed", "corrected", "absent")

LONGEST = 1000  #: characters of a sentence that lists fields
_COLUMNS = (
    "name", "place", "value", "confidence", "page", "box", "quote", "source", "reasons", "locked", "corrected_by",
    "state", "manually_corrected", "read_value", "old_value", "candidates",
)  # fmt: skip


async def rows(store: Store, document: str) -> dict[str, Row]:
    """The rows of a document's fields by name, their JSON taken apart."""
    found = await store.database.fetch(
        f"""SELECT {", ".join(_COLUMNS)}, {sql.epoch("corrected_at", store.dialect)} AS corrected_at
FROM tabellion_extracted_fields WHERE document_id = $1 ORDER BY place, name""",
        document,
    )
    return {row["name"]: _parsed(row) for row in found}


async def reading(store: Store, document: str) -> dict[str, Any]:
    """What the document's last reading told: its pages, fields and issues."""
    found = await store.database.fetch("SELECT result FROM tabellion_documents WHERE id = $1", document)
    return dict(json.loads(found[0]["result"] or "{}")) if found else {}


def _parsed(row: Row) -> Row:
    # What a reading said is kept beside what people said, so NULL (nobody noted it) is not null (it said nothing).
    row["noted"] = {name: json.loads(row[name]) for name in ("read_value", "old_value") if row[name] is not None}
    for name in ("value", "box", "reasons", "candidates"):
        row[name] = json.loads(row[name]) if row[name] is not None else None
    row["reasons"] = restored_reasons(row["reasons"])
    return row | {"locked": bool(row["locked"]), "manually_corrected": bool(row["manually_corrected"])}


def type_of(types: Types, name: str | None) -> DocumentType:
    """The type of this name, or one without fields where there is none; raises TypeBroken.

    A file that has a mistake must not open the gate: nothing is required of a type without fields.
    """
    if name is None:
        return NO_TYPE
    try:
        return types(name)
    except TypeFileError as error:
        raise TypeBroken(name, error) from error
    except TabellionError:
        return NO_TYPE


def shown_type(types: Types, name: str | None) -> DocumentType:
    """The type for whoever only looks: one without fields where its file has a mistake."""
    try:
        return type_of(types, name)
    except TypeBroken:
        return NO_TYPE


def values_of(found: Mapping[str, Row]) -> dict[str, Any]:
    """The values of fields by name."""
    return {name: row["value"] for name, row in found.items()}


def known(row: Row | None, offered: Iterable[Mapping[str, Any]] | None = None) -> list[Any]:
    """The values that a field has, that readings have given it, and that it is offered."""
    others = (row["candidates"] if row is not None else None) or offered or ()
    said = [] if row is None else [row["value"], *row["noted"].values()]
    return [*said, *(one.get("value") for one in others)]


def decided(found: Mapping[str, Row]) -> set[str]:
    """The fields that people have had their word on."""
    return {name for name, row in found.items() if row["state"] in DECIDED}


def issues(
    doctype: DocumentType, values: Mapping[str, Any], absent: Collection[str], read: Sequence[Mapping[str, Any]] = (),
    said: Collection[str] = (),
) -> list[dict[str, Any]]:  # fmt: skip
    """Everything that is wrong with these values now, as JSON tells it; `read` is what the reading found."""
    known = {name: value for name, value in values.items() if name in doctype}
    return [one.told() for one in judged(map(issue_of, read), known, doctype, said, absent)]


def gate(doctype: DocumentType, found: Mapping[str, Row]) -> tuple[list[str], list[dict[str, Any]]]:
    """What stands before an approval: required fields that are neither there nor absent, and rules that fail though
    nobody has said that the document has it so."""
    absent = [name for name, row in found.items() if row["state"] == "absent"]
    wrong = issues(doctype, values_of(found), absent, said=decided(found))
    errors = [one for one in wrong if one["severity"] == "error"]
    missing = [name for one in errors if one["code"] == "missing" for name in one["fields"]]
    return missing, [one for one in errors if one["code"] != "missing"]


def unseen(doctype: DocumentType, found: Mapping[str, Row]) -> list[dict[str, Any]]:
    """The fields that the reading is not sure of and that nobody has looked at."""
    return [
        {"name": spec.name, "label": spec.title, "value": row["value"], "threshold": spec.threshold,
         "confidence": round(float(row["confidence"]), 3)}
        for spec in doctype.fields
        if (row := found.get(spec.name)) is not None and row["state"] not in DECIDED and _unsure(spec, row)
    ]  # fmt: skip


def _unsure(spec: FieldSpec, row: Row) -> bool:
    """Whether a value that was read is less sure than its type demands."""
    if row["value"] in (None, "", []):
        return False
    return float(row["confidence"]) < spec.threshold or has_code(row["reasons"], "reason.ungrounded")


def told(
    doctype: DocumentType, found: Mapping[str, Row], wrong: Sequence[Mapping[str, Any]],
    offered: Mapping[str, list[Any]] | None = None,
) -> list[dict[str, Any]]:  # fmt: skip
    """The fields as JSON tells them, in the type's order; those that were not found too, with what is `offered`."""
    # A field that is missing is told as that; one with a cell that is missing fails.
    failed = {
        field_of(name)
        for issue in wrong
        for name in issue["fields"]
        if issue["code"] != "missing" or name != field_of(name)
    }
    declared = [
        _field(spec, found.get(spec.name), spec.name in failed, (offered or {}).get(spec.name))
        for spec in doctype.fields
    ]
    others = [
        _field(FieldSpec(name, _guessed(row["value"]), name.replace("_", " ").capitalize()), row, name in failed)
        for name, row in found.items()
        if name not in doctype
    ]
    return [*declared, *others]


def _field(spec: FieldSpec, row: Row | None, failed: bool, offered: list[Any] | None = None) -> dict[str, Any]:
    found = row or {
        "value": None, "confidence": 0.0, "page": None, "box": None, "quote": None, "source": None, "reasons": [],
        "locked": False, "corrected_by": None, "corrected_at": None, "state": None, "manually_corrected": False,
        "candidates": offered, "noted": {},
    }  # fmt: skip
    return {
        **_described(spec), "value": found["value"], "confidence": round(float(found["confidence"]), 3),
        "threshold": spec.threshold, "page": found["page"], "box": found["box"], "quote": found["quote"],
        "source": found["source"], "reasons": found["reasons"], "state": _state(spec, row, failed),
        "locked": found["locked"], "manually_corrected": found["manually_corrected"],
        "corrected_by": found["corrected_by"], "corrected_at": iso(found["corrected_at"]),
        "candidates": found["candidates"] or [], "three_way": _three_way(found),
        **translatable(reasons=found["reasons"]),
    }  # fmt: skip


def _described(spec: FieldSpec) -> dict[str, Any]:
    columns = [{"name": one.name, "label": one.title, "kind": one.kind, "values": list(one.options) or None}
               for one in spec.items]  # fmt: skip
    return {
        "name": spec.name, "label": spec.title, "kind": spec.kind, "help": spec.description or None,
        "required": spec.required, "values": list(spec.options) or None, "columns": columns or None,
    }  # fmt: skip


def _state(spec: FieldSpec, row: Row | None, failed: bool) -> str:
    """A person's word stands; else what fails, then what is not sure."""
    if row is not None and row["state"]:
        return str(row["state"])
    if failed:
        return "rule_failed"
    if row is None or row["value"] in (None, "", []):
        return "needs_look" if spec.required else "auto"
    return "needs_look" if _unsure(spec, row) else "auto"


def _three_way(row: Row) -> dict[str, Any] | None:
    """What the person, the reading of then and the reading of now say, where the reading has changed its mind."""
    noted = row["noted"]
    if not row["manually_corrected"] or "read_value" not in noted or noted["read_value"] == noted.get("old_value"):
        return None
    return {"human": row["value"], "old_model": noted.get("old_value"), "new_model": noted["read_value"]}


def spec_of(doctype: DocumentType, name: str, row: Row | None) -> FieldSpec | None:
    """What is known of a field: as its type has it, or as it was found; None: there is no such field."""
    if name in doctype:
        return doctype.field(name)
    return FieldSpec(name, _guessed(row["value"]), name, threshold=THRESHOLD) if row is not None else None


def unknown(doctype: DocumentType, name: str, found: Iterable[str]) -> str:
    """A sentence on a field that there is not: what it may be meant for, and those there are."""
    there = [*(one.name for one in doctype.fields), *(one for one in found if one not in doctype)]
    near = difflib.get_close_matches(name, there, 1)
    if not there:
        return Message("edit.unknown_field", value=quoted(name[:100]))
    code, meant = ("edit.unknown_field_guess", {"field": near[0]}) if near else ("edit.unknown_field_known", {})
    return Message(code, value=quoted(name[:100]), **meant, fields=list(there))


def _guessed(value: Any) -> str:
    return "list" if isinstance(value, list) else "bool" if isinstance(value, bool) else "text"
