"""Rows of the extraction queue, in our table and in one made by hand."""

from __future__ import annotations

import pytest

from tabellion import Queue, Store
from tabellion.extractions.columns import ColumnChoice
from tabellion.extractions.lookup import ExtractionTable, format_times, load_metadata
from tabellion.extractions.row_values import TextTooLong
from tabellion.extractions.tables import SCHEMA, TABLE
from tabellion.installed_pipelines import installed_pipelines
from tabellion.messages import Message
from tests.extractions.handmade import make_by_hand
from tests.workers import ask


def test_pages_of_a_list_have_each_row_once(url: str) -> None:
    """Rows of the same time are ordered by their keys; the newest come first."""

    async def go(store: Store) -> None:
        await SCHEMA.prepare(store)
        table = await ExtractionTable.open(store, ColumnChoice())
        ids = [await table.insert({"status_id": 3, "document_type": "actes"}) for _ in range(5)]
        past = "'2020-01-01'" if store.dialect == "postgresql" else "1577836800.0"
        await store.database.fetch(f"UPDATE extraction_queue SET created_at = {past} RETURNING 1 AS n")
        await table.insert({"status_id": 1})
        found, cursor = [], None
        while True:
            rows, cursor = await table.list_rows({"document_type": "actes"}, cursor, 2)
            found += [row["id"] for row in rows]
            if cursor is None:
                break
        assert sorted(found) == sorted(ids)
        assert len((await table.list_rows({}, None, 10))[0]) == 6
        assert [row["status_id"] for row in (await table.list_rows({}, None, 1))[0]] == [1]

    ask(url, go)


def test_a_table_made_by_hand_is_shown_with_what_it_has(url: str) -> None:
    """UUIDs for keys on PostgreSQL, texts for times on SQLite, no metadata; an invalid key finds nothing."""

    async def go(store: Store) -> None:
        await make_by_hand(store)
        table = await ExtractionTable.open(store, ColumnChoice())
        key = "00000000-0000-4000-8000-000000000001"
        await table.insert({"id": key, "status_id": 4, "file_url": "https://x/a.pdf", "ocr_error": "no", "lot": "1"})
        row = await table.get(key)
        assert row is not None
        assert (row["id"], row["file_address"], row["ocr_error"]) == (key, "https://x/a.pdf", "no")
        assert (row["has_text"], load_metadata(row)) == (0, None)
        assert (format_times(row)["created_at"] or "").startswith("20")
        assert await table.get("nonsense") is None
        assert await table.list_rows({"status_id": 4}, None, 5) != ([], None)
        assert await table.list_rows({"circonscription": "x"}, None, 5) == ([], None)

    ask(url, go)


def test_a_row_always_gets_a_key(url: str) -> None:
    """Even if the key has no default, which SQLite would leave empty."""

    async def go(store: Store) -> None:
        await make_by_hand(store)
        table = await ExtractionTable.open(store, ColumnChoice())
        ids = [await table.insert({"status_id": 3}) for _ in range(2)]
        assert len(set(ids)) == 2
        assert {row["id"] for row in (await table.list_rows({}, None, 5))[0]} == set(ids)

    ask(url, go)


ALTERNATIVE = """CREATE TABLE extraction_queue (id text PRIMARY KEY, status_id integer NOT NULL, document_type text,
  circonscription_fonciere text, lot_number integer, numero_inscription varchar(12), zone text, file_url text,
  ocr_text text)"""


def test_inputs_are_found_under_their_other_usual_names(url: str) -> None:
    """As a worker finds them: by a usual name, or by the one that is configured."""

    async def go(store: Store) -> None:
        await store.database.open()
        await store.database.fetch(ALTERNATIVE)
        table = await ExtractionTable.open(store, ColumnChoice(inputs={"cadastre": "zone"}))
        inputs = {"circonscription": "Laval", "lot": 1234567, "document_number": "21 103 111", "cadastre": "Québec"}
        row = await table.get(await table.insert({"status_id": 3, "lot": 1234567, **inputs}))
        assert row is not None
        assert {name: value for name, value in row.items() if name in inputs} == inputs
        with pytest.raises(TextTooLong) as refused:
            await table.insert({"status_id": 3, "document_number": "x" * 13})
        assert (refused.value.field, refused.value.limit) == ("document_number", 12)

    ask(url, go)


def test_a_new_row_has_the_times_that_its_table_requires(url: str) -> None:
    """Where `updated_at` may not be NULL and the database does not fill it in."""

    async def go(store: Store) -> None:
        await store.database.open()
        moment = "timestamptz" if store.dialect == "postgresql" else "text"
        await store.database.fetch(
            "CREATE TABLE extraction_queue (id text PRIMARY KEY, status_id integer NOT NULL, "
            f"created_at {moment}, updated_at {moment} NOT NULL, file_url text, ocr_text text)"
        )
        table = await ExtractionTable.open(store, ColumnChoice())
        row = await table.get(await table.insert({"status_id": 3}))
        assert row is not None
        times = format_times(row)
        assert times["updated_at"] == times["created_at"] != None  # noqa: E711

    ask(url, go)


def test_a_row_has_its_workers_note_and_the_form_of_its_error(url: str) -> None:
    """Only a running row has a note; the form is that of the text in the row's column."""
    installed_pipelines()
    queue = Queue(TABLE, name="ocr", status="status_id", ready=3, running=6, done=5, failed=4, error="ocr_error")
    note, error = Message("attempt.timed_out", seconds=30), Message("extraction.too_large", limit=5)

    async def go(store: Store) -> None:
        await SCHEMA.prepare(store)
        await store.open()
        table = await ExtractionTable.open(store, ColumnChoice())
        key = await table.insert({"status_id": 3})
        [job] = await store.claim(queue, 1, "w")
        job.note(note)
        await store.renew([job])
        row = await table.get(key)
        assert row is not None
        assert (row["note"], row["forms"]) == (note, {"note": note.form})
        await store.fail(job, error)
        row = await table.get(key)
        assert row is not None
        assert (row["note"], row["ocr_error"], row["forms"]) == (None, error, {"ocr_error": error.form})
        await store.database.fetch(f"UPDATE {TABLE} SET ocr_error = 'mine' RETURNING 1 AS n")
        [row], _ = await table.list_rows({}, None, 1)
        assert (row["ocr_error"], row["forms"]) == ("mine", {})

    ask(url, go)
