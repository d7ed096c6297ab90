"""Seed 000: several workers read the documents of one table; each once, with their errors kept apart."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tabellion import Environment, Store, Worker
from tabellion.models.fake.serving import serving
from tabellion.pipelines.ocr.queues import ocr_queues
from tests.cli.running import CLEAN
from tests.extractions.handmade import make_by_hand
from tests.pipelines.ocr.deeds import by_gemini, deed, plan, queue_files, rows, run_worker, settings_in
from tests.waiting import eventually
from tests.workers import ask, working

DOCUMENTS = 12


def test_two_workers_find_the_same_documents_and_each_is_read_once(url: str, tmp_path: Path) -> None:
    """The race in the diagram: both poll the same rows, one claim of each succeeds, and the model gets it once."""
    queue_files(url, tmp_path, *(plan(1, mark=number) for number in range(DOCUMENTS)))
    with serving(latency=0.1) as fake:
        workers = [
            Worker([Environment("prod", url)], ocr_queues(by_gemini(tmp_path, fake, workers=2)), poll=0.02, id=name)
            for name in ("worker-1", "worker-2")
        ]
        with working(*workers):
            eventually(lambda: {row["status_id"] for row in rows(url)} == {5}, within=60)
        calls = [line for line in fake.lines() if line["status"] == 200]
    assert len(calls) == DOCUMENTS
    done = rows(url)
    assert {row["ocr_worker_id"] for row in done} == {"worker-1", "worker-2"}
    assert {row["ocr_attempts"] for row in done} == {1}
    attempts = rows(url, "SELECT key, outcome FROM tabellion_attempts WHERE outcome = 'done'")
    assert sorted(one["key"] for one in attempts) == sorted(str(row["id"]) for row in done)


def test_the_errors_of_extraction_and_ocr_are_kept_apart(url: str, tmp_path: Path) -> None:
    """Each row of the seed's table: OCR writes its own error, and never that of the extraction before it."""
    broken, login = b"%PDF-1.7 broken", "Failed to login to registre"
    queue_files(url, tmp_path, broken, broken, deed(1), deed(1, mark="never"))
    before = {0: (3, None), 1: (3, login), 2: (3, login), 3: (4, login)}

    async def set_up(store: Store) -> None:
        for number, (status, error) in before.items():
            await store.database.fetch(
                "UPDATE extraction_queue SET status_id = $2, error_message = $3 WHERE id = $1 RETURNING id",
                f"00000000-0000-4000-8000-{number:012}", status, error,
            )  # fmt: skip

    ask(url, set_up)
    run_worker(url, settings_in(tmp_path))
    ocr_only, both, recovered, extraction_only = rows(url)
    assert (ocr_only["status_id"], ocr_only["error_message"]) == (4, None)
    assert (both["status_id"], both["error_message"]) == (4, login)
    assert ocr_only["ocr_error"] == both["ocr_error"]
    assert both["ocr_error"]
    assert (recovered["status_id"], recovered["error_message"], recovered["ocr_error"]) == (5, login, None)
    assert (extraction_only["status_id"], extraction_only["error_message"], extraction_only["ocr_error"]) == (
        4, login, None,
    )  # fmt: skip
    assert extraction_only["ocr_attempts"] == 0


#: The seed's statement, with five seconds for its ten minutes.
MONITOR = """UPDATE extraction_queue SET status_id = 3, ocr_worker_id = NULL WHERE id IN (
  SELECT id FROM extraction_queue WHERE status_id = 6 AND ocr_started_at < {then}) RETURNING id"""
SECONDS_AGO = {
    "postgresql": "NOW() - INTERVAL '{} seconds'",
    "sqlite": "strftime('%Y-%m-%d %H:%M:%f', 'now', '-{} seconds')",  # as we write texts
}


def test_another_monitor_takes_no_live_document(url: str, tmp_path: Path) -> None:
    """Its own UPDATE runs again and again: it takes the row of a worker that died, and never the one that is read."""
    ask(url, make_by_hand)
    alive, dead = queue_files(url, tmp_path, plan(1), plan(1, mark=1), prepare=False, column="file_url")
    ago = SECONDS_AGO["postgresql" if url.startswith("postgresql") else "sqlite"]
    rows(url, f"UPDATE extraction_queue SET status_id = 6, ocr_worker_id = 'old', ocr_started_at = {ago.format(60)} "
              "WHERE id = $1 RETURNING id", dead)  # fmt: skip
    stolen: list[str] = []

    def run_monitor() -> None:
        stolen.extend(str(row["id"]) for row in rows(url, MONITOR.format(then=ago.format(5))))

    with serving(latency=120) as fake:
        settings = by_gemini(tmp_path, fake, workers=1, lease=3.0)
        with working(Worker([Environment("prod", url)], ocr_queues(settings), poll=0.05, grace=0.1)):
            claim = "SELECT ocr_started_at FROM extraction_queue WHERE id = $1 AND status_id = 6"
            [claimed] = eventually(lambda: rows(url, claim, alive))
            then, now = f"CAST('{claimed['ocr_started_at']}' AS {column_type(url)})", ago.format(6)

            def is_long_ago() -> bool:
                run_monitor()
                return bool(rows(url, f"SELECT 1 AS n WHERE {then} < {now}"))

            eventually(is_long_ago, within=60)  # by the time of its claim the monitor would have taken it
            by_id = {str(row["id"]): row for row in rows(url)}
    assert stolen == [dead]
    assert (by_id[alive]["status_id"], by_id[dead]["status_id"]) == (6, 3)
    assert by_id[dead]["ocr_worker_id"] is None


def column_type(url: str) -> str:
    """The type of the times of the table made by hand."""
    return "timestamptz" if url.startswith("postgresql") else "text"


@pytest.mark.parametrize(("count", "ids"), [(1, {"worker"}), (3, {"worker-1", "worker-2", "worker-3"})])
def test_the_command_works_a_table_made_by_hand(sqlite_url: str, tmp_path: Path, count: int, ids: set[str]) -> None:
    """`tabellion worker --with ocr` on a database without a migration: as many workers as the variable says, each
    with its own id and one document at a time.
    """
    ask(sqlite_url, make_by_hand)
    queue_files(sqlite_url, tmp_path, deed(1), deed(2), prepare=False, column="file_url")
    config = tmp_path / "tabellion.toml"
    config.write_text(
        f'data = "{tmp_path}/data"\n[environments]\nprod = "{sqlite_url}"\n[extractions]\nopen = ["{tmp_path}"]\n'
    )
    environment = {name: value for name, value in os.environ.items() if not name.startswith(CLEAN)}
    done = subprocess.run(
        [sys.executable, "-m", "tabellion", "--config", str(config), "worker", "--with", "ocr", "--until-idle",
         "--id", "worker"],
        env=environment | {"OCR_WORKER_COUNT": str(count)}, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert [row["status_id"] for row in rows(sqlite_url)] == [5, 5]
    assert {row["ocr_worker_id"] for row in rows(sqlite_url)} <= ids
    workers = rows(sqlite_url, "SELECT id, slots FROM tabellion_workers")
    assert {row["id"]: row["slots"] for row in workers} == dict.fromkeys(ids, 1)
