"""Uploads: forms, plain bodies and URLs; what is rejected, what is stored, and under which name."""

from __future__ import annotations

import hashlib
import io
import threading
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, ClassVar

import httpx2
import pytest
from PIL import Image

from tabellion.web.limits import RequestLimits
from tests.http_server import QuietHandler, serving_http
from tests.models.bills import bill
from tests.reading import papers
from tests.web.live import Live, live, problem

URL = "/api/documents"
PDF = "application/pdf"


def form(web: Live, *parts: tuple[str, Any], **options: Any) -> httpx2.Response:
    """A form with these parts: (field, (name, bytes, type)) is a file, (field, bytes) a value."""
    files = [(field, part if isinstance(part, tuple) else (None, part)) for field, part in parts]
    return web.ask("POST", URL, files=files, **options)


def pictures() -> dict[str, bytes]:
    """A small image in every supported format."""
    encoded = {}
    for name in ("png", "jpeg", "webp", "gif", "tiff", "bmp"):
        stream = io.BytesIO()
        Image.new("RGB", (40, 30), "white").save(stream, name)
        encoded[name] = stream.getvalue()
    return encoded


def test_one_file_is_uploaded(web: Live) -> None:
    """202 with its status URL; the bytes are stored under their hash, private."""
    content = bill("one")
    answer = form(web, ("file", ("bill.pdf", content, PDF)), ("type", b"invoice"), ("model", b"local"))
    assert answer.status_code == 202, answer.text
    [one] = answer.json()["documents"]
    assert (one["status"], one["name"], one["status_url"]) == ("queued", "bill.pdf", f"{URL}/{one['id']}")
    assert answer.headers["location"] == one["status_url"]
    document = web.get(one["status_url"]).json()
    sha256 = hashlib.sha256(content).hexdigest()
    assert (document["sha256"], document["bytes"], document["type"]) == (sha256, len(content), "invoice")
    path = web.blobs("prod") / sha256[:2] / sha256[2:4] / sha256
    assert path.read_bytes() == content
    assert path.stat().st_mode & 0o077 == 0


def test_many_files_are_uploaded_together(web: Live) -> None:
    """In order; the same file twice is one original and one duplicate."""
    contents = [bill(f"many {number}") for number in range(3)]
    parts = [("file", (f"{number}.pdf", content, PDF)) for number, content in enumerate([*contents, contents[0]])]
    answer = form(web, *parts)
    assert answer.status_code == 202
    documents = answer.json()["documents"]
    assert [one["name"] for one in documents] == ["0.pdf", "1.pdf", "2.pdf", "3.pdf"]
    assert documents[3]["duplicate_of"] == documents[0]["id"]
    assert "location" not in answer.headers


def test_fifty_concurrent_uploads_of_one_file_make_one_original(web_any: Live) -> None:
    """The other 49 are duplicates."""
    content = bill("fifty")
    answers: list[dict[str, Any]] = []

    def send() -> None:
        answers.append(web_any.upload(content))

    threads = [threading.Thread(target=send) for _ in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(answers) == 50
    originals = [one["id"] for one in answers if one["duplicate_of"] is None]
    assert len(originals) == 1
    assert {one["duplicate_of"] for one in answers} == {None, originals[0]}


@pytest.mark.parametrize("kind", ["png", "jpeg", "webp", "gif", "tiff", "bmp"])
def test_every_image_format_is_accepted(web: Live, kind: str) -> None:
    """With its own content type, with none, and as a plain body."""
    content = pictures()[kind]
    assert web.upload(content, f"a.{kind}", f"image/{kind}")["status"] == "queued"
    for media in (f"image/{kind}", "application/octet-stream"):
        answer = web.ask("POST", f"{URL}?name=b", content=content, headers={"Content-Type": media})
        assert answer.status_code == 202, answer.text
    [one] = answer.json()["documents"]
    assert web.get(one["status_url"]).json()["media"] == f"image/{kind}"


def test_a_plain_body_is_a_file(web: Live) -> None:
    """Its name comes from the query or from Content-Disposition; type and model from the query."""
    sent = {"Content-Type": PDF, "Content-Disposition": "attachment; filename*=UTF-8''f%C3%BCnf.pdf"}
    answer = web.ask("POST", f"{URL}?type=invoice&model=local", content=bill("plain"), headers=sent)
    assert answer.json()["documents"][0]["name"] == "fünf.pdf"
    answer = web.ask("POST", f"{URL}?name=mine.pdf", content=bill("plain 2"), headers=sent)
    assert answer.json()["documents"][0]["name"] == "mine.pdf"
    answer = web.ask("POST", URL, content=bill("plain 3"), headers={"Content-Type": PDF})
    assert answer.json()["documents"][0]["name"] == "document"


def test_an_empty_file_is_rejected(web: Live) -> None:
    """422, as a form and as a body; also among others, of which then none is stored."""
    error = problem(form(web, ("file", ("a.pdf", b"", PDF))), 422, "empty_file")
    assert error["field"] == "/file"
    problem(web.ask("POST", URL, content=b"", headers={"Content-Type": PDF}), 422, "empty_file")
    content = bill("beside an empty one")
    error = problem(form(web, ("file", ("a.pdf", content, PDF)), ("file", ("b.pdf", b"", PDF))), 422, "empty_file")
    assert error["field"] == "/file/1"
    sha256 = hashlib.sha256(content).hexdigest()
    assert not list(web.blobs("prod").rglob(sha256))


def archive(name: str = "a.txt", comment: bytes = b"") -> bytes:
    """A ZIP file."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as zipped:
        zipped.writestr(name, "x" * 100)
        zipped.comment = comment
    return stream.getvalue()


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (b"<svg xmlns='http://www.w3.org/2000/svg'><script/></svg>", "an SVG image"),
        (b"<!doctype html><script>alert(1)</script>", "an HTML page"), (b"<?xml version='1.0'?><a/>", "XML"),
        (b"Received: from a\r\nSubject: x\r\n\r\n", "an email message"),
        (b"MZ\x90\x00" + b"\x00" * 60, "an executable"),
        (b"\x7fELF" + b"\x00" * 60, "an executable"), (archive(), "a ZIP archive"), (b"hello", "text"),
        (b'{"a": 1}', "JSON"), (b"\x00" * 100, "an unknown format"), (b"#!/bin/sh\n", "a script"),
    ],
)  # fmt: skip
def test_an_unsupported_file_is_named(web: Live, content: bytes, named: str) -> None:
    """415 says what it is, whatever it is called."""
    for name, media in (("a.pdf", PDF), ("a", "application/octet-stream")):
        error = problem(form(web, ("file", (name, content, media))), 415, "type_unsupported")
        assert named in error["detail"]


@pytest.mark.parametrize(
    ("name", "media", "declared"),
    [
        ("a.png", "application/octet-stream", ".png"), ("a.PNG", PDF, ".png"), ("a.pdf", "image/png", "image/png"),
        ("a.html", "application/octet-stream", ".html"), ("a.pdf", "text/html", "text/html"),
        ("a.pdf.exe", "application/octet-stream", ".exe"), ("a.docx", PDF, ".docx"), ("a.svg", PDF, ".svg"),
    ],
)  # fmt: skip
def test_a_file_of_another_type_than_declared_is_rejected(web: Live, name: str, media: str, declared: str) -> None:
    """415 with the declared and the actual type."""
    error = problem(form(web, ("file", (name, bill("mismatch"), media))), 415, "type_mismatch")
    assert (error["declared"], error["detected"]) == (declared, PDF)


@pytest.mark.parametrize(
    ("before", "also"),
    [
        (b"<html><body>hello</body></html>\n", "an HTML page"), (archive(), "a ZIP archive"),
        (b"MZ\x90\0", "executable"),
        (b"#!/bin/sh\nexit\n", "a script"), (b"<svg></svg>", "an SVG image"),
    ],
)  # fmt: skip
def test_a_polyglot_file_is_rejected(web: Live, before: bytes, also: str) -> None:
    """A PDF that a browser or a shell would take for something else."""
    error = problem(form(web, ("file", ("a.pdf", before + bill("two"), PDF))), 415, "type_mismatch")
    assert also in error["detected"]


@pytest.mark.parametrize(
    ("behind", "also"),
    [
        (archive(), "a ZIP archive"), (archive("word/document.xml"), "a Word document"),
        (archive(comment=b"x" * 40_000 + b"%%EOF"), "a ZIP archive"), (b" " * 2_000_000 + archive(), "a ZIP archive"),
        (b"\n<html><script>alert(1)</script></html>", "an HTML page"), (b"\n<svg></svg>", "an SVG image"),
        (b"<!doctype html><html>" + b"x" * 90_000 + b"</html>\n", "an HTML page"), (b"#!/bin/sh\nexit\n", "a script"),
    ],
)  # fmt: skip
def test_a_file_with_an_archive_appended_is_rejected(web: Live, behind: bytes, also: str) -> None:
    """Archivers read the end of a file and would find it."""
    error = problem(form(web, ("file", ("a.pdf", bill("behind") + behind, PDF))), 415, "type_mismatch")
    assert also in error["detected"]


def test_an_image_with_an_archive_appended_is_rejected(web: Live) -> None:
    """Whatever it shows."""
    content = pictures()["jpeg"] + archive()
    assert problem(form(web, ("file", ("a.jpg", content, "image/jpeg"))), 415, "type_mismatch")["detected"]


def test_an_archive_inside_a_pdf_is_accepted(web: Live) -> None:
    """An embedded file, or noise after the end, is not a second format."""
    embedded = papers.pdf_with_file("a.docx", archive("word/document.xml"))
    for content in (embedded, bill("junk") + b"\n\0\0some mailer's line\r\n", bill("cr") + b"\r\n\r\n"):
        assert web.upload(content)["status"] == "queued"


def test_a_pdf_after_a_little_noise_is_accepted(web: Live) -> None:
    """Many programs write a line before it."""
    assert web.upload(b"\r\nsome mailer's line\r\n" + bill("noise"))["status"] == "queued"


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("../../etc/x.pdf", "x.pdf"), ("C:\\Users\\me\\x.pdf", "x.pdf"), ("a" * 300 + ".pdf", "a" * 250 + "….pdf"),
        ("inv\u202efdp.pdf", "inv\\u202efdp.pdf"), ("CON", "CON"), ("-rf", "-rf"), ("...", "document"),
        ("x" * 1000, "x" * 254 + "…"), ("rechnung für märz.pdf", "rechnung für märz.pdf"),
        ("a b;c'd.pdf", "a b;c'd.pdf"),
        ("<script>.pdf", "<script>.pdf"), ("tab\there.pdf", "tab\\u0009here.pdf"),
    ],
)  # fmt: skip
def test_names_are_stored_for_display_only(web: Live, given: str, kept: str) -> None:
    """Accepted, escaped, at most 255 characters; the file is stored under its hash."""
    answer = web.ask(
        "POST", URL, params={"name": given}, content=bill(repr(given[:50].encode())), headers={"Content-Type": PDF}
    )
    assert answer.status_code == 202, answer.text
    [one] = answer.json()["documents"]
    assert one["name"] == kept
    assert len(one["name"]) <= 255
    assert web.get(one["status_url"]).json()["name"] == kept
    sent = web.get(one["status_url"] + "/file")
    assert sent.headers["content-disposition"].startswith("attachment; filename=")


def test_names_that_are_not_text_are_stored_too(web: Live) -> None:
    """Invalid UTF-8 and NUL in a form's file name."""
    for raw in (b"caf\xe9.pdf", b"a\x00b.pdf", b"\xff\xfe"):
        body = (
            b'--b\r\nContent-Disposition: form-data; name="file"; filename="' + raw + b'"\r\n'
            b"Content-Type: application/pdf\r\n\r\n" + bill(repr(raw)) + b"\r\n--b--\r\n"
        )
        answer = web.ask("POST", URL, content=body, headers={"Content-Type": "multipart/form-data; boundary=b"})
        assert answer.status_code in (202, 400), answer.text
        if answer.status_code == 202:
            assert answer.json()["documents"][0]["name"].isprintable()


@pytest.mark.parametrize(
    ("parts", "status", "code", "field"),
    [
        ([], 400, "form_invalid", None),
        ([("type", b"invoice")], 422, "value_missing", "/file"),
        ([("file", b"no file name")], 422, "value_invalid", "/file"),
        ([("file", ("a.pdf", b"%PDF-", PDF)), ("role", b"admin")], 422, "value_unknown", "/role"),
        ([("file", ("a.pdf", b"%PDF-", PDF)), ("type", ("x", b"invoice", ""))], 422, "value_invalid", "/type"),
        ([("type", b"invoice"), ("type", b"deed"), ("file", ("a.pdf", b"%PDF-", PDF))], 422, "value_repeated", "/type"),
        ([("file", ("a.pdf", b"%PDF-", PDF)), ("type", b"unheard-of")], 422, "value_invalid", "/type"),
        ([("file", ("a.pdf", b"%PDF-", PDF)), ("type", b"")], 422, "value_invalid", "/type"),
        ([("file", ("a.pdf", b"%PDF-", PDF)), ("type", b"\xff")], 422, "value_invalid", "/type"),
        ([("file", ("a.pdf", b"%PDF-", PDF)), ("type", b"a\x00b")], 400, "text_nul", "/type"),
        ([("file", ("a.pdf", b"%PDF-", PDF)), ("model", b"gpt-9")], 422, "value_invalid", "/model"),
        ([("file", ("a.pdf", b"%PDF-", PDF)), ("webhook", b"we_nope")], 422, "value_invalid", "/webhook"),
        ([("file", ("a.pdf", b"%PDF-", PDF)), ("type", b"x" * 1_000_001)], 413, "too_large", "/type"),
    ],
)  # fmt: skip
def test_an_invalid_form_value_is_rejected(
    web: Live, parts: list[tuple[str, Any]], status: int, code: str, field: str | None
) -> None:
    """The field is named, and the allowed values where there is a set."""
    if parts:
        answer = form(web, *parts)
    else:
        sent = {"Content-Type": "multipart/form-data; boundary=b"}
        answer = web.ask("POST", URL, content=b"--b--\r\n" * 0, headers=sent)
    error = problem(answer, status, code)
    assert error.get("field") == field
    if code == "value_invalid":
        assert "code" in error["translatable"]["expected"], "it can be shown in another language"
    if error["detail"] in ("unknown model", "unknown document type"):
        assert {"local", "invoice"} & {*error["translatable"]["expected"]["params"]["names"]}


@pytest.mark.parametrize(
    "body",
    [
        b"nonsense", b"--b\r\n\r\nno headers\r\n--b--\r\n", b"--b\r\nContent-Disposition: attachment\r\n\r\nx\r\n--b--",
        b'--b\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n%PDF-1.4 and no end',
        b"--b\r\n" + b"X: y\r\n" * 100 + b"\r\nx\r\n--b--\r\n",
        b"--b\r\nX: " + b"y" * 10_000 + b"\r\n\r\nx\r\n--b--\r\n",
        b"--b\r\n" + b'Content-Disposition: form-data; name="a"\r\n' * 2 + b"\r\n\r\n--b--\r\n",
    ],
)  # fmt: skip
def test_a_malformed_form_is_rejected(web: Live, body: bytes) -> None:
    """400: no boundary, no end, no name, too many or too long headers."""
    sent = {"Content-Type": "multipart/form-data; boundary=b"}
    problem(web.ask("POST", URL, content=body, headers=sent), 400, "form_invalid")
    for media in (
        "multipart/form-data",
        "multipart/form-data; boundary=",
        "multipart/form-data; boundary=" + "x" * 100,
    ):
        problem(web.ask("POST", URL, content=body, headers={"Content-Type": media}), 400, "form_invalid")


@pytest.fixture(scope="module")
def narrow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """An application with small limits."""
    folder = tmp_path_factory.mktemp("narrow")
    bounds = RequestLimits(upload_bytes=5000, files=3, parts=6)
    with live(folder, {"prod": f"sqlite:///{folder}/p.db"}, limits=bounds) as one:
        yield one


def test_uploads_beyond_a_limit_are_cut_off(narrow: Live) -> None:
    """Per file and per request; neither leaves anything on disk."""
    large = bill("large") + b" " * 6000
    error = problem(form(narrow, ("file", ("a.pdf", large, PDF))), 413, "too_large")
    assert (error["limit"], error["field"]) == (5000, "/file")
    sent = {"Content-Type": PDF}
    error = problem(narrow.ask("POST", URL, content=large, headers=sent), 413, "too_large")
    assert error["limit"] == 5000
    assert error["got"] == len(large)
    chunked = narrow.ask("POST", URL, content=iter([large[:4000], large[4000:]]), headers=sent)
    problem(chunked, 413, "too_large")
    whole = form(narrow, *[("file", ("a.pdf", b"%PDF-" + b"x" * 4900, PDF)) for _ in range(3)], ("type", b"x" * 90_000))
    problem(whole, 413, "too_large")
    assert not [path for path in narrow.blobs("prod").rglob("*") if path.is_file()]


def test_too_many_files_or_parts_are_rejected(narrow: Live) -> None:
    """413 names the limit."""
    one = ("file", ("a.pdf", b"%PDF-1.4 x", PDF))
    assert problem(form(narrow, *[one] * 4), 413, "too_many_parts")["limit"] == 3
    fields = [(f"f{number}", b"x") for number in range(7)]
    answer = form(narrow, one, *fields)
    assert answer.status_code in (413, 422)


def test_the_error_for_a_large_upload_reaches_the_client(web: Live) -> None:
    """Although the body was not read: an invalid key is reported, not a dropped connection."""
    for key, status in ((None, 401), (web.key("viewer"), 403)):
        answer = web.ask("POST", URL, key=key, content=b"x" * 3_000_000, headers={"Content-Type": PDF})
        assert answer.status_code == status


class Library(QuietHandler):
    """Serves a few documents and a few traps."""

    content = bill("from afar")

    asked: ClassVar[list[str]] = []

    def do_GET(self) -> None:  # noqa: N802 - the name of the library
        """Answer by the path."""
        self.asked.append(self.path)
        answers: dict[str, tuple[int, dict[str, str], bytes]] = {
            "/bill.pdf": (200, {"Content-Type": PDF}, self.content),
            "/changing": (200, {"Content-Type": PDF}, bill(f"another {len(self.asked)}")),
            "/moved": (302, {"Location": "/bill.pdf"}, b""),
            "/inside": (302, {"Location": "http://169.254.169.254/latest"}, b""),
            "/page": (200, {"Content-Type": "text/html"}, b"<html>"),
            "/large": (200, {"Content-Type": PDF}, b"%PDF-" + b"x" * 200_000),
            "/empty": (200, {"Content-Type": PDF}, b""),
            "/lies": (200, {"Content-Type": "image/png"}, self.content),
        }
        status, headers, body = answers.get(self.path.partition("?")[0], (404, {}, b""))
        self.answer(status, body, headers)


@pytest.fixture(scope="module")
def library() -> Iterator[str]:
    """A server of documents on loopback."""
    with serving_http(Library) as url:
        yield url


def test_a_document_is_fetched_from_its_url(web: Live, library: str) -> None:
    """Through a redirect too; its name is the end of the path, or the given one."""
    answer = web.ask("POST", URL, json={"url": f"{library}/bill.pdf?token=s3cret"})
    assert answer.status_code == 202, answer.text
    [one] = answer.json()["documents"]
    assert one["name"] == "bill.pdf"
    assert web.get(one["status_url"] + "/file").content == Library.content
    answer = web.ask("POST", URL, json={"url": f"{library}/moved", "name": "mine.pdf", "type": "invoice"})
    assert answer.json()["documents"][0]["name"] == "mine.pdf"


def test_the_same_url_again_gives_the_first_answer(web_any: Live, library: str) -> None:
    """Under one Idempotency-Key it is fetched once, whatever it would return now; another URL is a mismatch."""
    sent = {"Idempotency-Key": "link-1"}
    body = {"url": f"{library}/changing", "type": "invoice"}
    before = len(Library.asked)
    with ThreadPoolExecutor(4) as threads:
        answers = list(threads.map(lambda _: web_any.ask("POST", URL, json=body, headers=sent), range(4)))
    assert {answer.status_code for answer in answers} == {202}
    assert len({answer.text for answer in answers}) == 1
    assert sorted(answer.headers.get("idempotency-replayed", "") for answer in answers) == ["", "true", "true", "true"]
    assert len(Library.asked) == before + 1
    for changed in ({"url": f"{library}/bill.pdf"}, {"name": "other.pdf"}, {"type": "receipt"}):
        problem(web_any.ask("POST", URL, json=body | changed, headers=sent), 409, "idempotency_mismatch")
    problem(
        web_any.ask("POST", URL, json={"url": f"{library}/nope"}, headers={"Idempotency-Key": "link-2"}),
        422,
        "url_failed",
    )
    again = web_any.ask("POST", URL, json={"url": f"{library}/bill.pdf"}, headers={"Idempotency-Key": "link-2"})
    assert again.status_code == 202


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("/nope", 422, "url_failed"), ("/inside", 422, "url_blocked"), ("/page", 415, "type_unsupported"),
        ("/empty", 422, "empty_file"), ("/lies", 415, "type_mismatch"),
    ],
)  # fmt: skip
def test_a_url_without_a_document_is_reported(web: Live, library: str, path: str, status: int, code: str) -> None:
    """Without revealing what listens where."""
    problem(web.ask("POST", URL, json={"url": library + path}), status, code)


def test_a_url_with_too_much_data_is_abandoned(narrow: Live, library: str) -> None:
    """At the upload's own limit."""
    error = problem(narrow.ask("POST", URL, json={"url": f"{library}/large"}), 413, "too_large")
    assert (error["limit"], error["field"]) == (5000, "/url")


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd", "ftp://example.com/a", "http://user:s3cret@example.com/", "http://example.com\\@x/",
        "http://exam\tple.com/", "http://2130706433/", "http://0177.0.0.1/", "http://0x7f.1/", "http://①②⑦.0.0.1/",
        "http://8.8.8.8:22/", "http://10.0.0.1/", "http://169.254.169.254/latest/meta-data", "http://[::1]/",
        "http://metadata.google.internal/",
    ],
)  # fmt: skip
def test_a_url_into_the_internal_network_is_blocked(web: Live, url: str) -> None:
    """For a document and for a webhook; the reason is given, a password in it is not."""
    for path in (URL, "/api/webhooks"):
        answer = web.ask("POST", path, json={"url": url})
        error = problem(answer, 422, "url_blocked")
        assert error["field"] == "/url"
        assert error["reason"]
        assert "s3cret" not in answer.text


def test_a_url_whose_host_does_not_resolve_has_failed(web: Live) -> None:
    """It is not blocked: the same URL may work later."""
    for path in (URL, "/api/webhooks"):
        told = problem(web.ask("POST", path, json={"url": "http://nowhere.invalid/a.pdf"}), 422, "url_failed")
        assert "nowhere.invalid cannot be reached" in told["detail"]


def test_a_url_of_2049_characters_is_rejected(web: Live) -> None:
    """By its length alone."""
    error = problem(web.ask("POST", URL, json={"url": "http://example.com/" + "a" * 2030}), 422, "value_invalid")
    assert error["field"] == "/url"


def test_a_field_of_the_body_is_rejected_in_the_query(web: Live) -> None:
    """Each value has one place."""
    problem(web.ask("POST", f"{URL}?type=invoice", files={"file": ("a.pdf", bill(), PDF)}), 422, "value_unknown")
    problem(web.ask("POST", f"{URL}?type=invoice", json={"url": "http://example.com"}), 422, "value_unknown")


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    """80 MB are written straight to disk: memory stays far below the file's size."""
    import tracemalloc

    content = bill("big")
    with live(tmp_path, {"prod": f"sqlite:///{tmp_path}/p.db"}) as web:
        web.upload(bill("warm"))
        block = b" " * 1_000_000

        def body() -> Iterator[bytes]:
            yield content
            for _ in range(80):
                yield block

        tracemalloc.start()
        try:
            answer = web.ask("POST", URL, content=body(), headers={"Content-Type": PDF})
            _, most = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert answer.status_code == 202, answer.text
    assert most < 20_000_000, f"{most:,} bytes"


def test_memory_does_not_grow_with_the_number_of_files(tmp_path: Path) -> None:
    """Sixty files of a form, each just too small to be written before its end, are not held together."""
    import tracemalloc

    begin = b'--cut\r\nContent-Disposition: form-data; name="file"; filename="%d.pdf"\r\n\r\n%s'
    with live(tmp_path, {"prod": f"sqlite:///{tmp_path}/p.db"}) as web:
        web.upload(bill("warm"))

        def body() -> Iterator[bytes]:
            for number in range(60):
                yield begin % (number, bill(str(number))) + b" " * 1_000_000 + b"\r\n"
            yield b"--cut--\r\n"

        tracemalloc.start()
        try:
            answer = web.ask("POST", URL, content=body(), headers={"Content-Type": "multipart/form-data; boundary=cut"})
            _, most = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert answer.status_code == 202, answer.text
    assert [one["name"] for one in answer.json()["documents"]] == [f"{number}.pdf" for number in range(60)]
    assert most < 20_000_000, f"{most:,} bytes"
