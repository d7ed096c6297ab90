"""Edits: one transaction under a claim and a version; what was read is kept beside what people say."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tabellion import Store
from tabellion.accounts import audit
from tabellion.messages import Message, translate
from tabellion.pipelines.documents.review import claims, editing, errors, fields, finishing, items
from tabellion.pipelines.documents.review import item_view as whole
from tabellion.pipelines.documents.review.editing import Change
from tabellion.pipelines.documents.review.people import Person
from tests.engine.made_tables import asynchronous
from tests.pipelines.documents.review.items import ANNA, BEN, CLEO, VALUES, put, trail, types
from tests.workers import ask


async def edit_as_anna(store: Store, item: str, version: int, **changes: Change) -> int:
    """Edit as Anna."""
    return await editing.edit(store, types, item, ANNA, version, changes)


async def held(store: Store, values: Any = None, **columns: Any) -> str:
    """An item that Anna holds."""
    item = await put(store, values, **columns)
    await claims.claim(store, item, ANNA)
    return item


async def field(store: Store, item: str, name: str) -> fields.StoredField:
    """One field as stored."""
    row = await items.row(store, item)
    return (await fields.rows(store, row["document_id"]))[name]


async def read_again(store: Store, item: str, name: str, value: Any) -> None:
    """What a second reading leaves of a locked field."""
    row = await items.row(store, item)
    await store.database.fetch(
        "UPDATE tabellion_extracted_fields SET read_value = $1 WHERE document_id = $2 AND name = $3",
        json.dumps(value), row["document_id"], name,
    )  # fmt: skip


def test_a_correction_locks_the_field_and_keeps_what_was_read(url: str) -> None:
    """With author, time and old value; a new place if one was drawn, else the old one without its words."""

    async def go(store: Store) -> None:
        item = await held(store)
        assert await edit_as_anna(store, item, 1, total=Change("correct", "99")) == 2
        total = await field(store, item, "total")
        assert (total["value"], total["locked"], total["manually_corrected"], total["state"]) == (
            "99.00", True, True, "corrected",
        )  # fmt: skip
        assert (total["corrected_by"], total["source"], total["confidence"]) == ("anna", "person", 1.0)
        assert total["noted"] == {"read_value": "120.00", "old_value": "120.00"}
        assert (total["page"], total["box"], total["quote"]) == (1, [0.1, 0.1, 0.2, 0.2], None)
        assert total["corrected_at"] is not None
        box = (0.0, 0.0, 0.5, 0.5)
        assert await edit_as_anna(store, item, 2, total=Change("correct", "98", 1, box, "98")) == 3
        total = await field(store, item, "total")
        assert (total["value"], total["page"], total["box"], total["quote"]) == ("98.00", 1, list(box), "98")
        assert total["noted"]["old_value"] == "120.00"
        entries = [one for one in await audit.history(store, item=item) if one["field"] == "total"]
        assert [(one["before"], one["after"], one["more"]) for one in entries] == [
            ("120.00", "99.00", {"version": 2}), ("99.00", "98.00", {"version": 3}),
        ]  # fmt: skip

    ask(url, go)


def test_confirming_does_not_lock(url: str) -> None:
    """A correction to the same value confirms; repeating it changes nothing and is not a new version."""

    async def go(store: Store) -> None:
        item = await held(store)
        version = await edit_as_anna(store, item, 1, total=Change("confirm"), tax=Change("correct", "20"))
        assert version == 2
        for name in ("total", "tax"):
            one = await field(store, item, name)
            assert (one["state"], one["locked"], one["manually_corrected"]) == ("confirmed", False, False)
        assert await edit_as_anna(store, item, 2, total=Change("confirm")) == 2
        assert [action for action, _ in await trail(store, item)] == ["claimed", "confirmed", "confirmed"]
        with pytest.raises(errors.ItemChanged):
            await edit_as_anna(store, item, 1, total=Change("confirm"))

    ask(url, go)


def test_a_field_can_be_marked_absent(url: str) -> None:
    """An explicit empty value, locked, also for a field that was never found."""

    async def go(store: Store) -> None:
        item = await held(store)
        await edit_as_anna(store, item, 1, date=Change("absent"), paid=Change("absent"))
        for name in ("date", "paid"):
            one = await field(store, item, name)
            assert (one["value"], one["state"], one["locked"]) == (None, "absent", True)
            assert one["reasons"] == ["marked as absent by a person"]
        assert (await field(store, item, "date"))["noted"]["old_value"] == VALUES["date"]
        assert await edit_as_anna(store, item, 2, date=Change("absent")) == 2
        assert await edit_as_anna(store, item, 2, paid=Change("correct", "yes")) == 3
        assert (await field(store, item, "paid"))["value"] is True

    ask(url, go)


def test_a_correction_back_to_what_was_read_is_a_confirmation(url: str) -> None:
    """Whatever was there meanwhile; drawing a place makes it a correction."""

    async def go(store: Store) -> None:
        item = await held(store)
        await edit_as_anna(store, item, 1, vendor=Change("correct", "ACMEE"), date=Change("absent"))
        await edit_as_anna(store, item, 2, vendor=Change("correct", "ACME"), date=Change("correct", VALUES["date"]))
        for name in ("vendor", "date"):
            one = await field(store, item, name)
            assert (one["value"], one["state"], one["locked"]) == (VALUES[name], "confirmed", False)
            assert (one["manually_corrected"], one["corrected_by"], one["source"]) == (False, None, "text")
            assert (one["confidence"], one["quote"]) == (0.9, "as printed")
        entries = [one for one in await audit.history(store, item=item) if one["field"] == "vendor"]
        assert [(one["action"], one["before"], one["after"]) for one in entries] == [
            ("corrected", "ACME", "ACMEE"), ("confirmed", "ACMEE", "ACME"),
        ]  # fmt: skip
        await edit_as_anna(store, item, 3, vendor=Change("correct", "B"))
        await read_again(store, item, "vendor", "C")
        await edit_as_anna(store, item, 4, vendor=Change("correct", "ACME"))
        assert (await field(store, item, "vendor"))["state"] == "corrected"
        await edit_as_anna(store, item, 5, vendor=Change("correct", "C", 1, (0, 0, 1, 1)))
        assert (await field(store, item, "vendor"))["locked"]

    ask(url, go)


def test_unlocking_restores_what_was_read(url: str) -> None:
    """With its confidence, place and origin."""

    async def go(store: Store) -> None:
        item = await held(store)
        await edit_as_anna(store, item, 1, total=Change("correct", "1"), tax=Change("confirm"))
        await edit_as_anna(store, item, 2, total=Change("unlock"), tax=Change("unlock"))
        total = await field(store, item, "total")
        assert (total["value"], total["state"], total["locked"], total["confidence"]) == ("120.00", None, False, 0.9)
        assert (total["source"], total["quote"], total["corrected_by"]) == ("text", "as printed", None)
        assert (await field(store, item, "tax"))["state"] is None
        assert await edit_as_anna(store, item, 3, total=Change("unlock")) == 3
        await edit_as_anna(store, item, 3, total=Change("correct", "2"))
        await read_again(store, item, "total", "121.00")
        await edit_as_anna(store, item, 4, total=Change("unlock"))
        total = await field(store, item, "total")
        assert (total["value"], total["confidence"]) == ("121.00", 0.0)
        assert total["state"] is None

    ask(url, go)


def test_a_second_reading_is_shown_beside_the_correction(url: str) -> None:
    """Human, old model, new model; after a new decision there is nothing to show."""

    async def go(store: Store) -> None:
        item = await held(store)

        async def beside() -> Any:
            row = await field(store, item, "total")
            [shown] = [
                one for one in fields.serialize_fields(types("bill"), {"total": row}, []) if one["name"] == "total"
            ]
            return shown["three_way"]

        await edit_as_anna(store, item, 1, total=Change("correct", "99"))
        assert await beside() is None
        await read_again(store, item, "total", "100.00")
        assert await beside() == {"human": "99.00", "old_model": "120.00", "new_model": "100.00"}
        await edit_as_anna(store, item, 2, total=Change("confirm"))
        assert await beside() is None
        assert (await field(store, item, "total"))["state"] == "corrected"
        await read_again(store, item, "total", None)
        assert (await beside())["new_model"] is None
        await edit_as_anna(store, item, 3, total=Change("correct", "98"))
        assert await beside() is None

    ask(url, go)


def test_one_invalid_value_rejects_the_whole_edit(url: str) -> None:
    """Every error is reported; nothing is written, not even the version."""

    async def go(store: Store) -> None:
        item = await held(store)
        with pytest.raises(errors.InvalidValues) as refused:
            await edit_as_anna(
                store, item, 1, vendor=Change("correct", "New"), total=Change("correct", "x"), nope=Change("confirm"),
                paid=Change("confirm"), date=Change("correct", None), kind=Change("unlock"),
                currency=Change("correct", "USD", 2), vendorr=Change("absent"),
            )  # fmt: skip
        errors_by_field = refused.value.problems
        assert set(errors_by_field) == {"total", "nope", "paid", "date", "kind", "currency", "vendorr"}
        assert errors_by_field["currency"] == "currency: page 2 does not exist; the document has 1"
        assert errors_by_field["vendorr"].startswith(
            "unknown field 'vendorr' (did you mean vendor?); known: vendor, date"
        )
        assert (refused.value.fix, errors_by_field["nope"][:27]) == ("correct the value", "unknown field 'nope'; known")
        with pytest.raises(errors.InvalidValues, match="unknown field 'nope'") as strange:
            await edit_as_anna(store, item, 1, nope=Change("confirm"), total=Change("correct", "x"))
        assert strange.value.fix == "use an existing field name"
        with pytest.raises(errors.InvalidValues, match="version 7 does not exist; the current version is 1"):
            await edit_as_anna(store, item, 7, vendor=Change("confirm"))
        assert (await field(store, item, "vendor"))["value"] == "ACME"
        assert (await items.row(store, item))["version"] == 1
        assert await trail(store, item) == [("claimed", "anna")]

    ask(url, go)


def test_values_shown_on_a_page_can_be_sent_back(url: str) -> None:
    """The field's value, the reading's and the suggestions: in the form of the field, so unambiguous."""

    async def go(store: Store) -> None:
        item = await held(store, VALUES | {"tax": "1.234"})
        assert await edit_as_anna(store, item, 1, tax=Change("correct", "1.234")) == 2
        assert (await field(store, item, "tax"))["state"] == "confirmed"
        assert await edit_as_anna(store, item, 2, tax=Change("correct", "2")) == 3
        assert await edit_as_anna(store, item, 3, tax=Change("correct", "1.234")) == 4
        with pytest.raises(errors.InvalidValues, match="is ambiguous"):
            await edit_as_anna(store, item, 4, tax=Change("correct", "1,234"))
        with pytest.raises(errors.InvalidValues, match="is ambiguous"):
            await edit_as_anna(store, item, 4, total=Change("correct", "2.345"))
        offered = json.dumps([{"value": "2.345"}])
        await store.database.fetch(
            "UPDATE tabellion_extracted_fields SET candidates = $1 WHERE name = 'total'", offered
        )
        assert await edit_as_anna(store, item, 4, total=Change("correct", "2.345")) == 5

    ask(url, go)


def test_only_the_holder_edits(url: str) -> None:
    """Another's item, an unclaimed one, a finished one, one being read: each error says why."""

    async def go(store: Store) -> None:
        item = await put(store)
        changes = {"vendor": Change("confirm")}
        with pytest.raises(errors.NotHeld):
            await editing.edit(store, types, item, ANNA, 1, changes)
        await claims.claim(store, item, BEN)
        with pytest.raises(errors.NotHeld) as other:
            await editing.edit(store, types, item, ANNA, 1, changes)
        assert other.value.holder == "ben"
        await store.database.fetch("UPDATE tabellion_documents SET status = 'queued'")
        with pytest.raises(errors.ReprocessingUnderway):
            await editing.edit(store, types, item, BEN, 1, changes)
        await store.database.fetch("UPDATE tabellion_documents SET status = 'completed'")
        await claims.claim(store, item, CLEO, takeover=True)
        with pytest.raises(errors.NotHeld):
            await editing.draft(store, item, BEN, {})
        with pytest.raises(errors.NoSuchItem):
            await editing.edit(store, types, "nothing", BEN, 1, changes)

    ask(url, go)


@asynchronous
async def test_of_concurrent_edits_of_one_version_one_succeeds(url: str) -> None:
    """Twelve at once over three stores, all by the holder: each version has one author, and nothing is lost."""
    stores = [Store(url, durable=False) for _ in range(3)]
    try:
        item = await held(stores[0])
        conflicts: list[Any] = []

        async def one(number: int) -> int | None:
            try:
                return await editing.edit(
                    stores[number % 3], types, item, ANNA, 1, {"vendor": Change("correct", f"v{number}")}
                )
            except errors.ItemChanged as stale:
                conflicts.append((stale.version, stale.fields["vendor"]["by"]))
                return None

        results = await asyncio.gather(*(one(number) for number in range(12)))
        assert sorted(result or 0 for result in results) == [0] * 11 + [2]
        assert conflicts == [(2, "anna")] * 11
        winner = next(number for number, result in enumerate(results) if result)
        assert (await field(stores[0], item, "vendor"))["value"] == f"v{winner}"
        assert len(await trail(stores[0], item)) == 2
        assert (await audit.verify(stores[0])).whole
    finally:
        for store in stores:
            await store.close()


def test_each_person_has_their_own_draft(url: str) -> None:
    """Nobody sees or erases another's; all are deleted when the item is finished, and with its document."""

    async def go(store: Store) -> None:
        async def draft(person: Person) -> Any:
            found = (await whole.get(store, types, item, person))["draft"]
            return found and found["fields"]

        item = await held(store)
        await editing.draft(store, item, ANNA, {"fields": {"total": "1"}})
        await editing.draft(store, item, ANNA, {"fields": {"total": "12"}})
        await claims.claim(store, item, CLEO, takeover=True)
        assert (await draft(ANNA), await draft(CLEO)) == ({"total": "12"}, None)
        await editing.draft(store, item, CLEO, {"fields": {"total": "99"}})
        await claims.release(store, item, CLEO)
        await claims.claim(store, item, ANNA)
        assert (await draft(ANNA), await draft(CLEO), await draft(BEN)) == ({"total": "12"}, {"total": "99"}, None)
        kept = (await whole.get(store, types, item, ANNA))["draft"]
        assert kept is not None
        assert kept["saved_at"]
        await finishing.approve(store, types, item, ANNA, 1)
        assert (await draft(ANNA), await draft(CLEO)) == (None, None)
        item = await held(store)
        await editing.draft(store, item, ANNA, {"fields": {"total": "1"}})
        await store.database.fetch("DELETE FROM tabellion_review_items WHERE id = $1", item)
        assert await store.database.fetch("SELECT * FROM tabellion_review_drafts") == []

    ask(url, go)


def test_a_field_unknown_to_its_type_can_be_corrected(url: str) -> None:
    """The type of a document may be gone, or may have lost a field; what was read is still there."""

    async def go(store: Store) -> None:
        item = await held(store, {"colour": "red", "rows": [{"a": "1"}]}, type="gone")
        await editing.edit(store, gone, item, ANNA, 1, {"colour": Change("correct", "blue")})
        assert (await field(store, item, "colour"))["value"] == "blue"
        with pytest.raises(errors.InvalidValues, match="unknown field 'size'"):
            await editing.edit(store, gone, item, ANNA, 2, {"size": Change("absent")})

    def gone(name: str) -> Any:
        raise errors.NoSuchItem(name)

    ask(url, go)


def test_an_impossible_version_is_a_message(sqlite_url: str) -> None:
    """With a code and both versions, so that pages show it in their language."""

    async def go(store: Store) -> str:
        with pytest.raises(errors.InvalidValues) as invalid:
            await edit_as_anna(store, await held(store), 7, total=Change("correct", "99"))
        return invalid.value.problems["If-Match"]

    message = ask(sqlite_url, go)
    assert isinstance(message, Message)
    assert message == "version 7 does not exist; the current version is 1"
    assert translate("fr", message.code, **message.params).startswith("le document n’a jamais eu de version 7")
