"""`/process` and `/status`: the same chunk again, other content, who may call, and bad input."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tabellion.delivery import signature
from tabellion.pipelines.batches.callbacks import fetch_callback_secret
from tabellion.pipelines.batches.settings import settings_of
from tabellion.web.limits import RequestLimits
from tests.pipelines.batches.live import PUBLIC, LiveBatches, batches_section, live_batches
from tests.pipelines.batches.material import chunk_of, stage
from tests.web.live import problem
from tests.workers import ask

CALLBACK = f"{PUBLIC}/callback"
CALLBACK_BODY = {
    "batch_id": "b1", "chunk_id": "0", "status": "success", "results": [],
    "summary": {"total_refs": 0, "completed": 0, "failed": 0, "processing_time_ms": 1},
}  # fmt: skip
SECRET = "a secret of the orchestrator"
JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveBatches]:
    """An application for tests that are refused."""
    folder = tmp_path_factory.mktemp("process")
    with live_batches(folder, {"prod": f"sqlite:///{folder}/work.db"}) as one:
        yield one


def chunk(**changes: Any) -> dict[str, Any]:
    """Return a valid request."""
    return chunk_of(PUBLIC, CALLBACK) | changes


def test_the_same_chunk_again_is_answered_alike(web: LiveBatches) -> None:
    """Also when its fields come in another order; there is one row, and each ref once."""
    first, again = web.process(chunk()), web.process(dict(reversed(chunk().items())))
    assert (first.status_code, again.status_code) == (202, 202)
    assert first.json() == again.json()
    assert [web.count(table) for table in ("batches", "batch_chunks", "batch_pis", "batch_refs")] == [1, 1, 2, 6]
    assert web.sql("SELECT id FROM batch_chunks")[0]["id"] == "ocr:b1:0"


def test_twenty_at_once_are_one_chunk(web: LiveBatches) -> None:
    """All of them are accepted alike, and what there is to do is there once."""
    with ThreadPoolExecutor(20) as threads:
        answers = list(threads.map(lambda _: web.process(chunk()), range(20)))
    assert {answer.status_code for answer in answers} == {202}
    assert len({answer.text for answer in answers}) == 1
    assert [web.count(table) for table in ("batches", "batch_chunks", "batch_pis", "batch_refs")] == [1, 1, 2, 6]
    [batch] = web.sql("SELECT total_pis, total_refs FROM batches")
    assert (batch["total_pis"], batch["total_refs"]) == (2, 6)


def test_other_content_under_the_same_id_is_a_conflict(web: LiveBatches) -> None:
    """Another callback, tip, ref or order: 409, and nothing changes; the same content under another id is fine."""
    assert web.process(chunk()).status_code == 202
    changed = chunk()
    changed["pis"][0]["current_tip"] = "another"
    fewer = chunk()
    fewer["pis"][1]["refs"].pop()
    for body in (chunk(callback_url=f"{PUBLIC}/x"), changed, fewer, chunk(pis=chunk()["pis"][::-1])):
        assert problem(web.process(body), 409, "batch_conflict")["field"] == "/chunk_id"
    assert web.count("batch_refs") == 6
    assert web.process(chunk(chunk_id="1")).status_code == 202
    assert web.process(chunk(batch_id="b2")).status_code == 202


def test_the_same_chunk_after_its_end_is_not_done_again(web: LiveBatches) -> None:
    """Accepted alike; no ref is read a second time, it stays done, and its callback is sent again under its id."""
    from tests.pipelines.batches.material import Reader, serving_images
    from tests.pipelines.documents.receiver import receiving

    with serving_images() as images, receiving() as receiver:
        request = chunk_of(images.url, receiver.url)
        stage(web.batch_settings(), request["pis"])
        first = web.process(request)
        model = Reader()
        web.work(model)
        again = web.process(request)
        web.work(model)
        assert first.json() == again.json()
        assert sum(model.calls.values()) == 6
        assert web.status().json()["phase"] == "DONE"
        assert len(receiver.got) == 2
        assert len({(headers["webhook-id"], body) for _, headers, body in receiver.got}) == 1


def test_the_callback_of_a_chunk_can_be_read(web: LiveBatches) -> None:
    """As it was sent, with its id, and also for a chunk that is not reported; before its end there is none."""
    from tests.pipelines.batches.material import serving_images
    from tests.pipelines.documents.receiver import receiving

    with serving_images() as images, receiving() as receiver:
        request = chunk_of(images.url, receiver.url)
        stage(web.batch_settings(), request["pis"])
        web.process(request)
        web.submit({"batch_id": "b2", "pis": request["pis"]})
        path = "/api/batches/b1/chunks/0/callback"
        problem(web.get(path, key=web.key("viewer")), 404, "not_found")
        receiver.answers(503)
        web.work()
        undelivered = web.get("/api/batches/b1").json()["undelivered_callbacks"]
        assert undelivered == {"pending": 0, "failed": 1}
        (_, headers, body), *_ = receiver.got
        read = web.get(path, key=web.key("viewer"))
        assert (read.content, read.headers["webhook-id"]) == (body, headers["webhook-id"])
        assert web.get("/api/batches/b2/chunks/0/callback").json()["results"]
        assert web.get("/api/batches/b2").json()["undelivered_callbacks"] == {"pending": 0, "failed": 0}
        for wrong in ("b1/chunks/1", "none/chunks/0", "a:b/chunks/0"):
            problem(web.get(f"/api/batches/{wrong}/callback"), 404, "not_found")
        assert web.get(path, key=None).status_code == 401
        web.process(request)
        assert web.get("/api/batches/b1").json()["undelivered_callbacks"] == {"pending": 1, "failed": 0}


def test_a_callback_is_accepted_only_with_the_secret_of_this_address(tmp_path: Path) -> None:
    """An orchestrator has a secret that signs for its own address, whatever Host it sends."""
    urls = {"prod": f"sqlite:///{tmp_path}/work.db"}
    public, body = "https://ocr.example", json.dumps(CALLBACK_BODY)
    theirs = "whsec_" + "b3JjaGVzdHJhdG9yIG9mIG90aGVycyE="
    section = batches_section(orchestrators={"https://other.example": theirs})
    with live_batches(tmp_path, urls, public_url=public, **section) as web:

        def secret_of(origin: str) -> str:
            settings = settings_of(web.config)
            return ask(urls["prod"], lambda store: fetch_callback_secret(store.database.fetch, settings, origin))

        def send(secret: str, host: str | None = None) -> int:
            signed = signature.headers("msg_1", body, [secret], time.time())
            named = {"Host": host} if host else {}
            return int(web.ask("POST", "/callback/b1/ocr", key=None, content=body, headers=signed | named).status_code)

        assert send(theirs) == send(theirs, "other.example") == 401
        assert send(secret_of("https://third.example"), "third.example") == 401
        assert send(secret_of(public)) == 200


def test_an_unknown_chunk_is_not_found(shared: LiveBatches) -> None:
    """404 for a chunk, and for a batch, that nobody has sent."""
    problem(shared.status("nobody", "0"), 404, "not_found")


def test_the_former_address_names_its_successor(shared: LiveBatches) -> None:
    """410 with /process, also for callers who could not send a chunk: what they have to change is the same."""
    for headers in ({}, {"X-Forwarded-For": "203.0.113.9"}, {"Authorization": "Bearer former"}):
        answer = shared.ask("POST", "/ocr", key=None, json={"image_url": "x"}, headers=headers)
        assert "/process" in json.dumps(problem(answer, 410, "batch_gone"))


def test_with_a_secret_only_its_holders_and_keys_enter(tmp_path: Path) -> None:
    """None and a wrong one are 401, the right one is accepted, also on this machine; so is an operator's key."""
    urls = {"prod": f"sqlite:///{tmp_path}/work.db"}
    with live_batches(tmp_path, urls, **batches_section(secret=SECRET)) as web:
        problem(web.process(chunk()), 401, "auth_missing")
        problem(web.status(), 401, "auth_missing")
        for wrong in ("wrong", SECRET[:-1], SECRET + "x", SECRET.upper()):
            problem(web.process(chunk(), key=wrong), 401, "auth_invalid")
        assert web.count("batch_chunks") == 0
        assert web.process(chunk(), key=SECRET).status_code == 202
        assert web.status(key=SECRET).status_code == 200
        problem(web.ask("POST", "/process", key=None, json=chunk(), headers={"Authorization": f"Basic {SECRET}"}),
                401, "auth_invalid")  # fmt: skip
        assert web.process(chunk(), key=web.key("operator")).status_code == 202
        # The secret opens the chunks, not the rest of the API.
        assert web.get("/api/batches", key=SECRET).status_code == 401


def test_keys_enter_by_their_role(web: LiveBatches) -> None:
    """Chunks are for operators, their status for viewers."""
    for role, expected in (("viewer", 403), ("reviewer", 403), ("operator", 202), ("admin", 202)):
        assert web.process(chunk(), key=web.key(role)).status_code == expected, role
    assert web.status(key=web.key("viewer")).status_code == 200
    problem(web.process(chunk(), key="tab_prod_unknown_key"), 401, "auth_invalid")


@pytest.mark.parametrize("header", ["X-Forwarded-For", "Forwarded", "X-Real-IP", "Via", "X-Forwarded-Host"])
def test_behind_a_proxy_that_nobody_named_a_secret_is_needed(shared: LiveBatches, header: str) -> None:
    """A proxy on this machine makes every caller local: its header alone is enough to refuse."""
    for value in ("203.0.113.9", "127.0.0.1", "for=127.0.0.1"):
        problem(shared.process(chunk(), headers={header: value}), 401, "auth_missing")
        problem(shared.status(headers={header: value}), 401, "auth_missing")


def test_another_name_of_this_machine_needs_a_secret(shared: LiveBatches) -> None:
    """A proxy on this machine that adds no header still passes the name that its callers use."""
    problem(shared.process(chunk(), headers={"Host": "ocr.example"}), 401, "auth_missing")
    assert shared.status(headers={"Host": "localhost"}).status_code == 404


def test_behind_a_public_url_nobody_is_local(tmp_path: Path) -> None:
    """Its proxy may add no header, and anyone may write the address of this machine into one."""
    urls = {"prod": f"sqlite:///{tmp_path}/work.db"}
    with live_batches(
        tmp_path, urls, public_url="https://ocr.example", **batches_section(networks=["127.0.0.0/8", "10.1.0.0/16"])
    ) as web:
        problem(web.process(chunk()), 401, "auth_missing")
        for headers in ({"X-Forwarded-For": "127.0.0.1"}, {"X-Real-IP": "10.1.0.1"}, {"Forwarded": "for=10.1.0.1"}):
            problem(web.process(chunk(), headers=headers), 401, "auth_missing")
        assert web.process(chunk(), headers={"X-Forwarded-For": "10.1.0.1"}).status_code == 202


@pytest.mark.parametrize("header", ["Origin", "Sec-Fetch-Site"])
def test_a_page_in_a_browser_needs_a_secret(shared: LiveBatches, header: str) -> None:
    """The name of a foreign site may lead to this machine: its pages would be local callers."""
    problem(shared.process(chunk(), headers={header: "https://elsewhere.example"}), 401, "auth_missing")


def test_other_networks_need_a_secret_unless_they_are_named(tmp_path: Path) -> None:
    """Behind a proxy that is trusted the address of the caller counts."""
    urls = {"prod": f"sqlite:///{tmp_path}/work.db"}
    with live_batches(
        tmp_path, urls, public_url="https://ocr.example", **batches_section(networks=["10.1.0.0/16", "fd00:1::/32"])
    ) as web:
        for address, expected in (
            ("10.1.2.3", 202), ("10.2.0.1", 401), ("203.0.113.9", 401), ("fd00:1::5", 202), ("fd00:2::5", 401),
            ("nonsense", 401),
        ):  # fmt: skip
            answer = web.process(chunk(), headers={"X-Forwarded-For": address})
            assert answer.status_code == expected, (address, answer.text)


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"", 400, "json_invalid"), (b"{", 400, "json_invalid"), (b'{"a": NaN}', 400, "json_invalid"),
        (b'{"a": 1, "a": 2}', 400, "json_invalid"), (b"[" * 200 + b"]" * 200, 400, "json_too_deep"),
        (b'{"a": "\\ud800"}', 400, "json_invalid"), (b'{"batch_id": "\\u0000"}', 400, "text_nul"), (b"[]", 422, None),
        (b"\xff", 400, "json_invalid"),
    ],
    ids=["empty", "cut", "nan", "twice", "deep", "surrogate", "nul", "list", "latin"],
)  # fmt: skip
def test_a_body_that_is_not_json_is_refused(shared: LiveBatches, body: bytes, status: int, code: str | None) -> None:
    """With a code that says what is wrong."""
    answer = shared.process(None, json=None, content=body, headers=JSON)
    assert answer.status_code == status, answer.text
    assert code is None or answer.json()["code"] == code


def test_another_media_type_is_refused(shared: LiveBatches) -> None:
    """415."""
    answer = shared.process(None, json=None, content=b"{}", headers={"Content-Type": "text/plain"})
    assert answer.status_code == 415


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "unknown": ({"more": 1}, "/more"), "number": ({"chunk_id": 0}, "/chunk_id"),
    "null": ({"batch_id": None}, "/batch_id"), "empty-id": ({"batch_id": ""}, "/batch_id"),
    "long-id": ({"batch_id": "x" * 100_000}, "/batch_id"), "colon": ({"batch_id": "a:b"}, "/batch_id"),
    "dots": ({"batch_id": ".."}, "/batch_id"), "dot": ({"chunk_id": "."}, "/chunk_id"),
    "slash": ({"chunk_id": "a/b"}, "/chunk_id"), "no-pis": ({"pis": []}, "/pis"), "object": ({"pis": {}}, "/pis"),
    "text": ({"pis": "pi"}, "/pis"), "nothing": ({"pis": [None]}, "/pis/0"),
    "empty-url": ({"callback_url": ""}, "/callback_url"), "list-url": ({"callback_url": [CALLBACK]}, "/callback_url"),
}  # fmt: skip


@pytest.mark.parametrize(("changes", "field"), WRONG.values(), ids=WRONG)
def test_a_wrong_field_is_named(shared: LiveBatches, changes: dict[str, Any], field: str) -> None:
    """422 with a pointer to it, and no row."""
    answer = shared.process(chunk(**changes))
    assert (answer.status_code, answer.json()["field"]) == (422, field), answer.text
    assert shared.count("batch_chunks") == 0


@pytest.mark.parametrize(
    ("changes", "status"),
    [({"more": 1}, 422), ({"filename": 1}, 422), ({"filename": ""}, 422), ({"filename": "a\0b"}, 400),
     ({"staging_key": "../x"}, 422), ({"staging_key": "/etc/passwd"}, 422), ({"staging_key": "a/../../b"}, 422)],
    ids=["unknown", "number", "empty", "nul", "above", "absolute", "dots"],
)  # fmt: skip
def test_a_wrong_field_of_a_ref_is_named(shared: LiveBatches, changes: dict[str, Any], status: int) -> None:
    """With its place; a path out of the staging store is one, and what a path may be is said."""
    body = chunk()
    body["pis"][1]["refs"][2] |= changes
    answer = shared.process(body)
    assert answer.status_code == status, answer.text
    if status == 422:
        assert answer.json()["field"] == f"/pis/1/refs/2/{next(iter(changes))}"
        assert answer.json()["expected"].startswith("a path of parts separated by /") == ("staging_key" in changes)
    assert shared.count("batch_chunks") == 0


def test_a_ref_that_is_sent_twice_counts_once_and_two_of_one_name_are_refused(web: LiveBatches) -> None:
    """The answer counts what will be done; the same file name with another image is a contradiction."""
    body = chunk()
    body["pis"][0]["refs"] *= 2
    assert web.process(body).json()["total_refs"] == 6
    assert web.count("batch_refs") == 6
    body["pis"][0]["refs"][4] = body["pis"][0]["refs"][4] | {"cdn_url": f"{PUBLIC}/other"}
    refused = problem(web.process(body | {"batch_id": "b2"}), 422, "value_repeated")
    assert refused["field"].startswith("/pis/0/refs/4")
    shared = chunk(batch_id="b4")
    shared["pis"][0]["refs"][1]["staging_key"] = shared["pis"][0]["refs"][0]["staging_key"]
    assert problem(web.process(shared), 422, "value_repeated")["field"] == "/pis/0/refs/1/staging_key"
    shared = chunk(batch_id="b5")
    shared["pis"][1]["refs"][2]["staging_key"] = shared["pis"][0]["refs"][0]["staging_key"]
    assert problem(web.process(shared), 422, "value_repeated")["field"] == "/pis/1/refs/2/staging_key"
    shared["pis"][1]["refs"][2]["cdn_url"] = shared["pis"][0]["refs"][0]["cdn_url"]
    assert web.process(shared).status_code == 202  # one image of two entities
    twice = chunk(batch_id="b3", pis=[*chunk()["pis"], chunk()["pis"][0]])
    assert problem(web.process(twice), 422, "value_repeated")["field"] == "/pis/2/pi"


def test_a_chunk_may_be_larger_than_the_json_of_other_routes(web: LiveBatches, monkeypatch: pytest.MonkeyPatch) -> None:
    """2 MB are accepted; beyond its own limit it is 413."""
    body = chunk(pis=[chunk_of(PUBLIC, CALLBACK, pis=1, refs=10_000)["pis"][0]])
    assert len(json.dumps(body)) > 1_000_000
    assert web.process(body).json()["total_refs"] == 10_000
    monkeypatch.setattr("tabellion.pipelines.batches.routes.process.LARGEST", 1_000_000)
    assert problem(web.process(body), 413, "too_large")["limit"] == 1_000_000


def test_an_entity_without_refs_is_a_success(web: LiveBatches) -> None:
    """Nothing to read, nothing to publish, and the chunk ends."""
    from tests.pipelines.documents.receiver import receiving

    with receiving() as receiver:
        body = chunk(callback_url=receiver.url, pis=[{"pi": "p", "current_tip": "t", "refs": []}])
        assert web.process(body).json() == {
            "status": "accepted", "chunk_id": "0", "total_pis": 1, "total_refs": 0,
        }  # fmt: skip
        web.work()
        assert web.status().json()["phase"] == "DONE"
        [(_, _, sent)] = receiver.got
        assert (json.loads(sent)["status"], json.loads(sent)["results"][0]["status"]) == ("success", "success")


def test_requests_of_one_address_do_not_delay_the_callbacks_of_another(tmp_path: Path) -> None:
    """Anybody may send to these routes: each address has a pace of its own, and each route too."""
    urls = {"prod": f"sqlite:///{tmp_path}/work.db"}
    limits = RequestLimits(rate=0.001, burst=2000)
    with live_batches(tmp_path, urls, public_url="https://ocr.example", limits=limits) as web:

        def send(address: str, path: str) -> int:
            headers = {"X-Forwarded-For": address}
            return int(web.ask("POST", path, key=None, json={}, headers=headers).status_code)

        assert [send("203.0.113.9", "/callback/b1/ocr") for _ in range(3)] == [401, 401, 429]
        assert send("203.0.113.9", "/ocr") == 410
        assert send("198.51.100.7", "/callback/b1/ocr") == 401


def test_the_api_document_says_that_a_key_is_not_needed(shared: LiveBatches) -> None:
    """Otherwise generated clients insist on one; for the other routes they must."""
    paths = shared.get("/openapi.json").json()["paths"]
    for method, path in (("post", "/process"), ("get", "/status/{batch_id}/{chunk_id}"), ("post", "/ocr")):
        assert paths[path][method]["security"] == [{"key": []}, {}]
        assert "API key" in paths[path][method]["x-callers"] or paths[path][method]["x-callers"] == "anyone"
        assert "x-role" not in paths[path][method]
    assert paths["/api/batches"]["post"]["security"] == [{"key": []}]
    assert paths["/api/batches"]["post"]["x-role"] == "operator"
