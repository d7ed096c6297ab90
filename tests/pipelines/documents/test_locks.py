"""People's corrections are carried over to later readings of the same bytes as the same type."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tabellion import Store
from tabellion.models.gated import GatedModel
from tabellion.pipelines.documents.reprocess import delete, reprocess
from tabellion.pipelines.documents.review import claims, editing, finishing, items
from tabellion.pipelines.documents.review.editing import Change
from tabellion.pipelines.documents.review.people import Person
from tabellion.pipelines.documents.settings import Settings
from tests.models.bills import reply_about as told_by_model
from tests.pipelines.documents.papers import document, paper, process_all, rows, submit_file, write_type
from tests.pipelines.documents.test_extraction import FAST, ScriptedModel
from tests.workers import ask

ANNA = Person("anna", 2)
ALWAYS = "processing: {review: always}\n"


def edit(url: str, settings: Settings, key: str, **changes: Change) -> None:
    """Claim the item of a document as Anna, change fields and approve it."""

    async def go(store: Store) -> None:
        [row] = await store.database.fetch("SELECT id FROM tabellion_review_items WHERE document_id = $1", key)
        await claims.claim(store, row["id"], ANNA)
        version = (await items.row(store, row["id"]))["version"]
        version = await editing.edit(store, settings.types.get, row["id"], ANNA, version, changes)
        await finishing.approve(store, settings.types.get, row["id"], ANNA, version)

    ask(url, go)


@pytest.fixture
def corrected(url: str, settings: Settings) -> str:
    """A document whose total a person corrected to 4321, and whose vendor they confirmed."""
    write_type(settings, "slip", ALWAYS)
    key = submit_file(url, settings, paper(), type="slip")
    process_all(url, settings)
    edit(url, settings, key, total=Change("correct", "4321.00"), vendor=Change("confirm"))
    process_all(url, settings)
    return key


def change_type(settings: Settings, version: str) -> None:
    """Give the type another version."""
    path = Path(settings.types.folders[0], "slip.yaml")
    path.write_text(path.read_text().replace('version: "', f'version: "{version}.', 1))


def field(url: str, key: str, name: str = "total") -> dict[str, Any]:
    """A field as in its row."""
    [row] = rows(url, "SELECT * FROM tabellion_extracted_fields WHERE document_id = $1 AND name = $2", key, name)
    return row | {one: json.loads(row[one]) for one in ("value", "read_value", "old_value") if row[one] is not None}


def assert_carried(url: str, settings: Settings, key: str) -> None:
    """Assert that the document has Anna's total in row, answer and outputs, and her confirmation of the vendor."""
    total = field(url, key)
    assert (total["value"], bool(total["locked"]), total["state"]) == ("4321.00", True, "corrected")
    assert (total["read_value"], total["old_value"], total["corrected_by"]) == ("120.00", "120.00", "anna")
    assert field(url, key, "vendor")["state"] == "confirmed"
    found = document(url, key)
    assert (found["fields"]["total"]["value"], found["fields"]["total"]["locked"]) == ("4321.00", True)
    written = json.loads(asyncio.run(settings.lake.get(found["outputs"]["json"])))
    assert (written["fields"]["total"]["value"], written["locked"]) == ("4321.00", ["total"])


def test_a_correction_is_carried_to_another_version_of_the_type(url: str, settings: Settings, corrected: str) -> None:
    """The same bytes are read again after the type has changed, and the correction stays."""
    change_type(settings, "2")
    other = submit_file(url, settings, paper(), type="slip")
    process_all(url, settings)
    assert document(url, other)["duplicate_of"] is None
    assert_carried(url, settings, other)


def test_a_correction_is_carried_to_another_model(url: str, settings: Settings, corrected: str) -> None:
    """The same bytes are submitted for another model."""
    answer = told_by_model(settings.types.get("slip"), total=("120.00", "Total: 120.00"))
    rich = replace(settings, models={"clerk": "clerk"}, model=lambda _: GatedModel(ScriptedModel(answer)))
    other = submit_file(url, rich, paper(), type="slip", model="clerk")
    process_all(url, rich, gates=FAST)
    assert document(url, other)["model"] == "clerk"
    assert_carried(url, settings, other)


def test_a_correction_is_carried_to_a_detected_type(url: str, settings: Settings) -> None:
    """Whether the type was requested or detected makes no difference."""
    key = submit_file(url, settings, paper(), type="invoice")
    process_all(url, settings)
    ask(url, lambda store: _opened(store, key))
    edit(url, settings, key, payment_terms=Change("correct", "30 days"))
    process_all(url, settings)
    other = submit_file(url, settings, paper())
    process_all(url, settings)
    assert document(url, other)["type"] == "invoice"
    assert field(url, other, "payment_terms")["value"] == "30 days"


async def _opened(store: Store, key: str) -> None:
    if not await store.database.fetch("SELECT id FROM tabellion_review_items WHERE document_id = $1", key):
        from tests.pipelines.documents.review.items import put_item

        await put_item(store, key)


def test_every_upload_has_it_where_a_type_keeps_them_all(url: str, settings: Settings) -> None:
    """Policy keep: nothing is a duplicate, and nobody corrects the same file twice."""
    write_type(settings, "slip", ALWAYS + "idempotency: {policy: keep}\n")
    first = submit_file(url, settings, paper(), type="slip")
    process_all(url, settings)
    edit(url, settings, first, total=Change("correct", "4321.00"), vendor=Change("confirm"))
    process_all(url, settings)
    other = submit_file(url, settings, paper(), type="slip")
    process_all(url, settings)
    assert_carried(url, settings, other)


def test_a_correction_applies_only_to_its_bytes_and_type(url: str, settings: Settings, corrected: str) -> None:
    """Other bytes, another type, and a version without the field are not affected."""
    write_type(settings, "bon", ALWAYS)
    others = [submit_file(url, settings, paper(1), type="slip"), submit_file(url, settings, paper(), type="bon")]
    process_all(url, settings)
    assert [bool(field(url, key)["locked"]) for key in others] == [False, False]
    folder = Path(settings.types.folders[0])
    folder.joinpath("slip.yaml").write_text('name: slip\nversion: "2"\nfields:\n  vendor: {type: name}\n')
    less = submit_file(url, settings, paper(), type="slip")
    process_all(url, settings)
    assert list(document(url, less)["fields"]) == ["vendor"]


def test_the_last_decision_counts(url: str, settings: Settings, corrected: str) -> None:
    """A second person's correction is carried on, not the first one's; an unlocked field stays the machine's."""
    change_type(settings, "2")
    second = submit_file(url, settings, paper(), type="slip")
    process_all(url, settings)
    edit(url, settings, second, total=Change("correct", "5000.00"))
    process_all(url, settings)
    change_type(settings, "3")
    third = submit_file(url, settings, paper(), type="slip")
    process_all(url, settings)
    assert field(url, third)["value"] == "5000.00"
    edit(url, settings, third, total=Change("unlock"))
    process_all(url, settings)
    ask(url, lambda store: reprocess(store, settings, third))
    process_all(url, settings)
    assert (field(url, third)["value"], bool(field(url, third)["locked"])) == ("120.00", False)
    assert field(url, corrected)["value"] == "4321.00"  # what was approved there stays


def test_a_reopened_review_keeps_what_was_settled_in_it(url: str, settings: Settings) -> None:
    """Item and outputs are pending, and the reason for review is still there, shown as settled."""
    write_type(settings, "slip")
    path = Path(settings.types.folders[0], "slip.yaml")
    path.write_text(path.read_text().replace("name, required: true, threshold: 0.5", "name, threshold: 0.999"))
    key = submit_file(url, settings, paper(), type="slip")
    process_all(url, settings)
    edit(url, settings, key, vendor=Change("confirm"))
    process_all(url, settings)
    ask(url, lambda store: reprocess(store, settings, key, reopen=True))
    process_all(url, settings)
    [item] = rows(url, "SELECT status, reasons FROM tabellion_review_items")
    assert item["status"] == "pending"
    assert [(one["code"], one["fields"]) for one in json.loads(item["reasons"])] == [("low_confidence", ["vendor"])]
    written = json.loads(asyncio.run(settings.lake.get(document(url, key)["outputs"]["json"])))
    assert (written["review"], field(url, key, "vendor")["state"]) == ("pending", "confirmed")


def test_a_type_that_discards_corrections_carries_none(url: str, settings: Settings, corrected: str) -> None:
    """preserve_locked: false means every reading is the machine's."""
    write_type(settings, "slip", ALWAYS + "idempotency: {preserve_locked: false}\n")
    other = submit_file(url, settings, paper(), type="slip")
    process_all(url, settings)
    assert (field(url, other)["value"], bool(field(url, other)["locked"])) == ("120.00", False)


def test_corrections_of_deleted_bytes_are_deleted(url: str, settings: Settings, corrected: str) -> None:
    """With the last document that has the bytes, and not before."""
    change_type(settings, "2")
    other = submit_file(url, settings, paper(), type="slip")
    process_all(url, settings)
    ask(url, lambda store: delete(store, settings, corrected))
    count = "SELECT count(*) AS n FROM tabellion_field_decisions"
    assert rows(url, count)[0]["n"] == 2
    ask(url, lambda store: delete(store, settings, other))
    assert rows(url, count)[0]["n"] == 0
