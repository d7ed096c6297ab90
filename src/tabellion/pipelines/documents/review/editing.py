"""What a holder does to fields: correct, confirm, mark as absent, unlock. One transaction, or nothing."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NotRequired, TypedDict

from tabellion.accounts import audit
from tabellion.accounts.audit import AuditEntry
from tabellion.answers import Answer
from tabellion.engine.store import Store
from tabellion.errors import LeaseLost
from tabellion.messages import Message, Translatable, restore_text, translatable
from tabellion.pipelines.documents import extracted_fields
from tabellion.pipelines.documents.extracted_fields import PERSON
from tabellion.pipelines.documents.judging import DocumentResult, read_issues
from tabellion.pipelines.documents.review import decisions, drafts, fields, item_changes, items
from tabellion.pipelines.documents.review.claims import explain_not_held, require_claim
from tabellion.pipelines.documents.review.errors import Changed, InvalidValues, ItemChanged, ReprocessingUnderway
from tabellion.pipelines.documents.review.fields import EMPTY, StoredField, Types
from tabellion.pipelines.documents.review.items import ItemRow
from tabellion.pipelines.documents.review.people import Person
from tabellion.pipelines.documents.review.values import parse_value
from tabellion.reading.field import FieldJson, serialize_reasons
from tabellion.reading.issue import IssueJson
from tabellion.reading.types.doctype import DocumentType
from tabellion.reading.types.field_spec import FieldSpec

Action = Literal["correct", "confirm", "absent", "unlock"]
LONGEST_DRAFT = 200_000  #: characters of a draft


class FieldUpdate(TypedDict):
    """The columns of a field that are written; value, box, reasons, read_value and old_value are JSON."""

    value: str
    confidence: float
    page: int | None
    box: str | None
    quote: str | None
    source: str | None
    reasons: str
    locked: bool
    state: str | None
    manually_corrected: bool
    corrected_by: str | None
    read_value: str | None
    old_value: str | None


class CheckedField(Answer):
    """A value in the format of its field, or why it is not valid."""

    value: Any
    error: str | None
    translatable: NotRequired[Translatable]


@dataclass(frozen=True, slots=True)
class Change:
    """A change of one field."""

    action: Action
    value: Any = None
    page: int | None = None
    box: Sequence[float] | None = None
    quote: str | None = None


async def edit(
    store: Store, types: Types, id: str, person: Person, version: int, changes: Mapping[str, Change],  # noqa: A002
) -> int:  # fmt: skip
    """Makes these changes to an item of this version and returns its new version; or changes nothing and raises.

    The person must hold the item; their claim is renewed.
    """
    job = await require_claim(store, id, person)
    item = await items.row(store, id)
    if item["document_status"] != "completed":
        raise ReprocessingUnderway
    if item["version"] != version:
        raise await explain_conflict(store, item, version)
    doctype = fields.type_of(types, item["type"])
    found = await fields.rows(store, item["document_id"])
    needs_reading = any(name not in found or found[name]["locked"] for name in changes)
    reading: DocumentResult = await fields.load_reading(store, item["document_id"]) if needs_reading else {}
    read = reading.get("fields", {}) | reading.get("read_fields", {})
    outcomes, problems = {}, {}
    for name, change in changes.items():
        row = found.get(name)
        spec = fields.spec_of(doctype, name, row)
        if spec is None:
            problems[name] = fields.unknown(doctype, name, found)
            continue
        if change.page is not None and item["pages"] is not None and change.page > item["pages"]:
            problems[name] = Message("edit.no_such_page", field=name, n=change.page, total=item["pages"])
            continue
        known = fields.known_values(row, reading.get("candidates", {}).get(name))
        outcome = _FieldEdit(doctype, spec, row, change, person, read, known).find_outcome()
        if isinstance(outcome, str):
            problems[name] = outcome
        elif outcome is not None:
            outcomes[name] = outcome
    if problems:
        is_unknown = fields.spec_of(doctype, first := next(iter(problems)), found.get(first)) is None
        raise InvalidValues(problems, fix=Message("item.fix_field") if is_unknown else Message("item.fix_value"))
    statements = [item_changes.raise_version(store.dialect, item, version)]
    places = {declared.name: place for place, declared in enumerate(doctype.fields)}
    for name, (_, columns) in outcomes.items():
        statements.append(extracted_fields.write(item["document_id"], name, places.get(name, len(places)), columns))
        if item["type"] is not None:
            statements.append(decisions.note(item["sha256"], item["type"], name, columns))
    for name, (action, columns) in outcomes.items():
        before = found[name]["value"] if name in found else None
        entry = AuditEntry(
            action, person.name, item["document_id"], id, name, before, json.loads(columns["value"]),
            more={"version": version + 1},
        )  # fmt: skip
        statements.append(audit.bind_entry(store.dialect, entry))
    try:
        results = await store.amend(job, statements if outcomes else [item_changes.check_version(id, version)])
    except LeaseLost:
        raise await explain_not_held(store, id) from None
    if not results:
        raise await explain_conflict(store, await items.row(store, id), version)
    return int(results[0][0]["version"])


Outcome = tuple[str, FieldUpdate]  #: the action in the audit log, and the columns
Place = tuple[int | None, list[float] | None, str | None]  #: page, box and quote


@dataclass(frozen=True, slots=True)
class _FieldEdit:
    """A change of one field, with what it depends on."""

    doctype: DocumentType
    spec: FieldSpec
    row: StoredField | None
    change: Change
    person: Person
    read: Mapping[str, FieldJson]
    known: Sequence[Any]

    def find_outcome(self) -> Outcome | str | None:
        """The result of the change; a message if it is not possible; None if it changes nothing."""
        row, action = self.row, self.change.action
        if action == "correct":
            return self._correct()
        if action == "absent":
            if row is not None and row["state"] == "absent":
                return None
            return self._decide("absent", None, (None, None, None))
        if row is None or (action == "confirm" and row["value"] in EMPTY):
            return Message("edit.no_value", field=self.spec.name, verb=action)
        return _confirm_field(row) if action == "confirm" else _unlock_field(row, self.read)

    def _correct(self) -> Outcome | str | None:
        row, change = self.row, self.change
        value, problem = parse_value(self.doctype, self.spec, change.value, self.known)
        if problem:
            return problem
        if value is None:
            return Message("edit.value_needed", field=self.spec.name)
        if change.page is not None:
            return self._decide(
                "corrected", value, (change.page, list(change.box) if change.box else None, change.quote)
            )
        if row is not None and self.spec.fit(row["value"]) == value:
            return _confirm_field(row)
        if row is not None and row["locked"] and value == _read(row):
            # The value is what was read after all: this confirms it and corrects nothing.
            unlocked = _unlock_field(row, self.read)
            assert unlocked is not None  # noqa: S101 - it is locked
            return "confirmed", {**unlocked[1], "state": "confirmed"}
        return self._decide("corrected", value, _place(row))

    def _decide(self, state: str, value: Any, location: Place) -> Outcome:
        """A field that a person has decided; the value that was read is stored beside it."""
        page, box, quote = location
        read = None if self.row is None else _read(self.row)
        reasons = fields.ABSENT if state == "absent" else fields.CORRECTED
        return state, {
            "value": _json(value), "confidence": 1.0, "page": page, "box": _json(box) if box else None, "quote": quote,
            "source": PERSON, "reasons": _json(serialize_reasons(reasons)), "locked": True, "state": state,
            "manually_corrected": True, "corrected_by": self.person.name, "read_value": _json(read),
            "old_value": _json(read),
        }  # fmt: skip


def _confirm_field(row: StoredField) -> Outcome | None:
    """Confirms a field as it is. If it was read again, the new reading counts as seen."""
    if row["state"] is None:
        return "confirmed", {**_as_is(row), "state": "confirmed"}
    if row["manually_corrected"] and row["noted"].get("old_value") != _read(row):
        return "confirmed", {**_as_is(row), "old_value": _json(_read(row))}
    return None


def _unlock_field(row: StoredField, read: Mapping[str, FieldJson]) -> Outcome | None:
    """The field as last read, with what is known about its source."""
    if not row["locked"]:
        return None if row["state"] is None else ("unlocked", {**_as_is(row), "state": None})
    value, known = _read(row), read.get(row["name"])
    page, box, quote, confidence, source, reasons = row["page"], row["box"], row["quote"], 0.0, "text", []
    if known is not None and known["value"] == value and known["source"] != PERSON:
        page, box, quote, confidence = known["page"], known["box"], known["quote"], known["confidence"]
        source, reasons = known["source"], restore_text(known, "reasons")
    elif known is None and value is None:
        page = box = quote = None
    return "unlocked", {
        "value": _json(value), "confidence": float(confidence), "page": page, "box": _json(box) if box else None,
        "quote": quote, "source": source, "reasons": _json(serialize_reasons(reasons)),
        "locked": False, "state": None, "manually_corrected": False,
        "corrected_by": None, "read_value": _json(value), "old_value": None,
    }  # fmt: skip


def _read(row: StoredField) -> Any:
    """The value of a field that was last read."""
    noted = row["noted"]
    return noted.get("read_value", noted.get("old_value") if row["manually_corrected"] else row["value"])


def _place(row: StoredField | None) -> Place:
    """The place of the value that is replaced: the new one has it too, but not the quote."""
    return (None, None, None) if row is None else (row["page"], row["box"], None)


def _as_is(row: StoredField) -> FieldUpdate:
    noted = row["noted"]
    return {
        "value": _json(row["value"]), "confidence": row["confidence"], "page": row["page"],
        "box": _json(row["box"]) if row["box"] else None, "quote": row["quote"], "source": row["source"],
        "reasons": _json(serialize_reasons(row["reasons"])), "locked": row["locked"], "state": row["state"],
        "manually_corrected": row["manually_corrected"], "corrected_by": row["corrected_by"],
        "read_value": _json(noted["read_value"]) if "read_value" in noted else None,
        "old_value": _json(noted["old_value"]) if "old_value" in noted else None,
    }  # fmt: skip


async def draft(store: Store, id: str, person: Person, body: Mapping[str, Any]) -> None:  # noqa: A002
    """Stores unsaved input of the holder, so that it survives their page."""
    text = _json(body)
    if len(text) > LONGEST_DRAFT:
        raise InvalidValues({"draft": Message("item.draft_too_long", n=LONGEST_DRAFT)}, beside=True)
    job = await require_claim(store, id, person)
    try:
        await store.amend(job, [drafts.save(id, person.name, text)])
    except LeaseLost:
        raise await explain_not_held(store, id) from None


async def explain_conflict(store: Store, item: ItemRow, version: int) -> ItemChanged | InvalidValues:
    """What has changed since a version: the fields that people changed, or all if the document was read again."""
    if version > item["version"]:
        message = Message("item.no_such_version", n=version, current=item["version"])
        return InvalidValues({"If-Match": message}, beside=True, fix=Message("item.fix_etag"))
    entries = await audit.history(store, item=item["id"])
    since = [entry for entry in entries if entry["more"].get("version", 0) > version]
    found = await fields.rows(store, item["document_id"])
    changed: dict[str, Changed] = {}
    if set(range(version + 1, int(item["version"]) + 1)) - {entry["more"]["version"] for entry in since}:
        changed = {name: {"value": row["value"], "by": row["corrected_by"], "at": None} for name, row in found.items()}
    for entry in since:
        if (name := entry["field"]) is not None:
            value = found[name]["value"] if name in found else None
            changed[name] = {"value": value, "by": entry["actor"], "at": entry["at"]}
    return ItemChanged(int(item["version"]), changed)


def check(
    types: Types, item: ItemRow, found: Mapping[str, StoredField], values: Mapping[str, Any], read: DocumentResult,
) -> tuple[list[IssueJson], dict[str, CheckedField]]:  # fmt: skip
    """The issues that these values would have, and each value in the format of its field. Writes nothing."""
    doctype = fields.type_of(types, item["type"])
    merged = fields.values_of(found)
    absent = {name for name, row in found.items() if row["state"] == "absent"} - values.keys()
    answers: dict[str, CheckedField] = {}
    for name, value in values.items():
        spec = fields.spec_of(doctype, name, found.get(name))
        if spec is None:
            error = fields.unknown(doctype, name, found)
            answers[name] = {"value": value, "error": error, **translatable(error=error)}
            continue
        offered = read.get("candidates", {}).get(name)
        merged[name], problem = parse_value(doctype, spec, value, fields.known_values(found.get(name), offered))
        answers[name] = {"value": merged[name], "error": problem, **translatable(error=problem)}
        if value is None:
            absent.add(name)
    decided = fields.decided_fields(found) | values.keys()
    if fields.usable_type(types, item["type"]) is None:
        return list(read.get("issues") or []), answers  # as in `judge_stored`: nothing can be judged again
    return fields.issues(doctype, merged, absent, read_issues(read), decided), answers


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
