"""A document's file and images of its pages."""

from __future__ import annotations

import asyncio
import gc
import io
import warnings
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from starlette.requests import ClientDisconnect, Request
from starlette.responses import StreamingResponse

from tabellion.web.serving import file_answer
from tests.models.bills import bill
from tests.web.live import Live, problem


@pytest.fixture(scope="module")
def one(web: Live) -> Any:
    """A document."""
    return web.upload(bill("file"), "mein Beleg.pdf")["status_url"]


def test_a_file_is_sent_as_an_attachment(web: Live, one: str) -> None:
    """With a fixed type, no sniffing and a sandbox."""
    answer = web.get(f"{one}/file")
    assert answer.content == bill("file")
    assert answer.headers["content-type"] == "application/pdf"
    assert answer.headers["content-disposition"] == (
        "attachment; filename=\"mein Beleg.pdf\"; filename*=UTF-8''mein%20Beleg.pdf"
    )
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["content-security-policy"].startswith("sandbox;")
    assert answer.headers["content-length"] == str(len(bill("file")))


@pytest.mark.parametrize(
    ("asked", "status", "piece"),
    [
        ("bytes=0-4", 206, slice(0, 5)), ("bytes=10-", 206, slice(10, None)), ("bytes=-7", 206, slice(-7, None)),
        ("bytes=5-5", 206, slice(5, 6)), ("bytes=0-999999", 206, slice(None)), ("bytes=-999999", 206, slice(None)),
        ("bytes=9-3", 200, slice(None)), ("bytes=-", 200, slice(None)), ("bytes=0-1,3-4", 200, slice(None)),
        ("lines=1-2", 200, slice(None)), ("nonsense", 200, slice(None)),
    ],
)  # fmt: skip
def test_a_range_of_a_file(web: Live, one: str, asked: str, status: int, piece: slice) -> None:
    """As in RFC 9110; an invalid Range header is ignored."""
    whole = bill("file")
    answer = web.get(f"{one}/file", headers={"Range": asked})
    assert answer.status_code == status
    assert answer.content == whole[piece]
    if status == 206:
        first = range(len(whole))[piece].start
        assert answer.headers["content-range"] == f"bytes {first}-{first + len(answer.content) - 1}/{len(whole)}"


@pytest.mark.parametrize("asked", ["bytes=999999-", "bytes=999999-1000000", "bytes=-0"])
def test_a_range_beyond_the_file(web: Live, one: str, asked: str) -> None:
    """416 with the size."""
    answer = web.get(f"{one}/file", headers={"Range": asked})
    problem(answer, 416, "range_unsatisfiable")
    assert answer.headers["content-range"] == f"bytes */{len(bill('file'))}"


def test_a_cached_file_is_not_sent_again(web: Live, one: str) -> None:
    """304 by its ETag; If-Range with another ETag gets all of it."""
    tag = web.get(f"{one}/file").headers["etag"]
    for given in (tag, f'"x", W/{tag}', "*"):
        answer = web.get(f"{one}/file", headers={"If-None-Match": given})
        assert (answer.status_code, answer.content) == (304, b"")
    assert web.get(f"{one}/file", headers={"Range": "bytes=0-4", "If-Range": '"x"'}).status_code == 200
    assert web.get(f"{one}/file", headers={"Range": "bytes=0-4", "If-Range": tag}).status_code == 206


def test_a_missing_file_is_reported(web: Live) -> None:
    """404 for the file and for its image, not an error."""
    document = web.upload(bill("gone"))["status_url"]
    sha256 = web.get(document).json()["sha256"]
    next(web.blobs("prod").rglob(sha256)).unlink()
    problem(web.get(f"{document}/file"), 404, "file_gone")
    problem(web.get(f"{document}/pages/1.png"), 404, "file_gone")


def test_a_file_deleted_while_it_is_sent_arrives_complete(tmp_path: Path) -> None:
    """It is opened before the headers are sent; a link in its place is not followed."""
    path = tmp_path / "file"
    path.write_bytes(b"whole")
    scope = {"type": "http", "method": "GET", "path": "/", "query_string": b"", "headers": []}

    async def body() -> bytes:
        answer = file_answer(Request(scope), path, '"tag"', "application/pdf", {})
        path.unlink()
        assert isinstance(answer, StreamingResponse)
        return b"".join([bytes(piece) async for piece in answer.body_iterator if not isinstance(piece, str)])

    assert asyncio.run(body()) == b"whole"
    path.symlink_to(__file__)
    with pytest.raises(OSError, match="symbolic"):
        file_answer(Request(scope), path, '"tag"', "application/pdf", {})


@pytest.mark.parametrize("started", [False, True])
def test_a_file_that_is_never_sent_is_closed(tmp_path: Path, started: bool) -> None:
    """Whether the response is dropped, or its client disconnects before the first byte."""
    path = tmp_path / "file"
    path.write_bytes(b"whole")
    scope: dict[str, Any] = {"type": "http", "method": "GET", "path": "/", "query_string": b"", "headers": []}
    scope["asgi"] = {"spec_version": "2.4"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # for what earlier tests left, which is not this one's matter
        gc.collect()

    async def gone(_message: Any = None) -> Any:
        raise OSError("the client is gone")

    async def drop() -> None:
        answer = file_answer(Request(scope), path, '"tag"', "application/pdf", {})
        assert is_open(path)
        if started:
            with pytest.raises(ClientDisconnect):
                await answer(scope, gone, gone)
            assert not is_open(path)

    asyncio.run(drop())
    gc.collect()
    assert not is_open(path)


def is_open(path: Path) -> bool:
    """Whether this process has the file open."""
    return any(link.is_symlink() and str(link.readlink()) == str(path) for link in Path("/proc/self/fd").iterdir())


def test_a_page_is_rendered_once(web: Live, one: str) -> None:
    """A PNG of the requested width, rendered once, with an ETag."""
    answer = web.get(f"{one}/pages/1.png?width=300")
    assert answer.headers["cache-control"] == "private, no-cache"  # shown again only to users who may still see it
    assert answer.headers["content-type"] == "image/png"
    with Image.open(io.BytesIO(answer.content)) as picture:
        assert picture.width == 300
    kept = list((web.config.data / "pictures").rglob("1-300-0.png"))
    assert len(kept) == 1
    kept[0].write_bytes(b"kept")
    assert web.get(f"{one}/pages/1.png?width=300").content == b"kept"
    tag = answer.headers["etag"]
    assert web.get(f"{one}/pages/1.png?width=300", headers={"If-None-Match": tag}).status_code == 304
    assert web.get(f"{one}/pages/1.png?width=301").headers["etag"] != tag


def test_a_page_is_rendered_in_a_few_widths_only(web: Live) -> None:
    """Nobody can fill the disk by requesting each width."""
    page = web.upload(bill("widths"))["status_url"] + "/pages/1.png"
    tags = {web.get(f"{page}?width={width}").headers["etag"] for width in range(17, 300, 20)}
    assert len(tags) == 3
    with Image.open(io.BytesIO(web.get(f"{page}?width=1350").content)) as picture:
        assert picture.width == 1400


@pytest.mark.parametrize(
    ("tail", "status", "code"),
    [
        ("2.png", 404, "page_missing"), ("0.png", 422, "value_invalid"), ("-1.png", 422, "value_invalid"),
        ("x.png", 422, "value_invalid"), ("1.0.png", 422, "value_invalid"), ("1.jpg", 404, "not_found"),
        ("1.png?width=10", 422, "value_invalid"), ("1.png?width=99999", 422, "value_invalid"),
        ("99999999999999999999.png", 422, "value_invalid"),
    ],
)  # fmt: skip
def test_a_missing_page(web: Live, one: str, tail: str, status: int, code: str) -> None:
    """404 or 422, never a crash of the reader."""
    problem(web.get(f"{one}/pages/{tail}"), status, code)


def test_a_document_that_cannot_be_rendered_is_reported(web: Live) -> None:
    """With the reader's own code; the failed child process does no harm."""
    broken = web.upload(b"%PDF-1.4\nbroken beyond repair")["status_url"]
    error = problem(web.get(f"{broken}/pages/1.png"), 422, "document_unreadable")
    assert error["reason"] == "pdf_damaged"


def test_the_words_of_a_page_are_returned(web: Live, one: str) -> None:
    """Each with its box as read; a page without stored words is read and stored, with an ETag."""
    answer = web.get(f"{one}/pages/1/words")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    [[text, x0, y0, x1, y1]] = answer.json()["words"]
    assert (text, 0 < x0 < x1 < 1, 0 < y0 < y1 < 1) == ("file", True, True)
    [kept] = web.blobs("prod").rglob(f"{web.get(one).json()['sha256']}.*.words")
    assert web.get(f"{one}/pages/1/words").content == answer.content
    tag = answer.headers["etag"]
    again = web.get(f"{one}/pages/1/words", headers={"If-None-Match": tag})
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
    kept.write_bytes(b"damaged")
    assert web.get(f"{one}/pages/1/words").json() == answer.json()


@pytest.mark.parametrize(
    ("tail", "status", "code"),
    [("2/words", 404, "page_missing"), ("0/words", 422, "value_invalid"), ("x/words", 422, "value_invalid")],
)
def test_words_of_a_missing_page(web: Live, one: str, tail: str, status: int, code: str) -> None:
    """The same problems as for its image."""
    problem(web.get(f"{one}/pages/{tail}"), status, code)
