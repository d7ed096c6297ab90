"""/api/extractions in a running application."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path

import pytest

from tabellion.extractions.storage import ExtractionFiles
from tabellion.pipelines.documents.pipeline import PIPELINE as DOCUMENTS
from tabellion.pipelines.ocr.pipeline import PIPELINE as OCR
from tabellion.pipelines.ocr.settings import settings_of
from tests.pipelines.ocr.deeds import deed, run_worker
from tests.table_owner import owning
from tests.web.live import Live, live, problem


@pytest.fixture
def web_ocr(tmp_path: Path, url: str) -> Iterator[Live]:
    """An application with both pipelines, on each database."""
    with live(tmp_path, {"prod": url}, pipelines=[DOCUMENTS, OCR]) as one:
        yield one


def submitted(web: Live, content: bytes, **query: str) -> str:
    """Submits a file and returns its id."""
    query_string = "&".join(f"{name}={value}" for name, value in query.items())
    headers = {"Content-Type": "application/pdf"}
    answer = web.ask(
        "POST", f"/api/extractions/ocr?{query_string}", content=content, headers=headers, key=web.key("operator")
    )
    assert answer.status_code == 202, answer.text
    assert answer.headers["location"] == answer.json()["status_url"]
    return str(answer.json()["id"])


def test_a_file_is_submitted_read_and_shown(web_ocr: Live) -> None:
    """From the upload to its text, its pages and the file itself."""
    content = deed(2)
    key = submitted(web_ocr, content, name="deed.pdf", document_type="actes", document_number="12-345")
    where, viewer = f"/api/extractions/{key}", web_ocr.key("viewer")
    waiting = web_ocr.get(where, key=viewer).json()
    assert (waiting["status"], waiting["has_file"], waiting["has_text"]) == ("COMPLETE", True, False)
    problem(web_ocr.get(f"{where}/text"), 404, "not_found")

    run_worker(web_ocr.urls["prod"], settings_of(web_ocr.config))
    done = web_ocr.get(where, key=viewer).json()
    assert (done["status"], done["pages"], done["inputs"]) == ("EXTRACTION_COMPLETE", 2, {"document_number": "12-345"})
    assert [page["source"] for page in done["metadata"]["pages"]] == ["text", "text"]
    text = web_ocr.get(f"{where}/text", key=viewer).json()
    assert "page 2 of the land register" in text["pages"][1]
    picture = web_ocr.get(f"{where}/pages/2.png?width=300", key=viewer)
    assert (picture.headers["content-type"], picture.content[:4]) == ("image/png", b"\x89PNG")
    same = web_ocr.get(f"{where}/pages/2.png?width=300", headers={"If-None-Match": picture.headers["etag"]})
    assert same.status_code == 304
    problem(web_ocr.get(f"{where}/pages/3.png"), 404, "page_missing")
    file = web_ocr.get(f"{where}/file", key=viewer)
    assert file.content == content
    assert "12-345.pdf" in file.headers["content-disposition"]


def test_a_list_is_filtered_and_paged(web_ocr: Live) -> None:
    """By status and type; a cursor is valid only with the filters that it was made for."""
    keys = [submitted(web_ocr, deed(1), document_type=kind) for kind in ("actes", "index", "actes")]
    first = web_ocr.get("/api/extractions?type=actes&limit=1").json()
    assert [one["id"] for one in first["extractions"]] == [keys[2]]
    second = web_ocr.get(f"/api/extractions?type=actes&limit=1&cursor={first['next']}").json()
    assert [one["id"] for one in second["extractions"]] == [keys[0]]
    assert second["next"] is None
    problem(web_ocr.get(f"/api/extractions?limit=1&cursor={first['next']}"), 422, "cursor_invalid")
    assert web_ocr.get("/api/extractions?status=ERREUR").json()["extractions"] == []
    problem(web_ocr.get("/api/extractions?status=LOST"), 422, "value_invalid")


def test_an_unsupported_submission_is_rejected_at_once(web_ocr: Live) -> None:
    """Unsupported content, private URLs, and submissions by viewers are rejected."""
    operator = web_ocr.key("operator")
    for content, media, status, code in (
        (b"hello", "application/pdf", 415, "type_unsupported"),
        (b"", "application/pdf", 422, "empty_file"),
        (b"hello", "text/plain", 415, "media_unsupported"),
    ):
        headers = {"Content-Type": media}
        refused = web_ocr.ask("POST", "/api/extractions/ocr", content=content, headers=headers, key=operator)
        problem(refused, status, code)
    metadata = {"url": "http://169.254.169.254/latest"}
    problem(web_ocr.ask("POST", "/api/extractions/ocr", json=metadata), 422, "url_blocked")
    unknown = {"url": "http://nowhere.invalid/a.pdf"}
    problem(web_ocr.ask("POST", "/api/extractions/ocr", json=unknown), 422, "url_failed")
    refused = web_ocr.ask("POST", "/api/extractions/ocr", json=metadata, key=web_ocr.key("viewer"))
    problem(refused, 403, "role_required")
    assert web_ocr.get("/api/extractions").json()["extractions"] == []


def test_a_failure_has_its_code_and_is_retried(web_ocr: Live) -> None:
    """Its error can be translated; an operator queues it again."""
    key = submitted(web_ocr, b"%PDF-1.7 broken")
    run_worker(web_ocr.urls["prod"], settings_of(web_ocr.config))
    extraction = web_ocr.get(f"/api/extractions/{key}").json()
    assert (extraction["status"], extraction["error_message"]) == ("ERREUR", None)
    assert extraction["ocr_error"]
    assert extraction["translatable"]["ocr_error"]["code"].startswith("unreadable.")
    tried = web_ocr.ask("POST", "/api/queues/ocr/retry", json={"keys": [key]}, key=web_ocr.key("operator"))
    assert tried.json()["retried"] == 1
    assert web_ocr.get(f"/api/extractions/{key}").json()["status"] == "COMPLETE"


def test_missing_rows_and_files_are_not_found(web_ocr: Live) -> None:
    """An invalid id, and a row that has no file yet."""
    for path in ("", "/text", "/file", "/pages/1.png"):
        problem(web_ocr.get(f"/api/extractions/nonsense{path}"), 404, "not_found")
    web_ocr.sql("INSERT INTO extraction_queue (id, status_id) VALUES ('early', 1) RETURNING id")
    problem(web_ocr.get("/api/extractions/early/file"), 404, "file_gone")


def test_an_unreadable_file_does_not_reveal_its_path(web_ocr: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    """The text of the operating system has the path on the server."""

    async def fail(*_: object) -> Path:
        raise OSError(errno.EIO, "Input/output error", "/srv/scans/secret.pdf")

    monkeypatch.setattr(ExtractionFiles, "download", fail)
    web_ocr.sql("INSERT INTO extraction_queue (id, status_id, storage_path) VALUES ('bad', 3, 'a.pdf') RETURNING id")
    gone = problem(web_ocr.get("/api/extractions/bad/file"), 404, "file_gone")
    assert gone["detail"] == "the file cannot be opened: Input/output error"


def test_a_table_with_more_requirements_says_so(tmp_path: Path, url: str) -> None:
    """A required column of its own, or unknown columns: the response explains it, and nothing breaks."""
    with owning(url, create=False) as owner:
        owner("CREATE TABLE extraction_queue (id text PRIMARY KEY, status_id integer, file_url text, ocr_text text, "
              "ocr_worker_id text, ocr_started_at text, ocr_error text, ocr_attempts integer, "
              "ocr_max_attempts integer, client text NOT NULL)")  # fmt: skip
    for section in ({}, {"extractions": {"text_column": "words"}}):
        with live(tmp_path, {"prod": url}, pipelines=[OCR], sections=section) as web:
            headers = {"Content-Type": "application/pdf"}
            answer = web.ask("POST", "/api/extractions/ocr", content=deed(1), headers=headers)
            details = problem(answer, 409, "queue_unusable")
            assert "client" in details["detail"] or "extractions.text_column" in details["fix"]
            assert stored_files(web) == []


def stored_files(web: Live) -> list[Path]:
    """The files of extractions in the lake."""
    return [path for path in (Path(web.config.lake) / "extractions").rglob("*") if path.is_file()]


def test_a_refused_file_stays_if_another_row_has_it(tmp_path: Path, url: str) -> None:
    """Equal files are stored once: the second row is refused, and the file of the first is not removed."""
    with owning(url, create=False) as owner:
        owner("CREATE TABLE extraction_queue (id text PRIMARY KEY, status_id integer, file_url text, ocr_text text, "
              "ocr_worker_id text, ocr_started_at text, ocr_error text, ocr_attempts integer, "
              "ocr_max_attempts integer, document_number varchar(9) UNIQUE)")  # fmt: skip
    with live(tmp_path, {"prod": url}, pipelines=[OCR]) as web:
        headers, path = {"Content-Type": "application/pdf"}, "/api/extractions/ocr?document_number=21-103"
        assert web.ask("POST", path, content=deed(1), headers=headers).status_code == 202
        problem(web.ask("POST", path, content=deed(1), headers=headers), 409, "queue_unusable")
        details = problem(web.ask("POST", f"{path}-111", content=deed(2), headers=headers), 422, "value_invalid")
        assert (details["field"], details["expected"]) == ("document_number", "at most 9 characters")
        assert len(stored_files(web)) == 1


def test_every_route_is_described(web_ocr: Live) -> None:
    """Each has a summary and a description."""
    paths = web_ocr.get("/openapi.json", key=None).json()["paths"]
    for path in ("/api/extractions", "/api/extractions/ocr", "/api/extractions/{id}/text"):
        for operation in paths[path].values():
            assert operation["summary"]
            assert operation["description"]
