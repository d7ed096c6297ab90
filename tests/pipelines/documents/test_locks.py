"""What people said of a document is carried to every later reading of the same bytes as the same type."""

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
from tests.models.bills import said as told_by_model
from tests.pipelines.documents.papers import document, paper, processed, rows, sent, write_type
from tests.pipelines.documents.test_extraction import FAST, Clerk
from tests.working import ask

ANNA = Person("anna", 2)
ALWAYS = "processing: {review: always}\n"


def edit(url: str, settings: Settings, key: str, **changes: Change) -> None:
    """Anna claims the item of a document, changes fields and approves it."""

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
    key = sent(url, settings, paper(), type="slip")
    processed(url, settings)
    edit(url, settings, key, total=Change("correct", "4321.00"), vendor=Change("confirm"))
    processed(url, settings)
    return key


def change_type(settings: Settings, version: str) -> None:
    """Gives the type another version."""
    path = Path(settings.types.folders[0], "slip.yaml")
    path.write_text(path.read_text().replace('version: "', f'version: "{version}.', 1))


def field(url: str, key: str, name: str = "total") -> dict[str, Any]:
    """A field as its row has it."""
    [row] = rows(url, "SELECT * FROM tabellion_extracted_fields WHERE document_id = $1 AND name = $2", key, name)
    return row | {one: json.loads(row[one]) for one in ("value", "read_value", "old_value") if row[one] is not None}


def was_carried(url: str, settings: Settings, key: str) -> None:
    """The document has Anna's total: in the row, in the answer and in the outputs; and her word on the vendor."""
    total = field(url, key)
    assert (total["value"], bool(total["locked"]), total["state"]) == ("4321.00", True, "corrected")
    assert (total["read_value"], total["old_value"], total["corrected_by"]) == ("120.00", "120.00", "anna")
    assert field(url, key, "vendor")["state"] == "confirmed"
    told = document(url, key)
    assert (told["fields"]["total"]["value"], told["fields"]["total"]["locked"]) == ("4321.00", True)
    written = json.loads(asyncio.run(settings.lake.get(told["outputs"]["json"])))
    assert (written["fields"]["total"]["value"], written["locked"]) == ("4321.00", ["total"])


def test_a_correction_is_carried_to_another_version_of_the_type(url: str, settings: Settings, corrected: str) -> None:
    """The same bytes come when the type has changed: they are read anew, and the correction stays."""
    change_type(settings, "2")
    other = sent(url, settings, paper(), type="slip")
    processed(url, settings)
    assert document(url, other)["duplicate_of"] is None
    was_carried(url, settings, other)


def test_a_correction_is_carried_to_another_model(url: str, settings: Settings, corrected: str) -> None:
    """The same bytes come for another model."""
    answer = told_by_model(settings.types.get("slip"), total=("120.00", "Total: 120.00"))
    rich = replace(settings, models={"clerk": "clerk"}, model=lambda _: GatedModel(Clerk(answer)))
    other = sent(url, rich, paper(), type="slip", model="clerk")
    processed(url, rich, gates=FAST)
    assert document(url, other)["model"] == "clerk"
    was_carried(url, settings, other)


def test_a_correction_is_carried_to_a_type_that_is_found_out(url: str, settings: Settings) -> None:
    """Whether the type was said or found out makes no difference: it is the same one."""
    key = sent(url, settings, paper(), type="invoice")
    processed(url, settings)
    ask(url, lambda store: _opened(store, key))
    edit(url, settings, key, payment_terms=Change("correct", "30 days"))
    processed(url, settings)
    other = sent(url, settings, paper())
    processed(url, settings)
    assert document(url, other)["type"] == "invoice"
    assert field(url, other, "payment_terms")["value"] == "30 days"


async def _opened(store: Store, key: str) -> None:
    if not await store.database.fetch("SELECT id FROM tabellion_review_items WHERE document_id = $1", key):
        from tests.pipelines.documents.review.items import put_item

        await put_item(store, key)


def test_every_upload_has_it_where_a_type_keeps_them_all(url: str, settings: Settings) -> None:
    """Policy keep: nothing is a duplicate, and nobody corrects the same file twice."""
    write_type(settings, "slip", ALWAYS + "idempotency: {policy: keep}\n")
    first = sent(url, settings, paper(), type="slip")
    processed(url, settings)
    edit(url, settings, first, total=Change("correct", "4321.00"), vendor=Change("confirm"))
    processed(url, settings)
    other = sent(url, settings, paper(), type="slip")
    processed(url, settings)
    was_carried(url, settings, other)


def test_a_correction_goes_no_further_than_its_bytes_and_its_type(url: str, settings: Settings, corrected: str) -> None:
    """Other bytes, another type, and a version of the type without the field know nothing of it."""
    write_type(settings, "bon", ALWAYS)
    others = [sent(url, settings, paper(1), type="slip"), sent(url, settings, paper(), type="bon")]
    processed(url, settings)
    assert [bool(field(url, key)["locked"]) for key in others] == [False, False]
    folder = Path(settings.types.folders[0])
    folder.joinpath("slip.yaml").write_text('name: slip\nversion: "2"\nfields:\n  vendor: {type: name}\n')
    less = sent(url, settings, paper(), type="slip")
    processed(url, settings)
    assert list(document(url, less)["fields"]) == ["vendor"]


def test_the_last_word_counts_and_who_takes_it_back_is_heard(url: str, settings: Settings, corrected: str) -> None:
    """A second person's correction is carried on, not the first one's; a field given back stays the machine's."""
    change_type(settings, "2")
    second = sent(url, settings, paper(), type="slip")
    processed(url, settings)
    edit(url, settings, second, total=Change("correct", "5000.00"))
    processed(url, settings)
    change_type(settings, "3")
    third = sent(url, settings, paper(), type="slip")
    processed(url, settings)
    assert field(url, third)["value"] == "5000.00"
    edit(url, settings, third, total=Change("unlock"))
    processed(url, settings)
    ask(url, lambda store: reprocess(store, settings, third))
    processed(url, settings)
    assert (field(url, third)["value"], bool(field(url, third)["locked"])) == ("120.00", False)
    assert field(url, corrected)["value"] == "4321.00"  # what was approved there stays


def test_a_type_that_lets_corrections_go_carries_none(url: str, settings: Settings, corrected: str) -> None:
    """preserve_locked: false means every reading is the machine's."""
    write_type(settings, "slip", ALWAYS + "idempotency: {preserve_locked: false}\n")
    other = sent(url, settings, paper(), type="slip")
    processed(url, settings)
    assert (field(url, other)["value"], bool(field(url, other)["locked"])) == ("120.00", False)


def test_nothing_is_kept_of_bytes_that_were_deleted(url: str, settings: Settings, corrected: str) -> None:
    """What people said goes with the last document that has the bytes, and not before."""
    change_type(settings, "2")
    other = sent(url, settings, paper(), type="slip")
    processed(url, settings)
    ask(url, lambda store: delete(store, settings, corrected))
    count = "SELECT count(*) AS n FROM tabellion_field_decisions"
    assert rows(url, count)[0]["n"] == 2
    ask(url, lambda store: delete(store, settings, other))
    assert rows(url, count)[0]["n"] == 0
