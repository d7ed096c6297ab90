"""`/api/batches`: JSON and JSONL, chunks, conflicts, errors by line, progress, paging, retry, close, roles."""

from __future__ import annotations

import gzip
import json
import threading
from typing import Any

import pytest

from tabellion.models.errors import Rejected
from tests.pipelines.batches.live import PUBLIC, LiveBatches
from tests.pipelines.batches.material import Images, Reader, chunk_of, pi_of, stage
from tests.waiting import eventually
from tests.web.live import problem


def pis_of(count: int, refs: int = 2, images: str = PUBLIC) -> list[dict[str, Any]]:
    """Return entities."""
    return [pi_of(images, number, refs) for number in range(count)]


def lines_of(pis: list[dict[str, Any]]) -> bytes:
    """Return entities as JSONL."""
    return "".join(json.dumps(pi) + "\n" for pi in pis).encode()


def test_a_batch_is_divided_into_chunks_of_ten(web: LiveBatches) -> None:
    """202 with a place to look; 25 entities are three chunks, numbered from 0."""
    answer = web.submit({"batch_id": "b1", "pis": pis_of(25)})
    assert answer.status_code == 202
    assert answer.headers["Location"] == "/api/batches/b1"
    body = answer.json()
    assert (body["total_pis"], body["total_chunks"], body["chunk_size"]) == (25, 3, 10)
    assert body["progress"] == {"total_refs": 50, "completed": 0, "failed": 0, "pending": 50}
    chunks = web.get("/api/batches/b1/chunks").json()["chunks"]
    assert [(chunk["id"], chunk["total_pis"]) for chunk in chunks] == [
        ("ocr:b1:0", 10), ("ocr:b1:1", 10), ("ocr:b1:2", 5),
    ]  # fmt: skip
    assert web.status("b1", "2").json()["progress"]["total_refs"] == 10


def test_json_and_jsonl_are_the_same_batch(web: LiveBatches) -> None:
    """The same content by the other way is answered with what there is, with and without a line end at its end."""
    query = f"?batch_id=b1&chunk_size=2&callback_url={PUBLIC}/c"
    first = web.submit({"batch_id": "b1", "chunk_size": 2, "callback_url": f"{PUBLIC}/c", "pis": pis_of(5)})
    again = web.submit_lines(lines_of(pis_of(5)), query)
    third = web.submit_lines(b"\n" + lines_of(pis_of(5)).strip(), query)
    assert (first.status_code, again.status_code, third.status_code) == (202, 200, 200)
    assert again.json()["total_chunks"] == 3
    assert [web.count(table) for table in ("batches", "batch_chunks", "batch_pis", "batch_refs")] == [1, 3, 5, 10]


def test_without_an_id_it_is_derived_from_the_content(web: LiveBatches) -> None:
    """The same again is the same batch, another one is another."""
    first, again, other = (web.submit({"pis": pis_of(count)}).json()["id"] for count in (2, 2, 3))
    assert first == again != other


def test_another_chunk_size_or_content_on_a_known_id_is_a_conflict(web: LiveBatches) -> None:
    """409, and nothing changes."""
    web.submit({"batch_id": "b1", "pis": pis_of(5)})
    for change in ({"chunk_size": 2}, {"pis": pis_of(4)}, {"callback_url": f"{PUBLIC}/c"}, {"pis": pis_of(5)[::-1]}):
        problem(web.submit({"batch_id": "b1", "pis": pis_of(5)} | change), 409, "batch_conflict")
    assert web.count("batch_chunks") == 1


def test_nothing_is_a_problem(web: LiveBatches) -> None:
    """No entity as JSON, no line and blank lines as JSONL: 422."""
    for answer in (web.submit({"pis": []}), web.submit_lines(b""), web.submit_lines(b"\n\n \n")):
        assert (answer.status_code, answer.json()["field"]) == (422, "/pis")
    assert web.count("batches") == 0


def test_duplicates_are_reported_and_contradictions_refused(web: LiveBatches) -> None:
    """A ref that is sent twice counts once; two with one name, and an entity that is there twice, are refused."""
    pis = pis_of(2)
    pis[1]["refs"] *= 3
    body = web.submit({"pis": pis}).json()
    assert (body["duplicates"], body["progress"]["total_refs"]) == (4, 4)
    pis[1]["refs"][3] = pis[1]["refs"][3] | {"staging_key": "another"}
    assert problem(web.submit_lines(lines_of(pis)), 422, "value_repeated")["line"] == 2
    shared = pis_of(3)
    shared[2]["refs"][1]["staging_key"] = shared[0]["refs"][0]["staging_key"]
    refused = problem(web.submit_lines(lines_of(shared), "?chunk_size=1"), 422, "value_repeated")
    assert (refused["line"], refused["field"]) == (3, "/refs/1/staging_key")
    assert problem(web.submit({"pis": shared}), 422, "value_repeated")["field"] == "/pis/2/refs/1/staging_key"
    refused = problem(web.submit_lines(lines_of([*pis_of(2), *pis_of(1)])), 422, "value_repeated")
    assert (refused["line"], refused["field"]) == (3, "/pi")
    assert web.count("batches") == 1


def test_a_line_that_is_not_json_is_named_once(web: LiveBatches) -> None:
    """By its own number, not by that of the first line of its text."""
    refused = problem(web.submit_lines(lines_of(pis_of(2)) + b'{"pi": \n'), 400, "json_invalid")
    assert refused["detail"].startswith("line 3, column ")
    assert (refused["line"], refused["translatable"]["detail"]["params"]["line"]) == (3, "3")


def test_a_file_of_windows_is_accepted(web: LiveBatches) -> None:
    """With a byte order mark and its line ends."""
    lines = b"\xef\xbb\xbf" + lines_of(pis_of(2)).replace(b"\n", b"\r\n")
    assert web.submit_lines(lines).json()["total_pis"] == 2


def test_a_compressed_body_is_refused(web: LiveBatches) -> None:
    """By what is wrong with it: as text it would be a line that is not UTF-8."""
    headers = {"Content-Type": "application/x-ndjson", "Content-Encoding": "gzip"}
    answer = web.ask("POST", "/api/batches", content=gzip.compress(b"{}"), headers=headers)
    body = problem(answer, 415, "media_unsupported")
    assert body["detail"] == "a compressed body (Content-Encoding: 'gzip') is not supported"
    assert answer.headers["accept-encoding"] == "identity"


def test_a_callback_url_is_checked_before_anything_is_read(web: LiveBatches) -> None:
    """Only some of a request's hosts are resolved: those of its images must not use up their number first."""
    refused = problem(web.submit_lines(b"{", "?callback_url=http://10.0.0.1/c"), 422, "url_blocked")
    assert refused["field"] == "/callback_url"
    bad = [pi_of("http://10.0.0.1", 0, 1)]
    refused = problem(web.submit({"callback_url": "http://10.0.0.1/c", "pis": bad}), 422, "url_blocked")
    assert refused["field"] == "/callback_url"


BAD_LINES = {
    "cut": b'{"pi": ', "no-object": b"[]", "unknown": json.dumps(pi_of(PUBLIC, 9) | {"more": 1}).encode(),
    "missing": b'{"pi": "x", "refs": []}', "type": b'{"pi": 1, "current_tip": "t", "refs": []}',
    "nul": b'{"pi": "a\\u0000", "current_tip": "t", "refs": []}', "latin": b'{"pi": "\xe9"}',
    "url": json.dumps(pi_of("http://169.254.169.254", 9)).encode(),
    "path": json.dumps(pi_of(PUBLIC, 9)).replace("refs/9-0", "../9-0").encode(),
}  # fmt: skip


@pytest.mark.parametrize("line", BAD_LINES.values(), ids=BAD_LINES)
def test_an_error_in_a_line_names_it_and_nothing_is_inserted(web: LiveBatches, line: bytes) -> None:
    """The third of four lines."""
    lines = lines_of(pis_of(2)) + line + b"\n" + lines_of(pis_of(4)[3:])
    answer = web.submit_lines(lines)
    assert answer.status_code in (400, 422), answer.text
    assert answer.json()["line"] == 3
    assert "3" in answer.json()["detail"]
    assert [web.count(table) for table in ("batches", "batch_chunks", "batch_pis", "batch_refs")] == [0, 0, 0, 0]


def test_a_batch_may_be_larger_than_the_json_of_other_routes(web: LiveBatches) -> None:
    """Several megabytes, as JSON and as JSONL."""
    pis = pis_of(2000, refs=5)
    assert len(lines_of(pis)) > web.config.json_bytes
    assert web.submit({"batch_id": "json", "pis": pis}).status_code == 202
    assert web.submit_lines(lines_of(pis), "?batch_id=lines").status_code == 202
    assert web.get("/api/batches/lines").json()["progress"]["total_refs"] == 10_000
    assert web.get("/api/batches/lines").json()["total_chunks"] == 200


def test_nothing_can_be_claimed_before_all_rows_are_there(web: LiveBatches) -> None:
    """Other connections see no chunk of a batch, or all of them."""
    seen: set[int] = set()
    done = threading.Event()

    def look() -> None:
        while not done.is_set():
            seen.add(web.count("batch_chunks"))

    web.count("batches")
    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        assert web.submit_lines(lines_of(pis_of(2000, refs=5)), "?batch_id=b1").status_code == 202
        eventually(lambda: 200 in seen)
    finally:
        done.set()
        watcher.join()
    assert seen <= {0, 200}


def test_chunks_are_paged_in_order(web: LiveBatches) -> None:
    """Each once, 2 before 10; a cursor of another question is refused."""
    web.submit({"batch_id": "b1", "chunk_size": 1, "pis": pis_of(12)})
    found: list[str] = []
    cursor: str | None = None
    while True:
        query = "?limit=5" + (f"&cursor={cursor}" if cursor else "")
        page = web.get(f"/api/batches/b1/chunks{query}").json()
        found += [chunk["chunk_id"] for chunk in page["chunks"]]
        cursor = page["next"] or cursor
        if page["next"] is None:
            break
    assert found == [str(number) for number in range(12)]
    for wrong in (f"?cursor={cursor}&phase=DONE", "?cursor=nonsense", "?limit=0", "?limit=1000000000", "?phase=x"):
        assert web.get(f"/api/batches/b1/chunks{wrong}").status_code in (400, 422), wrong
    assert web.get("/api/batches/b1/chunks?phase=DONE").json()["chunks"] == []


def test_batches_are_listed_newest_first(web: LiveBatches) -> None:
    """Page by page, each once."""
    for name in "abc":
        web.submit({"batch_id": name, "pis": pis_of(1)})
    first = web.get("/api/batches?limit=2").json()
    second = web.get(f"/api/batches?limit=2&cursor={first['next']}").json()
    assert [one["id"] for one in (*first["batches"], *second["batches"])] == ["c", "b", "a"]
    assert second["next"] is None


def test_progress_errors_retry_and_close(web: LiveBatches, images: Images) -> None:
    """A batch with failed refs is incomplete, groups them by error, reads only them again, and can then be closed."""
    pis = pis_of(2, refs=3, images=images.url)
    settings = web.batch_settings()
    stage(settings, pis)
    web.submit({"batch_id": "b1", "pis": pis})
    problem(web.ask("POST", "/api/batches/b1/close"), 409, "batch_open")
    model = Reader(Rejected("no"), Rejected("no"))
    web.work(model)
    body = web.get("/api/batches/b1").json()
    assert (body["status"], body["phases"]["DONE"]) == ("incomplete", 1)
    assert body["progress"] == {"total_refs": 6, "completed": 4, "failed": 2, "pending": 0}
    [error] = web.get("/api/batches/b1/errors").json()["errors"]
    assert (error["refs"], len(error["examples"])) == (2, 2)
    assert web.ask("POST", "/api/batches/b1/retry", json={}).json() == {"chunks": 1}
    assert web.get("/api/batches/b1").json()["status"] == "processing"
    web.work(model)
    body = web.get("/api/batches/b1").json()
    assert (body["status"], body["progress"]["completed"]) == ("complete", 6)
    assert sum(model.calls.values()) == 8
    assert web.ask("POST", "/api/batches/b1/retry").json() == {"chunks": 0}
    problem(web.ask("POST", "/api/batches/b1/retry", json={"chunk_id": "7"}), 404, "not_found")
    assert web.ask("POST", "/api/batches/b1/close").json()["closed_at"]
    assert web.get("/api/batches/b1/errors").json() == {"errors": []}


def test_a_chunk_cannot_be_added_to_a_batch_that_was_submitted_whole(web: LiveBatches) -> None:
    """409: otherwise a batch that is complete would have an open chunk, and more rows than it says."""
    web.submit({"batch_id": "b1", "pis": pis_of(2)})
    problem(web.process(chunk_of(PUBLIC, f"{PUBLIC}/c", chunk="7", first=5)), 409, "batch_conflict")
    body = web.get("/api/batches/b1").json()
    assert (body["total_pis"], body["total_chunks"], web.count("batch_refs")) == (2, 1, 4)


def test_roles_and_unknown_batches(web: LiveBatches) -> None:
    """Reading is for viewers, changing for operators; a batch that nobody submitted is 404, no key 401."""
    body = {"batch_id": "b1", "pis": pis_of(1)}
    for role, expected in (("viewer", 403), ("reviewer", 403), ("operator", 202)):
        assert web.submit(body, key=web.key(role)).status_code == expected
    assert web.submit(body, key=None).status_code == 401
    for path in ("", "/b1", "/b1/chunks", "/b1/errors"):
        assert web.get(f"/api/batches{path}", key=web.key("viewer")).status_code == 200
        assert web.get(f"/api/batches{path}", key=None).status_code == 401
    for verb in ("retry", "close"):
        path = f"/api/batches/b1/{verb}"
        assert web.ask("POST", path, key=web.key("reviewer")).status_code == 403
        assert web.ask("POST", f"/api/batches/none/{verb}").status_code == 404
    for path in ("/none", "/none/chunks", "/none/errors"):
        problem(web.get(f"/api/batches{path}"), 404, "not_found")


def test_an_option_in_the_body_and_in_the_query_must_be_the_same(web: LiveBatches) -> None:
    """One of them would be ignored without a word."""
    body = {"batch_id": "b2", "pis": pis_of(1)}
    answer = web.ask("POST", "/api/batches?batch_id=b1", key=web.key("operator"), json=body)
    assert problem(answer, 422, "value_repeated")["field"] == "/batch_id"
    answer = web.ask("POST", "/api/batches?batch_id=b2&chunk_size=3", key=web.key("operator"), json=body)
    assert (answer.status_code, answer.json()["chunk_size"]) == (202, 3)
