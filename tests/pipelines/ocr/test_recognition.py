"""The OCR handler on both databases: local, by a model, failures, and resuming after a crash."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tabellion import Store
from tabellion.extractions import columns
from tabellion.extractions.columns import ColumnChoice
from tabellion.models.fake.serving import Serving, serving
from tabellion.pipelines.ocr import local_pages
from tabellion.pipelines.ocr.queues import ocr_queues
from tabellion.reading import pages
from tabellion.reading.sample_files import sample_file
from tests.extractions.handmade import make_by_hand
from tests.pipelines.ocr.deeds import by_gemini, deed, plan, queue_files, rows, run_worker, settings_in
from tests.waiting import eventually
from tests.workers import EventRecorder, ask, make_worker, working


def calls(fake: Serving) -> list[dict[str, Any]]:
    return [line for line in fake.lines() if line["status"] == 200]


def test_a_file_is_read_locally_page_by_page(url: str, tmp_path: Path) -> None:
    """Form feeds separate pages; the metadata has the source of each page."""
    queue_files(url, tmp_path, deed(3))
    run_worker(url, settings_in(tmp_path))
    [row] = rows(url)
    assert row["status_id"] == 5
    texts = row["ocr_text"].split("\f")
    assert [f"page {number} of" in text for number, text in enumerate(texts, 1)] == [True] * 3
    about = row["ocr_metadata"]
    assert [page["source"] for page in about["pages"]] == ["text"] * 3
    assert (about["model"], about["cost"]) == ("local", 0.0)
    assert about["confidence"] > 0.9
    assert (row["ocr_error"], row["error_message"], row["ocr_attempts"]) == (None, None, 1)
    assert row["ocr_worker_id"]
    assert row["updated_at"] > row["created_at"]


def test_a_scan_is_read_locally_by_ocr(sqlite_url: str, tmp_path: Path) -> None:
    """With the built-in engine: no key, no network."""
    sample = sample_file("en-scan.jpg")
    queue_files(sqlite_url, tmp_path, sample.read_bytes())
    run_worker(sqlite_url, settings_in(tmp_path))
    [row] = rows(sqlite_url)
    assert row["status_id"] == 5
    assert row["ocr_metadata"]["pages"][0]["source"] == "ocr"
    assert len(row["ocr_text"]) > 100


def test_pages_without_text_are_read_by_the_model(url: str, tmp_path: Path, fake: Serving) -> None:
    """A page with a text layer is not sent, unless `pages` is always."""
    queue_files(url, tmp_path, plan(2), deed(1))
    run_worker(url, by_gemini(tmp_path, fake))
    drawn, written = rows(url)
    assert [page["source"] for page in drawn["ocr_metadata"]["pages"]] == ["model"] * 2
    assert all(text.startswith("Picture ") for text in drawn["ocr_text"].split("\f"))
    assert drawn["ocr_metadata"]["cost"] > 0
    assert written["ocr_metadata"]["pages"][0]["source"] == "text"
    assert len(calls(fake)) == 2


def test_every_page_can_be_checked_and_corrected_by_the_model(sqlite_url: str, tmp_path: Path, fake: Serving) -> None:
    """Two calls per page; a correction that rewrites the text is discarded."""
    queue_files(sqlite_url, tmp_path, deed(1))
    run_worker(sqlite_url, by_gemini(tmp_path, fake, pages="always", boost="auto"))
    [row] = rows(sqlite_url)
    assert row["ocr_text"].startswith("Picture ")
    assert len(calls(fake)) == 2


def test_a_killed_worker_pays_for_no_page_twice(url: str, tmp_path: Path) -> None:
    """Killed in the middle of six pages: the next worker requests only the pages without an answer."""
    queue_files(url, tmp_path, plan(6))
    config = tmp_path / "tabellion.toml"
    with serving(latency=1.0) as fake:
        config.write_text(
            f'pipelines = ["ocr"]\ndata = "{tmp_path}/data"\n[environments]\nprod = "{url}"\n[ocr]\nmodel = "gemini"\n'
            f'boost = "never"\nlease = 2\n[extractions]\nopen = ["{tmp_path}"]\n'
            f'[models]\ngemini = {{ key = "k", base_url = "{fake.url}" }}\n'
        )
        words = [sys.executable, "-m", "tabellion", "--config", str(config), "worker"]
        quiet = subprocess.DEVNULL
        with subprocess.Popen(words, stdout=quiet, stderr=quiet) as process:
            eventually(lambda: len(calls(fake)) >= 3 or process.poll() is not None, within=60)
            [worker] = rows(url, "SELECT pid FROM tabellion_workers")
            process.send_signal(signal.SIGSTOP)  # its supervisor would start another at once
            os.kill(worker["pid"], signal.SIGKILL)
            process.kill()
        before = rows(url)
        assert before[0]["status_id"] == 6
        fake.change(latency=None)
        with working(make_worker(url, *ocr_queues(by_gemini(tmp_path, fake, lease=2.0)))):
            eventually(lambda: rows(url)[0]["status_id"] == 5, within=60)
        # The call that was under way when the worker died has no memo: it may have been paid for.
        assert 6 <= len(calls(fake)) <= 7
    [row] = rows(url)
    assert len(row["ocr_text"].split("\f")) == 6
    assert row["ocr_attempts"] == 2


def test_pages_read_locally_are_not_read_again(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An attempt that ends at the third page leaves memos of two: the next attempt starts with the third."""
    first_pages: list[int] = []
    really = pages.open_document

    def spy(*arguments: Any, first: int = 1, **options: Any) -> Any:
        first_pages.append(first)
        document = really(*arguments, first=first, **options)
        if len(first_pages) > 1:
            return document

        class Torn:
            header = document.header

            def __enter__(self) -> Any:
                return self

            def __exit__(self, *_: object) -> None:
                document.close()

            def __iter__(self) -> Any:
                for page in document:
                    if page.number == 3:
                        raise OSError("the machine went away")
                    yield page

        return Torn()

    monkeypatch.setattr(local_pages, "open_document", spy)
    queue_files(url, tmp_path, deed(4))
    run_worker(url, settings_in(tmp_path))
    assert first_pages == [1, 3]
    [row] = rows(url)
    assert (row["status_id"], row["ocr_attempts"]) == (5, 2)
    assert len(row["ocr_text"].split("\f")) == 4


def test_the_same_file_is_read_once(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second row with the same file gets its text from memos."""
    opened: list[Any] = []
    really = pages.open_document

    def spy(*arguments: Any, **options: Any) -> Any:
        opened.append(arguments)
        return really(*arguments, **options)

    monkeypatch.setattr(local_pages, "open_document", spy)
    queue_files(url, tmp_path, deed(2), deed(2))
    run_worker(url, settings_in(tmp_path), concurrency=1)
    first, second = rows(url)
    assert len(opened) == 1
    assert first["ocr_text"] == second["ocr_text"]


def test_a_file_that_cannot_be_read_fails_with_its_own_error(url: str, tmp_path: Path) -> None:
    """At once, as a retry would not help; the error of the extraction stays."""
    queue_files(url, tmp_path, b"%PDF-1.7 not really", deed(1))
    ask(
        url,
        lambda store: store.database.fetch(
            "UPDATE extraction_queue SET error_message = 'Failed to login' RETURNING 1 AS n"
        ),
    )
    run_worker(url, settings_in(tmp_path))
    broken, fine = rows(url)
    assert (broken["status_id"], broken["error_message"], broken["ocr_attempts"]) == (4, "Failed to login", 1)
    assert broken["ocr_error"]
    assert broken["ocr_text"] is None
    assert (fine["status_id"], fine["error_message"], fine["ocr_error"]) == (5, "Failed to login", None)


def test_a_failing_model_is_retried_and_then_given_up(url: str, tmp_path: Path) -> None:
    """Back to 3 with a due time while attempts are left, then 4 with the model's error."""
    queue_files(url, tmp_path, plan(1))
    recorder = EventRecorder()
    with serving(knobs="empty") as fake:
        run_worker(url, by_gemini(tmp_path, fake), listeners=[recorder])
    [row] = rows(url)
    assert (row["status_id"], row["ocr_attempts"], row["ocr_max_attempts"]) == (4, 3, 3)
    assert row["ocr_error"]
    assert row["error_message"] is None
    assert recorder.names.count("retried") == 2


def test_a_table_made_by_hand_works(url: str, tmp_path: Path) -> None:
    """Without our columns and without a migration; other columns keep their values."""
    ask(url, make_by_hand)
    queue_files(url, tmp_path, deed(2), prepare=False, column="file_url")
    ask(url, lambda store: store.database.fetch("UPDATE extraction_queue SET notes = 'mine' RETURNING 1 AS n"))
    run_worker(url, settings_in(tmp_path))
    [row] = rows(url)
    assert (row["status_id"], row["notes"]) == (5, "mine")
    assert len(row["ocr_text"].split("\f")) == 2


def test_an_unknown_column_keeps_rows_waiting_and_names_the_key(url: str, tmp_path: Path) -> None:
    """No document fails because of a wrong configuration."""
    queue_files(url, tmp_path, deed(1))
    settings = settings_in(tmp_path, columns=ColumnChoice(text="transcript"))
    with working(make_worker(url, *ocr_queues(settings))):
        query = "SELECT error FROM tabellion_attempts WHERE outcome = 'limited'"
        error = eventually(lambda: [row["error"] for row in rows(url, query)])[0]
    assert "extractions.text_column" in error
    assert "transcript" in error
    assert (rows(url)[0]["status_id"], rows(url)[0]["ocr_attempts"]) == (3, 0)


def test_a_row_of_a_dead_program_is_taken_over(url: str, tmp_path: Path) -> None:
    """Ten minutes after its start; a row that started a moment ago is left alone."""
    queue_files(url, tmp_path, deed(1), deed(1, mark="b"))

    async def leave(store: Store) -> None:
        old = "now() - interval '11 minutes'" if store.dialect == "postgresql" else "unixepoch('now') - 660"
        new = "now()" if store.dialect == "postgresql" else "unixepoch('now')"
        for key, at in (("0", old), ("1", new)):
            await store.database.fetch(
                f"UPDATE extraction_queue SET status_id = 6, ocr_worker_id = 'worker-1', ocr_started_at = {at} "
                f"WHERE id LIKE '%{key}' RETURNING id"
            )

    ask(url, leave)
    with working(make_worker(url, *ocr_queues(settings_in(tmp_path)))):
        eventually(lambda: rows(url)[0]["status_id"] == 5)
    assert (rows(url)[1]["status_id"], rows(url)[1]["ocr_worker_id"]) == (6, "worker-1")


def test_attempts_of_earlier_workers_are_not_counted(url: str, tmp_path: Path) -> None:
    """`ocr_attempts` is the number of the attempt in the register: a row at 2 of 3 has three attempts again."""
    [key] = queue_files(url, tmp_path, deed(1))
    rows(url, "UPDATE extraction_queue SET ocr_attempts = 2 WHERE id = $1 RETURNING id", key)
    run_worker(url, settings_in(tmp_path))
    [row] = rows(url)
    assert (row["status_id"], row["ocr_attempts"], row["ocr_max_attempts"]) == (5, 1, 3)


def test_rows_that_wait_for_a_column_are_a_warning(
    sqlite_url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The log says what to configure, at the level of a problem, and does not speak of a rate limit."""
    queue_files(sqlite_url, tmp_path, deed(1))
    rows(sqlite_url, "ALTER TABLE extraction_queue RENAME COLUMN ocr_text TO texte_lu")
    columns.warn_once.cache_clear()
    with (
        caplog.at_level(logging.INFO, "tabellion"),
        working(make_worker(sqlite_url, *ocr_queues(settings_in(tmp_path)))),
    ):
        eventually(lambda: rows(sqlite_url, "SELECT 1 AS n FROM tabellion_attempts WHERE outcome = 'limited'"))
        eventually(lambda: "was deferred" in caplog.text)
    [warning] = [record for record in caplog.records if record.name == "tabellion.extractions"]
    assert (warning.levelname, "extractions.text_column" in warning.getMessage()) == ("WARNING", True)
    assert "rate limited" not in caplog.text
