"""Fields as shown: in the type's order, each with a state that says what to do."""

from __future__ import annotations

from typing import Any

import pytest

from tabellion import Store
from tabellion.pipelines.documents.review import errors, fields, items
from tabellion.reading.issue import IssueJson
from tabellion.reading.types.doctype import DocumentType
from tabellion.reading.types.typefile import compile_type
from tests.pipelines.documents.review.items import BILL, VALUES, put, types
from tests.workers import ask


def fields_of(url: str, values: dict[str, Any], change: str = "", **columns: Any) -> dict[str, dict[str, Any]]:
    """Return the fields of a document that was read with these values."""

    async def go(store: Store) -> Any:
        item = await put(store, values, **columns)
        if change:
            await store.database.fetch(change)
        row = await items.row(store, item)
        found = await fields.rows(store, row["document_id"])
        doctype = fields.type_of(types, row["type"])
        judged = fields.issues(doctype, fields.values_of(found), [])
        return fields.serialize_fields(doctype, found, judged)

    return {one["name"]: one for one in ask(url, go)}


def test_every_declared_field_is_listed(sqlite_url: str) -> None:
    """In the type's order with label, kind and options; those not found, and undeclared ones."""
    found = fields_of(sqlite_url, {"extra": "x", "total": "5.00"})
    assert list(found) == [*(one.name for one in BILL.fields), "extra"]
    assert (found["vendor"]["label"], found["vendor"]["kind"], found["vendor"]["required"]) == ("Vendor", "name", True)
    assert (found["vendor"]["value"], found["vendor"]["state"], found["vendor"]["source"]) == (None, "needs_look", None)
    assert (found["date"]["state"], found["total"]["state"]) == ("auto", "auto")
    assert found["extra"]["value"] == "x"
    assert found["total"]["box"] == [0.1, 0.1, 0.2, 0.2]


def test_states_say_what_to_do(url: str) -> None:
    """Errors come before low confidence; a person's decision before both."""
    found = fields_of(url, VALUES | {"total": "1.00"}, field_confidence=0.5)
    assert {name: one["state"] for name, one in found.items() if name in VALUES} == {
        "vendor": "needs_look", "date": "needs_look", "currency": "needs_look", "subtotal": "rule_failed",
        "tax": "rule_failed", "total": "rule_failed", "lines": "needs_look",
    }  # fmt: skip


def test_a_persons_decision_overrides_the_rules(sqlite_url: str) -> None:
    """Whatever the rules say."""
    change = "UPDATE tabellion_extracted_fields SET state = 'confirmed' WHERE name = 'tax'"
    found = fields_of(sqlite_url, VALUES | {"total": "1.00"}, change)
    assert (found["tax"]["state"], found["total"]["state"]) == ("confirmed", "rule_failed")


def test_findings_of_the_reading_stay_unless_a_rule_is_evaluated_again() -> None:
    """Findings of standards are kept, those of the type's own rules are evaluated again."""
    read: list[IssueJson] = [
        {"code": "rule", "severity": "error", "message": "old", "fields": ["total"], "rule": "adds_up"},
        {"code": "BR-CO-10", "severity": "error", "message": "e-invoice", "fields": [], "rule": "BR-CO-10"},
        {"code": "missing", "severity": "error", "message": "old", "fields": ["vendor"], "rule": ""},
    ]
    assert [one["message"] for one in fields.issues(BILL, VALUES, [], read)] == ["e-invoice"]
    missing = fields.issues(BILL, VALUES | {"vendor": None}, [], read)
    assert [(one["code"], one["fields"]) for one in missing] == [("missing", ["vendor"]), ("BR-CO-10", [])]
    assert [one["code"] for one in fields.issues(BILL, VALUES | {"vendor": None}, ["vendor"], [])] == []


def test_an_invalid_cell_marks_its_list(sqlite_url: str) -> None:
    """lines[0].amount belongs to lines."""
    assert fields_of(sqlite_url, VALUES | {"lines": [{"amount": "x"}]})["lines"]["state"] == "rule_failed"


def test_an_invalid_type_file_does_not_disable_its_rules() -> None:
    """Judging fails with the file and the line; no type is usable for viewing."""

    def broken(name: str) -> DocumentType:
        return compile_type("name: bill\nversion: '1'\nnonsense: [", f"/srv/types/{name}.yaml")

    def gone(name: str) -> DocumentType:
        raise errors.NoSuchItem(name)

    with pytest.raises(
        errors.TypeBroken, match=r"the document type 'bill' contains an error: bill\.yaml, line 4: "
    ) as fields_of:
        fields.type_of(broken, "bill")
    assert (fields_of.value.file, fields_of.value.line) == ("bill.yaml", 4)
    assert fields.usable_type(broken, "bill") is fields.usable_type(gone, "bill") is None
    assert fields.usable_type(gone, None) is fields.NO_TYPE
    assert fields.type_of(broken, None) is fields.NO_TYPE
    assert fields.type_of(gone, "bill") is fields.NO_TYPE


def test_a_row_without_a_required_cell_fails() -> None:
    """The list is not missing, and it is not settled either."""
    doctype = compile_type(
        'name: a\nversion: "1"\nfields:\n  lines:\n    type: list\n    items: {lot: {type: id, required: true}}\n'
    )
    found = {"lines": row(value=[{"lot": None}])}
    judged = fields.issues(doctype, fields.values_of(found), [])
    assert [one["fields"] for one in judged] == [["lines[0].lot"]]
    [fields_of] = fields.serialize_fields(doctype, found, judged)
    assert fields_of["state"] == "rule_failed"


def test_findings_about_settled_fields_are_over() -> None:
    """Also about cells: correcting the table corrects its cells."""
    doctype = compile_type('name: a\nversion: "1"\nfields:\n  lines: {type: list, items: {n: {type: text}}}\n')
    read: list[IssueJson] = [
        {"code": "xml", "severity": "error", "message": "no", "fields": ["lines[0].n"], "rule": "BR-1"},
        {"code": "damaged", "severity": "warning", "message": "cut off", "fields": [], "rule": ""},
    ]
    assert len(fields.issues(doctype, {}, [], read)) == 2
    assert [one["code"] for one in fields.issues(doctype, {}, [], read, {"lines"})] == ["damaged"]


def row(**columns: Any) -> fields.StoredField:
    """A field as in its table."""
    return {  # type: ignore[return-value]
        "name": "", "place": 0, "value": None, "confidence": 0.9, "page": None, "box": None, "quote": None,
        "source": "text", "reasons": [], "locked": False, "corrected_by": None, "corrected_at": None, "state": None,
        "manually_corrected": False, "candidates": None, "noted": {},
    } | columns  # fmt: skip
