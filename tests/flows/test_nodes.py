"""Several machines on one database and one bucket: uploaded on one, read on another, reviewed on a third."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tabellion.accounts import audit
from tabellion.storage.bucket import Bucket
from tests.cli.running import CLEAN, Service, running
from tests.faults.proxy import Proxy
from tests.flows.test_review import PAPER, approve_item, edit_item, request
from tests.models.bills import bill
from tests.waiting import eventually
from tests.workers import ask

WITHIN = 60.0


@contextlib.contextmanager
def worker(data: Path, **variables: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run `tabellion worker` on a machine with its own data folder."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(CLEAN)}
    variables = {"TABELLION_DATA": str(data), "TABELLION_POLL": "0.1", "TABELLION_GRACE": "10"} | variables
    process = subprocess.Popen(
        [sys.executable, "-m", "tabellion", "--with", "documents", "worker", "--json"], env=kept | variables,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(WITHIN)


def shared(pg_url: str, s3_url: str) -> dict[str, str]:
    """The configuration of every machine."""
    return {"TABELLION_DATABASE_URL": pg_url, "TABELLION_BLOBS": s3_url, "TABELLION_LAKE": s3_url}


def wait_for_status(service: Service, id: str, *statuses: str) -> Any:  # noqa: A002
    """Return a document once it has one of these statuses."""

    def look() -> Any:
        found = request(service, "GET", f"/api/documents/{id}?wait=5")
        return found if found["status"] in statuses else None

    return eventually(look, WITHIN)


def originals(s3_url: str) -> list[str]:
    """Return the paths of the uploaded files in the bucket."""
    return [entry.path for entry in asyncio.run(Bucket(f"{s3_url}/blobs").list(""))]


def test_a_document_goes_from_machine_to_machine(pg_url: str, s3_url: str, tmp_path: Path) -> None:
    """Uploaded on A, read by a worker on B, its pages and file served and its review done on C, deleted on A."""
    config = shared(pg_url, s3_url)
    with (
        running(tmp_path / "a", "--workers", "0", **config) as a,
        running(tmp_path / "c", "--workers", "0", **config) as c,
    ):
        id_ = a.upload(PAPER, "bill.pdf", type="invoice")["id"]
        with worker(tmp_path / "b", **config):
            found = wait_for_status(c, id_, "completed")
            assert found["review"]["status"] == "pending"
            assert c.ask("GET", f"/api/documents/{id_}/file") == (200, PAPER)
            assert c.ask("GET", f"/api/documents/{id_}/file", Range="bytes=2-5") == (206, PAPER[2:6])
            status, page = c.ask("GET", f"/api/documents/{id_}/pages/1.png")
            assert (status, page[:8]) == (200, b"\x89PNG\r\n\x1a\n")
            assert any(
                word[0] == "Total:" for word in request(c, "GET", f"/api/documents/{id_}/pages/1/words")["words"]
            )
            item = request(c, "POST", "/api/review/claim", {})
            item = edit_item(c, item, total={"action": "correct", "value": "120.00"}, tax={"action": "confirm"})
            assert approve_item(c, item)["status"] == "corrected"
            eventually(lambda: request(a, "GET", f"/api/documents/{id_}")["reviewed"], WITHIN)
            [path] = originals(s3_url)
            assert path.endswith(found["sha256"])
            eventually(
                lambda: a.ask("DELETE", f"/api/documents/{id_}")[0] == 204, WITHIN
            )  # its outputs are written first
        assert originals(s3_url) == []
        assert c.ask("GET", f"/api/documents/{id_}/file")[0] == 404
        assert a.stop() == c.stop() == 0
    assert ask(pg_url, audit.verify).whole


def test_a_machine_that_dies_after_its_answer_loses_nothing(pg_url: str, s3_url: str, tmp_path: Path) -> None:
    """Its disk is gone with it; what it acknowledged is read elsewhere."""
    config = shared(pg_url, s3_url)
    with running(tmp_path / "a", "--workers", "0", **config) as a:
        id_ = a.upload(PAPER, "bill.pdf")["id"]
        a.kill()
    (tmp_path / "a").rename(tmp_path / "gone")
    with running(tmp_path / "b", **config) as b:
        assert wait_for_status(b, id_, "completed", "failed")["status"] == "completed"
        assert b.ask("GET", f"/api/documents/{id_}/file") == (200, PAPER)


def test_documents_wait_while_the_bucket_is_down(
    pg_url: str, s3_url: str, s3_server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are not failed, spend no attempt and say why they wait; uploads are refused, and /readyz says so."""
    config = shared(pg_url, s3_url)
    with running(tmp_path / "a", "--workers", "0", **config) as a:
        id_ = a.upload(PAPER, "bill.pdf")["id"]
        assert a.stop() == 0
    proxy = Proxy(s3_server)
    monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.url)
    proxy.refuse()
    with running(tmp_path / "b", **config) as b:
        waiting = eventually(
            lambda: (found := request(b, "GET", f"/api/documents/{id_}"))["error"] and found, WITHIN, every=0.2
        )
        assert (waiting["status"] in ("queued", "processing"), waiting["error"]["code"]) == (True, "file_unavailable")
        status, ready = b.ask("GET", "/readyz")
        assert (status, ready["environments"][0]["blobs"]) == (503, "unwritable")
        assert "uploads" in " ".join(ready["reasons"])
        status, problem = b.ask("POST", "/api/documents?name=x.pdf", bill("y"), **{"Content-Type": "application/pdf"})
        assert (status, problem["code"]) == (503, "storage_unreachable")
        status, problem = b.ask("GET", f"/api/documents/{id_}/file")
        assert (status, problem["code"]) == (503, "storage_unreachable")
        proxy.refuse(False)
        found = wait_for_status(b, id_, "completed", "failed")
        assert (found["status"], found["attempts"]) == ("completed", 1)
        assert len(request(b, "GET", "/api/documents")["documents"]) == 1
        eventually(lambda: b.ask("GET", "/readyz")[0] == 200, WITHIN, every=0.2)


def test_a_list_continues_on_another_machine(pg_url: str, s3_url: str, tmp_path: Path) -> None:
    """Behind a load balancer, the next page comes from anywhere."""
    config = shared(pg_url, s3_url)
    with (
        running(tmp_path / "a", "--workers", "0", **config) as a,
        running(tmp_path / "c", "--workers", "0", **config) as c,
    ):
        uploaded = [a.upload(bill(f"Number {number}"), "bill.pdf")["id"] for number in range(2)]
        first = request(a, "GET", "/api/documents?limit=1")
        second = request(c, "GET", f"/api/documents?limit=1&cursor={first['next']}")
        assert sorted(uploaded) == sorted(one["documents"][0]["id"] for one in (first, second))
