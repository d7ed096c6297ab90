"""Around every response: a request id, the security headers, and no internal details in errors."""

from __future__ import annotations

import contextlib
import errno
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from tabellion.errors import Full
from tabellion.pipelines.documents import lookup
from tabellion.storage.blobs import BlobsUnavailable
from tabellion.storage.files import NoSpace, Unwritable
from tabellion.storage.lake import LakeError
from tabellion.web.headers import last_resort
from tests.models.bills import bill
from tests.storage.test_blobs import small_disk
from tests.web.live import Live, live, problem

SECURITY = {
    "x-content-type-options": "nosniff", "x-frame-options": "DENY", "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin", "cross-origin-resource-policy": "same-origin",
}  # fmt: skip


def test_every_response_has_the_security_headers(web: Live) -> None:
    """Successes, errors, pages and files; no framework name, no CORS, no cookie."""
    one = web.upload(bill("headers"))["status_url"]
    for path in ("/healthz", "/docs", "/docs/docs.js", "/nope", "/api/documents", one, f"{one}/file", "/openapi.json"):
        for key in ("", None):
            headers = web.get(path, key=key, headers={"Origin": "https://evil.example"}).headers
            assert SECURITY.items() <= dict(headers).items()
            assert "default-src 'none'" in headers["content-security-policy"]
            assert "frame-ancestors 'none'" in headers["content-security-policy"]
            assert "unsafe" not in headers["content-security-policy"]
            assert not {"server", "set-cookie", "access-control-allow-origin", "x-powered-by"} & headers.keys()
            assert headers["x-request-id"]


def test_a_preflight_is_refused(web: Live) -> None:
    """CORS is off: 405 without any permission."""
    sent = {"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}
    answer = web.ask("OPTIONS", "/api/documents", key=None, headers=sent)
    assert answer.status_code == 405
    assert not [name for name in answer.headers if name.startswith("access-control")]


@pytest.mark.parametrize(
    ("sent", "kept"),
    [("abc-123_x.y", True), ("x" * 64, True), ("x" * 65, False), ("a b", False), ("a;b", False), ("", False)],
)
def test_a_valid_request_id_is_returned(web: Live, sent: str, kept: bool) -> None:
    """An invalid one is replaced by a new one. Problems carry it too."""
    answer = web.get("/nope", headers={"X-Request-Id": sent})
    assert (answer.headers["x-request-id"] == sent) == kept
    assert answer.json()["request_id"] == answer.headers["x-request-id"]


@pytest.fixture
def broken(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """An application whose database was corrupted by another process."""
    folder = tmp_path_factory.mktemp("broken")
    with live(folder, {"prod": f"sqlite:///{folder}/p.db"}) as one:
        yield one


def test_an_unexpected_error_is_a_problem_without_details(
    broken: Live, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """500 with the request id; the details are in the log, not in the response."""

    async def explode(*_: object) -> None:
        raise RuntimeError("secret-of-the-house /srv/path")

    monkeypatch.setattr(lookup, "get", explode)
    with caplog.at_level(logging.ERROR):
        answer = broken.get("/api/documents/" + "0" * 26, headers={"X-Request-Id": "find-me"})
    error = problem(answer, 500, "unexpected")
    assert error["request_id"] == "find-me"
    assert "secret" not in answer.text
    assert "/srv" not in answer.text
    assert "find-me" in caplog.text
    assert "secret-of-the-house" in caplog.text


def test_an_unreachable_database_is_reported(broken: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    """503 with Retry-After, and without its address."""
    from tabellion.errors import Unreachable

    async def away(*_: object) -> None:
        raise Unreachable("no answer from db.internal:5432")

    monkeypatch.setattr(lookup, "get", away)
    answer = broken.get("/api/documents/" + "0" * 26)
    problem(answer, 503, "database_unreachable")
    assert answer.headers["retry-after"] == "5"
    assert "db.internal" not in answer.text


@pytest.mark.parametrize("what", ["blobs", "database"])
def test_a_full_disk_is_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture, what: str) -> None:
    """507 without a traceback; nothing of the upload is kept, and with free space it succeeds."""
    with small_disk(tmp_path / "disk", 4 << 20):
        url = f"sqlite:///{tmp_path}/{'disk/' if what == 'database' else ''}p.db"
        with live(tmp_path / "disk" if what == "blobs" else tmp_path, {"prod": url}) as web:
            ballast = tmp_path / "disk" / "ballast"
            web.upload(bill("before"))
            with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as file:
                while True:
                    file.write(bytes(4096))
            with caplog.at_level(logging.INFO):
                answers = [
                    web.ask("POST", "/api/documents", files={"file": ("a.pdf", bill(f"full {n}"), "application/pdf")})
                    for n in range(40)
                ]
            refused = [answer for answer in answers if answer.status_code != 202]
            assert refused
            for answer in refused:
                problem(answer, 507, "no_space")
                assert str(tmp_path) not in answer.text
            assert "Traceback" not in caplog.text
            ballast.unlink()
            web.upload(bill("after"))


@pytest.mark.parametrize(
    "error", [NoSpace("/srv/x"), Unwritable("/srv/x"), Full("/srv/x"), OSError(errno.ENOSPC, "no space", "/srv/x")]
)
def test_any_error_for_lack_of_space_is_507(error: Exception) -> None:
    """Whichever part of the service raises it."""
    answer = last_resort(error, "id")
    assert (answer.status, answer.code) == (507, "no_space")
    assert "/srv" not in str(answer.as_dict("id"))


@pytest.mark.parametrize("error", [BlobsUnavailable("timeout"), LakeError("s3://bucket/x: timeout")])
def test_a_bucket_that_does_not_answer_is_503(error: Exception) -> None:
    """Whichever of the two storages it is."""
    answer = last_resort(error, "id")
    assert (answer.status, answer.code) == (503, "storage_unreachable")
    assert "s3:" not in str(answer.as_dict("id"))


def test_keys_and_bodies_are_not_logged(broken: Live, caplog: pytest.LogCaptureFixture) -> None:
    """The access log has method, path, status and id."""
    with caplog.at_level(logging.DEBUG):
        broken.upload(bill("canary-7531"))
        broken.get("/api/documents?q=canary-7531")
        broken.get("/x%0a%1b[31m")
    ours = [
        record.getMessage() for record in caplog.records if record.name.split(".")[0] not in ("httpx2", "httpcore2")
    ]
    log = "\n".join(ours)
    assert broken.key() not in log
    assert "canary-7531" not in log
    assert "POST /api/documents 202" in log
    assert "\x1b" not in log
