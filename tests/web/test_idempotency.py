"""The same request twice: one response, done once."""

from __future__ import annotations

import threading
from typing import Any

import httpx2
import pytest

from tabellion.accounts import tables
from tabellion.engine.store import Store
from tabellion.web import idempotency
from tests.models.bills import bill
from tests.web.live import Live, problem
from tests.workers import ask

URL = "/api/documents"


def send(web: Live, word: str, content: bytes, name: str = "a.pdf", **options: Any) -> httpx2.Response:
    """Upload a file with an Idempotency-Key."""
    files = {"file": (name, content, "application/pdf")}
    return web.ask("POST", URL, files=files, headers={"Idempotency-Key": word}, **options)


def test_a_repeated_request_gets_the_first_response(web_any: Live) -> None:
    """Byte for byte, with a header that says so; another body under the same key is refused."""
    first, content = send(web_any, "k-1", bill("one")), bill("one")
    again = send(web_any, "k-1", content)
    assert (first.status_code, again.status_code) == (202, 202)
    assert again.json() == first.json()
    assert "idempotency-replayed" not in first.headers
    assert again.headers["idempotency-replayed"] == "true"
    assert len(web_any.get(URL).json()["documents"]) == 1
    for other in (send(web_any, "k-1", bill("other")), send(web_any, "k-1", content, name="b.pdf")):
        error = problem(other, 409, "idempotency_mismatch")
        assert error["field"] == "Idempotency-Key"
    assert len(web_any.get(URL).json()["documents"]) == 1
    assert send(web_any, "k-2", content).json() != first.json()


def test_concurrent_requests_with_one_key_create_one_document(web_any: Live) -> None:
    """One does the work; the others wait for its response and return the same."""
    answers: list[httpx2.Response] = []
    content = bill("at once")
    threads = [threading.Thread(target=lambda: answers.append(send(web_any, "together", content))) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert {answer.status_code for answer in answers} == {202}
    assert len({answer.text for answer in answers}) == 1
    assert len(web_any.get(URL).json()["documents"]) == 1


def test_callers_do_not_share_keys(web: Live) -> None:
    """Two callers may use the same key."""
    one = send(web, "shared", bill("a"), key=web.key("operator"))
    other = send(web, "shared", bill("b"), key=web.key("admin"))
    assert (one.status_code, other.status_code) == (202, 202)


def test_a_rejected_request_does_not_use_up_its_key(web: Live) -> None:
    """The corrected request may use the same key."""
    problem(send(web, "mended", b""), 422, "empty_file")
    assert send(web, "mended", bill("mended")).status_code == 202


@pytest.mark.parametrize("key", ["", "a b", "x" * 256, b"\xe9"])
def test_an_invalid_key_is_rejected(web: Live, key: Any) -> None:
    """1 to 255 visible characters."""
    answer = web.ask("POST", URL, content=bill(), headers={"Idempotency-Key": key, "Content-Type": "application/pdf"})
    assert problem(answer, 422, "value_invalid")["field"] == "Idempotency-Key"


def test_a_response_expires_after_a_day_and_a_dead_request_is_replaced(url: str) -> None:
    """An expired key is free for any request; the key of a killed request is free for the same request."""

    async def story(store: Store) -> None:
        await tables.SCHEMA.prepare(store)
        async with idempotency.reserve_key(store, "me", "k", "print") as mine:
            assert mine.answer is None
            mine.given = {"n": 1}
        async with idempotency.reserve_key(store, "me", "k", "print") as again:
            assert again.answer == {"n": 1}
        past = "to_timestamp(0)" if store.dialect == "postgresql" else "0"
        await store.database.fetch(f"UPDATE tabellion_idempotency_keys SET expires_at = {past}")
        async with idempotency.reserve_key(store, "me", "k", "another") as fresh:
            assert fresh.answer is None
            fresh.given = {"n": 2}
        await store.database.fetch(f"UPDATE tabellion_idempotency_keys SET answer = NULL, lease_until = {past}")
        async with idempotency.reserve_key(store, "me", "k", "another") as taken_over:
            assert taken_over.answer is None
            taken_over.given = {"n": 3}

    ask(url, story)


@pytest.mark.parametrize("given", [None, {"n": 1}])
def test_a_request_that_outlives_its_lease_loses_the_key(url: str, given: Any) -> None:
    """With a response or without: the reservation and the response of the second request stay."""

    async def story(store: Store) -> None:
        past = "to_timestamp(0)" if store.dialect == "postgresql" else "0"
        async with idempotency.reserve_key(store, "me", "k", "print") as slow:
            await store.database.fetch(f"UPDATE tabellion_idempotency_keys SET lease_until = {past}")
            # Its lease is longer, as the fence cannot distinguish two leases that end in the same millisecond.
            second = idempotency.reserve_key(store, "me", "k", "print", seconds=60.0)
            taken_over = await second.__aenter__()
            assert taken_over.answer is None
            slow.given = given
        [row] = await store.database.fetch("SELECT answer FROM tabellion_idempotency_keys")
        assert row["answer"] is None
        taken_over.given = {"n": 2}
        await second.__aexit__(None, None, None)
        async with idempotency.reserve_key(store, "me", "k", "print") as again:
            assert again.answer == {"n": 2}

    ask(url, story)
