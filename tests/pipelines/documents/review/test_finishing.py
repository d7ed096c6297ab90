"""Endings: what blocks an approval, what is stored with it, and how an item is reopened."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tabellion import Store
from tabellion.accounts import audit
from tabellion.pipelines.documents.review import claims, editing, errors, fields, finishing, items
from tabellion.pipelines.documents.review import item_view as whole
from tabellion.pipelines.documents.review.editing import Change
from tabellion.pipelines.documents.review.queue import review_queue
from tabellion.pipelines.documents.settings import Unknown
from tabellion.reading.types.doctype import DocumentType
from tabellion.reading.types.typefile import compile_type
from tests.pipelines.documents.review.items import ANNA, BEN, CLEO, VALUES, put, trail, types
from tests.workers import ask


async def held(store: Store, values: Any = None) -> str:
    """An item that Anna holds."""
    item = await put(store, values)
    await claims.claim(store, item, ANNA)
    return item


def test_approved_or_corrected(url: str) -> None:
    """Depending on whether a field was corrected; with the time it took, and the outputs to be rewritten."""

    async def go(store: Store) -> None:
        for changes, ending in (({}, "approved"), ({"date": Change("absent")}, "corrected")):
            item = await held(store)
            version = 1
            if changes:
                version = await editing.edit(store, types, item, ANNA, 1, changes)
            await editing.draft(store, item, ANNA, {"fields": {}})
            assert await finishing.approve(
                store, types, item, ANNA, version, effort={"seconds": 12.5, "keystrokes": 3}
            ) == ending  # fmt: skip
            row = await items.row(store, item)
            assert (row["status"], row["reviewer"], row["holder"]) == (ending, "anna", None)
            assert (row["seconds"], row["keystrokes"]) == (12.5, 3)
            assert await store.database.fetch("SELECT * FROM tabellion_review_drafts") == []
            assert row["version"] == version + 1
            assert row["finished_at"] is not None
            last = (await audit.history(store, item=item))[-1]
            assert (last["action"], last["before"], last["after"]) == ("approved", "in_review", ending)
            assert last["more"] == {"seconds": 12.5, "keystrokes": 3, "version": version + 1}
            [document] = await store.database.fetch(
                "SELECT chore, version FROM tabellion_documents WHERE id = $1", row["document_id"]
            )
            assert document == {"chore": "rewrite", "version": 2}
            with pytest.raises(errors.Closed) as closed:
                await finishing.approve(store, types, item, ANNA, version + 1)
            assert (closed.value.status, closed.value.reviewer) == (ending, "anna")
            assert await store.find_claim(review_queue(), item) is None

    ask(url, go)


@pytest.mark.parametrize(
    ("values", "missing", "failing"),
    [
        ({}, ["vendor", "total"], []),
        (VALUES | {"vendor": None, "total": ""}, ["vendor", "total"], []),
        (VALUES | {"total": "1.00"}, [], ["rule"]),
        (VALUES | {"date": "soon"}, [], ["type"]),
        (VALUES | {"kind": "gifts"}, [], ["choice"]),
        (VALUES | {"subtotal": "2000000.00", "tax": "0.00", "total": "2000000.00"}, [], []),
    ],
)
def test_what_blocks_an_approval(url: str, values: Any, missing: list[str], failing: list[str]) -> None:
    """Required fields neither found nor absent, and rules that are errors; warnings do not."""

    async def go(store: Store) -> None:
        item = await held(store, values)
        if not missing and not failing:
            assert await finishing.approve(store, types, item, ANNA, 1) == "approved"
            return
        with pytest.raises(errors.NotApprovable) as gated:
            await finishing.approve(store, types, item, ANNA, 1)
        assert gated.value.missing == missing
        assert [one["code"] for one in gated.value.failing] == failing
        assert str(gated.value)
        row = await items.row(store, item)
        assert (row["status"], row["holder"], row["version"]) == ("in_review", "anna", 1)

    ask(url, go)


def test_a_document_may_itself_be_wrong(url: str) -> None:
    """Once people confirmed every field of a rule, its failure is a warning."""

    async def go(store: Store) -> None:
        item = await held(store, VALUES | {"total": "121.00"})
        version = await editing.edit(
            store, types, item, ANNA, 1, {"total": Change("confirm"), "subtotal": Change("confirm")}
        )
        with pytest.raises(errors.NotApprovable):
            await finishing.approve(store, types, item, ANNA, version)
        version = await editing.edit(store, types, item, ANNA, version, {"tax": Change("correct", "19.00")})
        found = await whole.get(store, types, item, ANNA)
        assert [(one["rule"], one["severity"]) for one in found["issues"]] == [("adds_up", "warning")]
        assert await finishing.approve(store, types, item, ANNA, version) == "corrected"

    ask(url, go)


def test_a_malformed_value_always_blocks(url: str) -> None:
    """An invalid date cannot be stored as one, whoever confirms it."""

    async def go(store: Store) -> None:
        item = await held(store, VALUES | {"date": "soon", "kind": "gifts"})
        version = await editing.edit(
            store, types, item, ANNA, 1, {"date": Change("confirm"), "kind": Change("confirm")}
        )
        with pytest.raises(errors.NotApprovable) as gated:
            await finishing.approve(store, types, item, ANNA, version)
        assert [one["code"] for one in gated.value.failing] == ["type", "choice"]

    ask(url, go)


def test_a_document_queued_for_reading_is_not_approved(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even when it is queued between the check and the approval."""

    async def go(store: Store) -> None:
        item = await held(store, VALUES)
        real = finishing._finish

        async def finish(*args: Any, **options: Any) -> None:
            await store.database.fetch("UPDATE tabellion_documents SET status = 'queued'")
            await real(*args, **options)

        monkeypatch.setattr(finishing, "_finish", finish)
        with pytest.raises(errors.ReprocessingUnderway):
            await finishing.approve(store, types, item, ANNA, 1)
        row = await items.row(store, item)
        assert (row["status"], row["holder"]) == ("in_review", "anna")

    ask(url, go)


def test_a_field_marked_absent_is_not_missing(url: str) -> None:
    """An explicit empty value allows the approval."""

    async def go(store: Store) -> None:
        item = await held(store, {})
        version = await editing.edit(
            store, types, item, ANNA, 1, {"vendor": Change("absent"), "total": Change("correct", "5")}
        )
        assert await finishing.approve(store, types, item, ANNA, version) == "corrected"

    ask(url, go)


def test_an_approval_is_for_the_version_that_was_seen(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A change in between blocks it, whether noticed before or only in the transaction."""

    async def go(store: Store) -> None:
        item = await held(store)
        with pytest.raises(errors.ItemChanged):
            await finishing.approve(store, types, item, ANNA, 0)
        asked = fields.rows

        async def meanwhile(*args: Any) -> Any:
            found = await asked(*args)
            monkeypatch.setattr(fields, "rows", asked)
            await editing.edit(store, types, item, ANNA, 1, {"vendor": Change("correct", "late")})
            return found

        monkeypatch.setattr(fields, "rows", meanwhile)
        with pytest.raises(errors.ItemChanged) as stale:
            await finishing.approve(store, types, item, ANNA, 1)
        assert set(stale.value.fields) == {"vendor"}
        assert (await items.row(store, item))["status"] == "in_review"
        assert [action for action, _ in await trail(store, item)] == ["claimed", "corrected"]

    ask(url, go)


def test_a_rejection_needs_a_reason(url: str) -> None:
    """One of the known reasons; whatever the values; another's item is not rejected."""

    async def go(store: Store) -> None:
        item = await held(store, {})
        with pytest.raises(errors.InvalidValues, match="known: unreadable"):
            await finishing.reject(store, item, ANNA, "ugly")
        with pytest.raises(errors.InvalidValues, match="a reason is required"):
            await finishing.reject(store, item, ANNA, "other", " ")
        with pytest.raises(errors.NotHeld):
            await finishing.reject(store, item, BEN, "unreadable")
        await finishing.reject(store, item, ANNA, "other", "upside down", effort={"seconds": 1})
        row = await items.row(store, item)
        assert row["status"] == "rejected"
        assert json.loads(row["reason"] or "") == {"code": "other", "note": "upside down"}
        last = (await audit.history(store, item=item))[-1]
        assert (last["reason"], last["more"]["code"]) == ("upside down", "other")

    ask(url, go)


def test_a_finished_item_is_reopened(url: str) -> None:
    """By an operator, with a reason; corrections stay, and the time of both reviews counts."""

    async def go(store: Store) -> None:
        item = await held(store)
        version = await editing.edit(store, types, item, ANNA, 1, {"date": Change("correct", "2024-06-01")})
        await finishing.approve(store, types, item, ANNA, version, effort={"seconds": 10, "keystrokes": 5})
        with pytest.raises(errors.NotAllowed):
            await finishing.reopen(store, item, ANNA, "oops")
        await finishing.reopen(store, item, CLEO, "the vendor complains")
        with pytest.raises(errors.Open):
            await finishing.reopen(store, item, CLEO, "twice")
        row = await items.row(store, item)
        assert (row["status"], row["reviewer"], row["finished_at"], row["claimed_at"]) == ("pending", None, None, None)
        assert await claims.claim_next(store, BEN) == item
        await finishing.approve(store, types, item, BEN, row["version"], effort={"seconds": 5, "keystrokes": 1})
        row = await items.row(store, item)
        assert (row["status"], row["seconds"], row["keystrokes"]) == ("corrected", 15, 6)
        assert [action for action, _ in await trail(store, item)] == [
            "claimed", "corrected", "approved", "reopened", "claimed", "approved",
        ]  # fmt: skip

    ask(url, go)


def test_a_busy_document_is_not_marked(url: str) -> None:
    """A document with another pending task keeps it."""

    async def go(store: Store) -> Any:
        item = await held(store)
        await store.database.fetch("UPDATE tabellion_documents SET chore = 'telling'")
        await finishing.reject(store, item, ANNA, "duplicate")
        return await store.database.fetch("SELECT chore, version FROM tabellion_documents")

    assert ask(url, go) == [{"chore": "telling", "version": 1}]


def test_a_missing_cell_must_be_filled_in() -> None:
    """A field can be marked absent, a cell cannot: the message says what helps."""
    message = str(errors.NotApprovable(["vendor", "lines[0].amount"], []))
    assert message == (
        "required: vendor (enter a value or mark each as absent); "
        "required: lines[0].amount (enter a value or delete the row)"
    )  # fmt: skip


@pytest.mark.parametrize("type_name", [None, "gone"])
def test_a_document_without_a_type_is_not_approved(url: str, type_name: str | None) -> None:
    """It has no fields: an approval would say that an empty row is right."""

    async def go(store: Store) -> None:
        item = await put(store, {}, type=type_name)
        await claims.claim(store, item, ANNA)
        with pytest.raises(errors.NoDocumentType):
            await finishing.approve(store, unknown_types, item, ANNA, 1, unseen=True)
        assert (await items.row(store, item))["status"] == "in_review"
        await finishing.reject(store, item, ANNA, "not_ours")

    ask(url, go)


def unknown_types(name: str) -> DocumentType:
    """Return types that do not include the document's."""
    raise Unknown("type", name, ["bill"])


def test_an_empty_document_is_not_approved(url: str) -> None:
    """A document without any value is approved only once a field was marked absent."""

    async def go(store: Store) -> None:
        item = await put(store, {}, type="note")
        await claims.claim(store, item, ANNA)
        with pytest.raises(errors.NotApprovable, match="no value was read"):
            await finishing.approve(store, note_types, item, ANNA, 1, unseen=True)
        version = await editing.edit(store, note_types, item, ANNA, 1, {"text": Change("absent")})
        assert await finishing.approve(store, note_types, item, ANNA, version) == "corrected"

    ask(url, go)


def note_types(_: str) -> DocumentType:
    """A type that requires nothing."""
    return compile_type('name: note\nversion: "1"\nfields:\n  text: {type: text}\n')


def test_unchecked_fields_are_asked_about_once(url: str) -> None:
    """Fields below their threshold that nobody confirmed or corrected are named; confirming that approves them
    anyway, and the trail records it.
    """

    async def go(store: Store) -> None:
        item = await put(store, field_confidence=0.3)
        await claims.claim(store, item, ANNA)
        version = await editing.edit(
            store, types, item, ANNA, 1, {"total": Change("confirm"), "tax": Change("correct", "19")}
        )
        version = await editing.edit(store, types, item, ANNA, version, {"tax": Change("correct", "20")})
        with pytest.raises(errors.FieldsUnreviewed) as unseen:
            await finishing.approve(store, types, item, ANNA, version)
        assert [one["name"] for one in unseen.value.fields] == ["vendor", "date", "currency", "subtotal", "lines"]
        assert unseen.value.fields[0] == {
            "name": "vendor", "label": "Vendor", "value": "ACME", "confidence": 0.3, "threshold": 0.8,
        }  # fmt: skip
        assert await finishing.approve(store, types, item, ANNA, version, unseen=True) == "approved"
        last = (await audit.history(store, item=item))[-1]
        assert last["more"]["unseen"] == ["vendor", "date", "currency", "subtotal", "lines"]

    ask(url, go)


def test_an_item_approved_between_reading_and_reopening_is_not_reopened(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was open when it was read: reopening is refused, and no entry has a version that never existed."""
    read_row = items.row

    async def go(store: Store) -> None:
        item = await held(store)

        async def approved_meanwhile(store: Store, id: str) -> items.ItemRow:  # noqa: A002
            monkeypatch.setattr(items, "row", read_row)
            row = await read_row(store, id)
            await finishing.approve(store, types, id, ANNA, 1)
            return row

        monkeypatch.setattr(items, "row", approved_meanwhile)
        with pytest.raises(errors.Open):
            await finishing.reopen(store, item, CLEO, "again")
        assert (await read_row(store, item))["status"] == "approved"
        await finishing.reopen(store, item, CLEO, "again")
        row, last = await read_row(store, item), (await audit.history(store, item=item))[-1]
        assert (last["action"], last["before"], last["more"]["version"]) == ("reopened", "approved", row["version"])

    ask(url, go)
