"""What a holder does to fields: correct, confirm, say that there is none, give back. One transaction, or nothing."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NotRequired, TypedDict

from tabellion.accounts import audit
from tabellion.accounts.audit import AuditEntry
from tabellion.answers import Answer
from tabellion.engine.moves import Numbered
from tabellion.engine.sql import NOW
from tabellion.engine.store import Store
from tabellion.errors import LeaseLost
from tabellion.messages import Message, Translatable, restore_text, translatable
from tabellion.pipelines.documents.judging import Result, read_issues
from tabellion.pipelines.documents.review import decisions, fields, items
from tabellion.pipelines.documents.review.claims import explain_not_held, mine
from tabellion.pipelines.documents.review.errors import Changed, InvalidValues, Stale, Underway
from tabellion.pipelines.documents.review.fields import EMPTY, PERSON, Row, Types
from tabellion.pipelines.documents.review.items import ItemRow
from tabellion.pipelines.documents.review.people import Person
from tabellion.pipelines.documents.review.values import parse_value
from tabellion.reading.field import ToldField, serialize_reasons
from tabellion.reading.issue import ToldIssue
from tabellion.reading.types.doctype import DocumentType

Action = Literal["correct", "confirm", "absent", "unlock"]
SAID = {"correct": "corrected", "confirm": "confirmed", "absent": "absent", "unlock": "unlocked"}
LONGEST_DRAFT = 200_000  #: characters of a draft


class Columns(TypedDict):
    """What is written of a field; value, box, reasons and what readings said are JSON."""

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
    """What is done to one field."""

    action: Action
    value: Any = None
    page: int | None = None
    box: Sequence[float] | None = None
    quote: str | None = None


async def edit(
    store: Store, types: Types, id: str, person: Person, version: int, changes: Mapping[str, Change],  # noqa: A002
) -> int:  # fmt: skip
    """Makes these changes to an item of this version and gives its new version; or changes nothing, and raises why.

    The person must hold the item; their lease is longer by it.
    """
    job = await mine(store, id, person)
    item = await items.row(store, id)
    if item["document_status"] != "completed":
        raise Underway
    if item["version"] != version:
        raise await stale(store, item, version)
    doctype = fields.type_of(types, item["type"])
    found = await fields.rows(store, item["document_id"])
    looks = any(name not in found or found[name]["locked"] for name in changes)
    told: Result = await fields.reading(store, item["document_id"]) if looks else {}
    read = told.get("fields", {}) | told.get("read_fields", {})
    made, problems = {}, {}
    for name, change in changes.items():
        row = found.get(name)
        spec = fields.spec_of(doctype, name, row)
        if spec is None:
            problems[name] = fields.unknown(doctype, name, found)
            continue
        if change.page is not None and item["pages"] is not None and change.page > item["pages"]:
            problems[name] = Message("edit.no_such_page", field=name, n=change.page, total=item["pages"])
            continue
        known = fields.known_values(row, told.get("candidates", {}).get(name))
        outcome = _apply_change(doctype, name, row, change, person, read, known)
        if isinstance(outcome, str):
            problems[name] = outcome
        elif outcome is not None:
            made[name] = outcome
    if problems:
        strange = fields.spec_of(doctype, first := next(iter(problems)), found.get(first)) is None
        raise InvalidValues(problems, fix=Message("item.fix_field") if strange else Message("item.fix_value"))
    statements = [_guard(store, item, version)]
    places = {one.name: place for place, one in enumerate(doctype.fields)}
    for name, (_, columns) in made.items():
        statements.append(_write(item["document_id"], name, places.get(name, len(places)), columns))
        if item["type"] is not None:
            statements.append(decisions.note(item["sha256"], item["type"], name, columns))
    for name, (said, columns) in made.items():
        before = found[name]["value"] if name in found else None
        entry = AuditEntry(
            said, person.name, item["document_id"], id, name, before, json.loads(columns["value"]),
            more={"version": version + 1},
        )  # fmt: skip
        statements.append(audit.bind_entry(store.dialect, entry))
    try:
        results = await store.amend(job, statements if made else [_select_version(id, version)])
    except LeaseLost:
        raise await explain_not_held(store, id) from None
    if not results:
        raise await stale(store, await items.row(store, id), version)
    return int(results[0][0]["version"])


Outcome = tuple[str, Columns]  #: the action of the trail, and the columns
Place = tuple[int | None, list[float] | None, str | None]  #: page, box and quote


def _apply_change(
    doctype: DocumentType, name: str, row: Row | None, change: Change, person: Person, read: Mapping[str, ToldField],
    known: Sequence[Any],
) -> Outcome | str | None:  # fmt: skip
    """What a change makes of a field; a sentence where it cannot be; None where it is so already."""
    if change.action == "correct":
        return _correct_field(doctype, name, row, change, person, known, read)
    if change.action == "absent":
        if row is not None and row["state"] == "absent":
            return None
        return _by_person(row, person, "absent", None, (None, None, None))
    if row is None or (change.action == "confirm" and row["value"] in EMPTY):
        return Message("edit.no_value", field=name, verb=change.action)
    if change.action == "confirm":
        return _confirm_field(row)
    return _unlock_field(row, read)


def _correct_field(
    doctype: DocumentType, name: str, row: Row | None, change: Change, person: Person, known: Sequence[Any],
    read: Mapping[str, ToldField],
) -> Outcome | str | None:  # fmt: skip
    spec = fields.spec_of(doctype, name, row)
    assert spec is not None  # noqa: S101 - asked before
    value, problem = parse_value(doctype, spec, change.value, known)
    if problem:
        return problem
    if value is None:
        return Message("edit.value_needed", field=name)
    placed = change.page is not None
    if row is not None and spec.fit(row["value"]) == value and not placed:
        return _confirm_field(row)
    if row is not None and row["locked"] and value == _read(row) and not placed:
        # What was changed is as the machine has read it after all: nobody has corrected anything.
        given_back = _unlock_field(row, read)
        assert given_back is not None  # noqa: S101 - it is locked
        return "confirmed", {**given_back[1], "state": "confirmed"}
    where = (change.page, list(change.box) if change.box else None, change.quote) if placed else None
    return _by_person(row, person, "corrected", value, where)


def _by_person(row: Row | None, person: Person, state: str, value: Any, where: Place | None) -> Outcome:
    """A field that somebody has the last word on; what the reading said until now is kept beside it."""
    page, box, quote = where if where is not None else _place(row)
    read = None if row is None else _read(row)
    why = fields.ABSENT if state == "absent" else fields.CORRECTED
    return state, {
        "value": _json(value), "confidence": 1.0, "page": page, "box": _json(box) if box else None, "quote": quote,
        "source": PERSON, "reasons": _json(serialize_reasons(why)), "locked": True, "state": state,
        "manually_corrected": True, "corrected_by": person.name, "read_value": _json(read), "old_value": _json(read),
    }  # fmt: skip


def _confirm_field(row: Row) -> Outcome | None:
    """A field that is right as it is. Where the machine has read it again, what it says now is known from here on."""
    if row["state"] is None:
        return "confirmed", {**_as_is(row), "state": "confirmed"}
    if row["manually_corrected"] and row["noted"].get("old_value") != _read(row):
        return "confirmed", {**_as_is(row), "old_value": _json(_read(row))}
    return None


def _unlock_field(row: Row, read: Mapping[str, ToldField]) -> Outcome | None:
    """The field as the newest reading has it, with what is known of where that came from."""
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


def _read(row: Row) -> Any:
    """What the newest reading says of a field."""
    noted = row["noted"]
    return noted.get("read_value", noted.get("old_value") if row["manually_corrected"] else row["value"])


def _place(row: Row | None) -> Place:
    """Where the value stands that is replaced: the new one does too, but those are not its words."""
    return (None, None, None) if row is None else (row["page"], row["box"], None)


def _as_is(row: Row) -> Columns:
    noted = row["noted"]
    return {
        "value": _json(row["value"]), "confidence": row["confidence"], "page": row["page"],
        "box": _json(row["box"]) if row["box"] else None, "quote": row["quote"], "source": row["source"],
        "reasons": _json(serialize_reasons(row["reasons"])), "locked": row["locked"], "state": row["state"],
        "manually_corrected": row["manually_corrected"], "corrected_by": row["corrected_by"],
        "read_value": _json(noted["read_value"]) if "read_value" in noted else None,
        "old_value": _json(noted["old_value"]) if "old_value" in noted else None,
    }  # fmt: skip


def _guard(store: Store, item: ItemRow, version: int) -> Numbered:
    """Takes the item if it still is of this version. A reading that ends takes the fields first, then the item: so do
    we, or each would wait for the other."""
    first = ""
    if store.dialect == "postgresql":
        first = """WITH tabellion_f AS MATERIALIZED (
  SELECT f.name FROM tabellion_extracted_fields AS f WHERE f.document_id = $4 ORDER BY f.name FOR UPDATE) """
    took = " AND (SELECT count(*) FROM tabellion_f) >= 0" if first else " AND document_id = $4"
    return (
        f"""{first}UPDATE tabellion_review_items SET version = version + 1, change = $3
WHERE id = $1 AND version = $2{took} RETURNING version""",
        [item["id"], version, secrets.token_hex(8), item["document_id"]],
    )


def _select_version(id: str, version: int) -> Numbered:  # noqa: A002
    return "SELECT version FROM tabellion_review_items WHERE id = $1 AND version = $2", [id, version]


def _write(document: str, name: str, place: int, columns: Columns) -> Numbered:
    marks = ", ".join(f"${number}" for number in range(4, len(columns) + 4))
    at = NOW if columns["corrected_by"] is not None else "NULL"
    updates = ", ".join(f"{column} = excluded.{column}" for column in (*columns, "corrected_at"))
    return (
        f"""INSERT INTO tabellion_extracted_fields (document_id, name, place, {", ".join(columns)}, corrected_at)
VALUES ($1, $2, $3, {marks}, {at}) ON CONFLICT (document_id, name) DO UPDATE SET {updates}""",
        [document, name, place, *columns.values()],
    )


async def draft(store: Store, id: str, person: Person, body: Mapping[str, Any]) -> None:  # noqa: A002
    """Keeps what the holder has typed and not saved, so that nothing is lost with their page."""
    text = _json(body)
    if len(text) > LONGEST_DRAFT:
        raise InvalidValues({"draft": Message("item.draft_too_long", n=LONGEST_DRAFT)}, beside=True)
    job = await mine(store, id, person)
    statement = f"""INSERT INTO tabellion_review_drafts (item_id, person, body, saved_at) VALUES ($1, $3, $2, {NOW})
ON CONFLICT (item_id, person) DO UPDATE SET body = excluded.body, saved_at = excluded.saved_at RETURNING item_id"""
    try:
        await store.amend(job, [(statement, [id, text, person.name])])
    except LeaseLost:
        raise await explain_not_held(store, id) from None


async def stale(store: Store, item: ItemRow, version: int) -> Stale | InvalidValues:
    """What has changed since a version: the fields that people changed, or all where the document was read again."""
    if version > item["version"]:
        never = f"the item never had version {version}: its version is {item['version']}"
        return InvalidValues({"If-Match": never}, beside=True, fix=Message("item.fix_etag"))
    entries = await audit.history(store, item=item["id"])
    since = [one for one in entries if one["more"].get("version", 0) > version]
    found = await fields.rows(store, item["document_id"])
    changed: dict[str, Changed] = {}
    if set(range(version + 1, int(item["version"]) + 1)) - {one["more"]["version"] for one in since}:
        changed = {name: {"value": row["value"], "by": row["corrected_by"], "at": None} for name, row in found.items()}
    for one in since:
        if (name := one["field"]) is not None:
            value = found[name]["value"] if name in found else None
            changed[name] = {"value": value, "by": one["actor"], "at": one["at"]}
    return Stale(int(item["version"]), changed)


def check(
    types: Types, item: ItemRow, found: Mapping[str, Row], given: Mapping[str, Any], read: Result,
) -> tuple[list[ToldIssue], dict[str, CheckedField]]:  # fmt: skip
    """What would be wrong if these values were given, and each of them in the form of its field. Writes nothing."""
    doctype = fields.type_of(types, item["type"])
    merged = fields.values_of(found)
    absent = {name for name, row in found.items() if row["state"] == "absent"} - given.keys()
    answers: dict[str, CheckedField] = {}
    for name, value in given.items():
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
    said = fields.decided_fields(found) | given.keys()
    return fields.issues(doctype, merged, absent, read_issues(read), said), answers


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
