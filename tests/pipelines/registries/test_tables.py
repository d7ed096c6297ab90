"""The tables: created if missing, and used unchanged if they were made by hand."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tabellion import Store
from tabellion.pipelines.registries.pipeline import PIPELINE
from tests.pipelines.registries.visiting import LocalInstallation, Visiting

KEY = {"sqlite": "TEXT PRIMARY KEY", "postgresql": "uuid PRIMARY KEY DEFAULT gen_random_uuid()"}
TIME = {"sqlite": "TEXT DEFAULT CURRENT_TIMESTAMP", "postgresql": "timestamptz DEFAULT now()"}


def handmade(dialect: str) -> list[str]:
    """The columns that the descriptions of existing systems name, and one that is not ours."""
    key, time = KEY[dialect], TIME[dialect]
    moment = time.partition(" ")[0]
    session = "uuid" if dialect == "postgresql" else "TEXT"
    return [
        f"""CREATE TABLE extraction_queue (id {key}, status_id integer NOT NULL DEFAULT 1, document_type text,
  circonscription text, lot_number text, numero_inscription text, worker_id text, processing_started_at {moment},
  error_message text, supabase_path text, ocr_worker_id text, ocr_started_at {moment}, ocr_attempts integer DEFAULT 0,
  ocr_max_attempts integer DEFAULT 3, ocr_error text, client text, created_at {time})""",
        f"""CREATE TABLE search_sessions (id {key}, status text, req_completed boolean DEFAULT false, company_name text,
  client text, created_at {time}, updated_at {time})""",
        f"""CREATE TABLE rdprm_searches (id {key}, search_session_id {session}, search_name text,
  status text DEFAULT 'pending', client text, created_at {time}, completed_at {moment})""",
    ]


@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_tables_made_by_hand_are_worked_as_they_are(
    visits: Visiting, tmp_path: Path, database: str, request: pytest.FixtureRequest
) -> None:
    """No column is added and no other column is changed; results are in our own tables."""
    url = request.getfixturevalue("pg_url" if database == "postgresql" else "sqlite_url")

    async def make() -> None:
        async with Store(url) as store:
            for text in handmade(database):
                await store.database.fetch(text)

    visits.run(make())
    installation = LocalInstallation.open(visits, tmp_path / "data", url)
    keys = {} if database == "postgresql" else {"id": "one"}
    before = {table: set(installation.add_and_list(table)) for table in ("search_sessions", "rdprm_searches")}
    installation.fetch("DELETE FROM search_sessions")
    installation.fetch("DELETE FROM rdprm_searches")
    installation.add(
        "extraction_queue", **keys, document_type="index", circonscription="Montréal", lot_number="1 234 567",
        client="mine",
    )  # fmt: skip
    installation.add(
        "search_sessions", **keys, status="pending_company_selection", company_name="1140005678", client="mine"
    )
    installation.add("rdprm_searches", **keys, search_name="Le Four à pain", client="mine")
    installation.work()
    [document] = installation.rows("extraction_queue")
    assert (document["status_id"], document["client"]) == (3, "mine")
    assert (installation.config.data / document["supabase_path"]).is_file()
    [session], [search] = installation.rows("search_sessions"), installation.rows("rdprm_searches")
    assert (session["status"], session["client"]) == ("pending_name_selection", "mine")
    assert (search["status"], search["client"]) == ("completed", "mine")
    assert before == {"search_sessions": set(session), "rdprm_searches": set(search)}


@pytest.mark.parametrize(
    ("table", "column", "key"),
    [
        ("extraction_queue", "supabase_path", "extractions.address_column"),
        ("extraction_queue", "lot_number", "registries.columns.lot"),
        ("search_sessions", "company_name", "registries.columns.company"),
        ("rdprm_searches", "search_name", "registries.columns.name"),
    ],
)
def test_rows_wait_while_a_column_is_unknown(
    visits: Visiting, tmp_path: Path, sqlite_url: str, table: str, column: str, key: str
) -> None:
    """A column whose meaning is not known costs no row an attempt: rows wait, and the reason names the key to set."""

    async def make() -> None:
        async with Store(sqlite_url) as store:
            for text in handmade("sqlite"):
                await store.database.fetch(text.replace(column, "colonne_inconnue"))

    visits.run(make())
    installation = LocalInstallation.open(visits, tmp_path / "data", sqlite_url)
    values = {
        "extraction_queue": {"document_type": "index", "circonscription": "Montréal"},
        "search_sessions": {"status": "pending_company_selection"},
        "rdprm_searches": {},
    }[table]
    installation.add(table, id="one", **{"colonne_inconnue": "1 234 567", **values})
    before = installation.rows(table)

    async def go() -> None:
        worker = installation.worker()
        serving = asyncio.create_task(worker.serve())
        async with asyncio.timeout(60):
            while not any(event.name in ("limited", "failed", "retried", "done") for event in installation.events):
                await asyncio.sleep(0.05)
        worker.stop()
        await serving

    visits.run(go())
    assert [event.name for event in installation.events if event.name in ("failed", "retried")] == []
    [after] = installation.rows(table)
    status = "status_id" if table == "extraction_queue" else "status"
    assert after[status] == before[0][status]
    [attempt] = installation.fetch("SELECT * FROM tabellion_attempts")
    assert key in attempt["error"]


def test_two_processes_create_the_tables_once(url: str) -> None:
    """`migrate` from several processes at once ends with the same tables."""

    async def prepare() -> None:
        async with Store(url) as store:
            await PIPELINE.prepare(store)

    async def together() -> list[str]:
        await asyncio.gather(*(prepare() for _ in range(3)))
        async with Store(url) as store:
            assert await PIPELINE.is_present(store)
            found = [await store.table(name) for name in ("extraction_queue", "search_sessions", "rdprm_searches")]
            return [one.name for one in found if one is not None]

    assert len(asyncio.run(together())) == 3
