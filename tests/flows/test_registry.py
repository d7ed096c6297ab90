"""Seeds 000 and 001: documents extracted then read, companies looked up, several environments, one worker."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from tabellion import Environment, Job, Permanent, Queue, Store, Worker

TABLES = {
    "sqlite": [
        """CREATE TABLE extraction_queue (id INTEGER PRIMARY KEY, status_id INTEGER NOT NULL, worker_id TEXT,
        processing_started_at TEXT, error_message TEXT, ocr_worker_id TEXT, ocr_started_at TEXT, ocr_error TEXT,
        ocr_attempts INTEGER DEFAULT 0, ocr_max_attempts INTEGER DEFAULT 3, ocr_text TEXT, document TEXT,
        created_at TEXT DEFAULT CURRENT_TIMESTAMP)""",
        """CREATE TABLE search_sessions (id INTEGER PRIMARY KEY, status TEXT, req_completed BOOLEAN DEFAULT FALSE,
        created_at TEXT DEFAULT CURRENT_TIMESTAMP)""",
    ],
    "postgresql": [
        """CREATE TABLE extraction_queue (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), status_id integer NOT NULL,
        worker_id text, processing_started_at timestamptz, error_message text, ocr_worker_id text,
        ocr_started_at timestamptz, ocr_error text, ocr_attempts integer DEFAULT 0, ocr_max_attempts integer DEFAULT 3,
        ocr_text text, document text, created_at timestamptz DEFAULT now())""",
        """CREATE TABLE search_sessions (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), status text,
        req_completed boolean DEFAULT false, created_at timestamptz DEFAULT now())""",
    ],
}


async def prepare(url: str, documents: int, sessions: int) -> None:
    async with Store(url) as store:
        for statement in TABLES[store.dialect]:
            await store.database.fetch(statement)
        for number in range(documents):
            await store.database.fetch(
                "INSERT INTO extraction_queue (status_id, document) VALUES (1, $1)", f"document {number}"
            )
        for _ in range(sessions):
            await store.database.fetch("INSERT INTO search_sessions (status) VALUES ('pending_company_selection')")


async def rows(url: str, table: str) -> list[dict[str, Any]]:
    async with Store(url) as store:
        return await store.database.fetch(f"SELECT * FROM {table}")


def test_the_snippet_of_the_design_runs_as_printed(url: str, tmp_path: Path) -> None:
    """The declaration in the design works two lifecycles of one table and a second table, in two environments."""
    PROD, DEV = url, f"sqlite:///{tmp_path}/dev.db"  # noqa: N806 - as printed
    asyncio.run(prepare(PROD, 12, 5))
    asyncio.run(prepare(DEV, 3, 2))

    extraction = Queue(
        "extraction_queue", name="extraction", status="status_id",
        ready=1, running=2, done=3, failed=4,
        worker="worker_id", started_at="processing_started_at", error="error_message",
    )  # fmt: skip
    ocr = Queue(  # the same rows' second life: it begins where extraction is done
        "extraction_queue", name="ocr", status="status_id", lease=600,
        ready=3, running=6, done=5, failed=4,
        worker="ocr_worker_id", started_at="ocr_started_at", error="ocr_error",
        attempts="ocr_attempts", max_attempts="ocr_max_attempts",
    )  # fmt: skip
    companies = Queue(
        "search_sessions",
        ready={"status": "pending_company_selection", "req_completed": False},
        running="scraping_company_data",
        done={"status": "pending_name_selection", "req_completed": True},
        failed="failed",
    )

    @extraction.handler
    async def extract(job: Job) -> None:
        if job["document"] == "document 1":
            raise Permanent("Failed to login to registre")

    @companies.handler
    def look_up(job: Job) -> dict[str, Any]:
        return {}

    @ocr.handler
    async def read(job: Job) -> dict[str, Any]:
        if job["document"] == "document 2":
            raise Permanent("empty PDF")
        return {"ocr_text": f"text of {job['document']}"}

    Worker([Environment("prod", PROD), Environment("dev", DEV)], [extraction, companies, ocr]).run(until_idle=True)

    for place, documents, sessions in ((PROD, 12, 5), (DEV, 3, 2)):
        done = {row["document"]: row for row in asyncio.run(rows(place, "extraction_queue"))}
        assert len(done) == documents
        login, empty = done.pop("document 1"), done.pop("document 2")
        assert (login["status_id"], login["error_message"], login["ocr_error"]) == (
            4,
            "Failed to login to registre",
            None,
        )
        assert (empty["status_id"], empty["error_message"], empty["ocr_error"]) == (4, None, "empty PDF")
        assert all(row["status_id"] == 5 and row["ocr_text"] == f"text of {name}" for name, row in done.items())
        assert all(row["ocr_attempts"] == 1 and row["ocr_worker_id"] for row in done.values())
        found = asyncio.run(rows(place, "search_sessions"))
        assert len(found) == sessions
        assert all(row["status"] == "pending_name_selection" and row["req_completed"] for row in found)
