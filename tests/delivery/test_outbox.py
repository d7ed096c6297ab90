"""Webhooks from the row to the receiver: signed, accepted once, retried by their own schedule, parked, replayed."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from tabellion import Job, Queue, log_to_stderr
from tabellion.delivery import endpoints
from tabellion.delivery import outbox as webhooks
from tabellion.delivery.endpoints import Endpoint
from tabellion.delivery.outbox import LARGEST, body, outbox, webhooks_queue
from tabellion.delivery.signature import BadSignature, verify
from tabellion.engine import controls
from tabellion.engine.worker import heartbeat as roster
from tabellion.messages import Message, translate
from tabellion.net.guard import Rules
from tests.pipelines.documents.receiver import LOOPBACK, Receiver, receiving
from tests.table_owner import Owner, jobs_queue, owning
from tests.waiting import eventually
from tests.workers import ROOT, EventRecorder, ask, drain, make_worker, working

DOCUMENT: dict[str, Any] = {"id": "d1", "status": "completed", "fields": {"vendor": "Menuiserie Côté"}}


@pytest.fixture
def owner(url: str) -> Iterator[Owner]:
    """The database with the tables in it."""
    ask(url, endpoints.SCHEMA.prepare)
    with owning(url) as one:
        yield one


def endpoint(url: str, to: str, **options: Any) -> Endpoint:
    """Add an endpoint."""
    return ask(url, lambda store: endpoints.add(store, to, **options))


def put(url: str, event: str = "document.completed", document: dict[str, Any] | None = None, **options: Any) -> None:
    """Write deliveries as the end of a document does."""

    async def write(store: Any) -> None:
        from tabellion.engine import sql

        data = document or DOCUMENT
        text, values = outbox(event, data["id"], data, **options)
        await store.database.fetch(*_spread(sql.bind(text, values)))

    ask(url, write)


def _spread(bound: tuple[str, list[object]]) -> list[Any]:
    return [bound[0], *bound[1]]


def quick(*, waits: tuple[float, ...] = (0.02,), attempts: int = 3, rules: Rules | None = None) -> Queue:
    """The queue with waits short enough for a test."""
    queue = webhooks_queue(rules or Rules.of(LOOPBACK))
    queue.waits, queue.max_attempts = waits, attempts
    return queue


def test_a_delivery_is_signed_over_exactly_its_bytes(url: str, owner: Owner, receiver: Receiver) -> None:
    """The receiver gets the row's body and id, can verify them with its secret, and the row is delivered."""
    receiver.answers((204, {}, b""))
    to = endpoint(url, receiver.url)
    put(url)
    drain(make_worker(url, quick()))
    [(path, headers, content)] = receiver.got
    [row] = owner("SELECT * FROM tabellion_webhook_deliveries")
    result = verify(headers, content, to.secret)
    assert path == "/hook"
    assert (content.decode(), headers["webhook-id"]) == (row["body"], row["id"])
    assert result == json.loads(row["body"])
    assert (result["type"], result["data"]) == ("document.completed", DOCUMENT)
    assert headers["content-type"] == "application/json"
    assert (row["status"], row["response_status"], row["attempts"]) == ("delivered", 204, 1)
    assert row["finished_at"] is not None
    for broken in (content + b" ", content.replace(b"d1", b"d2")):
        with pytest.raises(BadSignature):
            verify(headers, broken, to.secret)
    with pytest.raises(BadSignature):
        verify(headers, content, endpoints.make_secret())


def test_a_replaced_secret_keeps_signing_for_a_while(url: str, owner: Owner, receiver: Receiver) -> None:
    """Two signatures during the overlap, one after it."""
    to = endpoint(url, receiver.url)
    second = ask(url, lambda store: endpoints.rotate(store, to.id))
    put(url)
    drain(make_worker(url, quick()))
    _, headers, content = receiver.got[0]
    assert verify(headers, content, to.secret) == verify(headers, content, second)
    third = ask(url, lambda store: endpoints.rotate(store, to.id, overlap=-1))
    put(url)
    drain(make_worker(url, quick()))
    _, headers, content = receiver.got[1]
    assert verify(headers, content, third)
    assert len(headers["webhook-signature"].split()) == 1
    with pytest.raises(BadSignature):
        verify(headers, content, second)


def test_errors_are_retried_with_the_same_id_and_body(url: str, owner: Owner, receiver: Receiver) -> None:
    """A receiver that fails twice gets it a third time; its answer is kept, at most 500 bytes of it."""
    receiver.answers((500, {}, b"x" * 5000), (302, {"location": "/elsewhere"}, b""), (200, {}, b"y" * 5000))
    endpoint(url, receiver.url)
    put(url)
    recorder = EventRecorder()
    drain(make_worker(url, quick(), listeners=[recorder]))
    assert [path for path, _, _ in receiver.got] == ["/hook"] * 3
    assert len({(headers["webhook-id"], content) for _, headers, content in receiver.got}) == 1
    first, second = (event.error or "" for event in recorder.of("retried"))
    assert "the receiver returned HTTP 500" in first
    assert "xx" not in first  # what it said is not for all who look at queues
    assert "redirects are not followed" in second
    [row] = owner("SELECT status, attempts, response FROM tabellion_webhook_deliveries")
    assert (row["status"], row["attempts"], row["response"]) == ("delivered", 3, "y" * 500)


def test_an_undeliverable_message_is_parked_and_replayed(url: str, owner: Owner, receiver: Receiver) -> None:
    """Out of attempts it fails with the reason; `retry` sends it again, unchanged."""
    receiver.answers(500)
    endpoint(url, receiver.url)
    put(url)
    queue = quick(attempts=2)
    drain(make_worker(url, queue))
    [row] = owner("SELECT status, error FROM tabellion_webhook_deliveries")
    assert row["status"] == "failed"
    assert "the receiver returned HTTP 500" in row["error"]
    receiver.answers(200)
    assert ask(url, lambda store: controls.restart(store, queue)) == 1
    drain(make_worker(url, queue))
    assert owner("SELECT status FROM tabellion_webhook_deliveries") == [{"status": "delivered"}]
    assert len({headers["webhook-id"] for _, headers, _ in receiver.got}) == 1


def test_410_disables_the_endpoint(url: str, owner: Owner, receiver: Receiver) -> None:
    """Nothing more is sent, waiting deliveries are parked, and once it is enabled again all can be replayed."""
    receiver.answers(410)
    to = endpoint(url, receiver.url)
    put(url)
    put(url, document=DOCUMENT | {"id": "d2"})
    queue = quick()
    # One after the other: what was being sent when the receiver said so could not be held back.
    owner("UPDATE tabellion_webhook_deliveries SET status = 'later' WHERE document_id = 'd2'")
    drain(make_worker(url, queue))
    owner("UPDATE tabellion_webhook_deliveries SET status = 'pending' WHERE document_id = 'd2'")
    drain(make_worker(url, queue))
    rows = owner("SELECT status, error FROM tabellion_webhook_deliveries ORDER BY document_id")
    assert [row["status"] for row in rows] == ["failed", "failed"]
    assert len(receiver.got) == 1
    assert any("410" in row["error"] for row in rows)
    assert any("is disabled" in row["error"] for row in rows)
    [listed] = ask(url, endpoints.list_endpoints)
    assert (listed["failed"], listed["disabled_why"]) == (2, "the receiver returned HTTP 410")
    put(url, document=DOCUMENT | {"id": "d3"})
    assert owner("SELECT count(*) AS n FROM tabellion_webhook_deliveries")[0]["n"] == 2
    receiver.answers(200)
    ask(url, lambda store: endpoints.enable(store, to.id))
    ask(url, lambda store: controls.restart(store, queue))
    drain(make_worker(url, queue))
    assert {row["status"] for row in owner("SELECT status FROM tabellion_webhook_deliveries")} == {"delivered"}


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("form", ["seconds", "date"])
def test_a_receiver_may_ask_for_a_delay(sqlite_url: str, receiver: Receiver, status: int, form: str) -> None:
    """429 and 503 with Retry-After defer the delivery for that long, and the attempt is not spent."""
    ask(sqlite_url, endpoints.SCHEMA.prepare)
    later = format_datetime(datetime.now(UTC) + timedelta(seconds=1000), usegmt=True)
    receiver.answers((status, {"retry-after": "1000" if form == "seconds" else later}, b""))
    endpoint(sqlite_url, receiver.url)
    put(sqlite_url)
    with owning(sqlite_url) as owner:
        with working(make_worker(sqlite_url, quick())):
            eventually(lambda: owner("SELECT 1 FROM tabellion_attempts WHERE settled_at IS NOT NULL"))
        [attempt] = owner("SELECT outcome, retry_at - settled_at AS after FROM tabellion_attempts")
    assert attempt["outcome"] == "limited"
    assert 980 < attempt["after"] < 1001


def test_a_busy_receiver_without_a_delay_is_retried_by_our_schedule(sqlite_url: str, receiver: Receiver) -> None:
    """503 without Retry-After, or with an invalid one, is an error like any other."""
    ask(sqlite_url, endpoints.SCHEMA.prepare)
    receiver.answers(503, (429, {"retry-after": "soon"}, b""), 200)
    endpoint(sqlite_url, receiver.url)
    put(sqlite_url)
    recorder = EventRecorder()
    drain(make_worker(sqlite_url, quick(), listeners=[recorder]))
    assert len(recorder.of("retried")) == 2
    assert len(receiver.got) == 3


def test_a_redirect_is_not_followed(sqlite_url: str, receiver: Receiver) -> None:
    """Wherever it points, the other server gets nothing."""
    ask(sqlite_url, endpoints.SCHEMA.prepare)
    with receiving() as other:
        receiver.answers((307, {"location": other.url}, b""))
        endpoint(sqlite_url, receiver.url)
        put(sqlite_url)
        drain(make_worker(sqlite_url, quick(attempts=1)))
        assert other.got == []
    assert len(receiver.got) == 1


def test_a_receiver_that_hangs_is_abandoned(
    sqlite_url: str, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the timeout the attempt is over, and the next one may succeed."""
    monkeypatch.setattr(webhooks, "ANSWER_SECONDS", 0.3)
    ask(sqlite_url, endpoints.SCHEMA.prepare)
    endpoint(sqlite_url, receiver.url)
    put(sqlite_url)
    receiver.script.hangs = True
    recorder = EventRecorder()
    worker = make_worker(sqlite_url, quick(attempts=50), listeners=[recorder])
    with working(worker):
        eventually(lambda: recorder.of("retried"))
        receiver.script.hangs = False
        eventually(lambda: recorder.of("done"))
    assert "no complete response within 0.3 s" in (recorder.of("retried")[0].error or "")


@pytest.mark.parametrize(
    "to", ["http://127.0.0.1:{port}/", "http://169.254.169.254/latest", "http://localhost:{port}/"]
)
def test_an_internal_address_is_not_called(sqlite_url: str, receiver: Receiver, to: str) -> None:
    """Without an allow-list loopback gets nothing, and the row says why without the URL."""
    ask(sqlite_url, endpoints.SCHEMA.prepare)
    endpoint(sqlite_url, to.format(port=receiver.url.split(":")[2].split("/")[0]))
    put(sqlite_url)
    drain(make_worker(sqlite_url, quick(attempts=1, rules=Rules())))
    with owning(sqlite_url) as owner:
        [row] = owner("SELECT status, error FROM tabellion_webhook_deliveries")
    assert row["status"] == "failed"
    assert "its URL cannot be called" in row["error"]
    assert "http://" not in row["error"]
    assert receiver.got == []


def test_a_receiver_whose_name_does_not_resolve_is_tried_again(sqlite_url: str, receiver: Receiver) -> None:
    """DNS fails at first: the delivery waits, and arrives when the name resolves."""
    asked = []

    async def fail_once(_host: str, _port: int) -> list[str]:
        asked.append(1)
        if len(asked) == 1:
            raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
        return ["127.0.0.1"]

    ask(sqlite_url, endpoints.SCHEMA.prepare)
    endpoint(sqlite_url, f"http://receiver.example:{receiver.url.split(':')[2]}")
    put(sqlite_url)
    drain(make_worker(sqlite_url, quick(rules=replace(Rules.of(LOOPBACK), resolver=fail_once))))
    with owning(sqlite_url) as owner:
        [first] = owner("SELECT error FROM tabellion_attempts WHERE outcome = 'retried'")
    assert "the receiver could not be reached (its name cannot be resolved now" in first["error"]
    assert len(receiver.got) == 1


def test_a_worker_killed_between_sending_and_settling_sends_again(url: str, owner: Owner, receiver: Receiver) -> None:
    """At least once: the second worker sends the same id and body, so that the receiver can deduplicate."""
    endpoint(url, receiver.url)
    put(url)
    import os

    killed = subprocess.run(
        [sys.executable, "-m", "tests.pipelines.documents.deliverer", url], cwd=ROOT, timeout=60, check=False,
        env=os.environ | {"TABELLION_FAILPOINTS": "handler.post_call:kill"},
    )  # fmt: skip
    assert killed.returncode == -9
    assert owner("SELECT status FROM tabellion_webhook_deliveries") == [{"status": "sending"}]
    ask(url, lambda store: roster.leave(store, "deliverer", "was killed", crashed=True))
    with working(make_worker(url, quick())):
        eventually(lambda: owner("SELECT 1 FROM tabellion_webhook_deliveries WHERE status = 'delivered'"))
    assert len(receiver.got) == 2
    assert len({(headers["webhook-id"], content) for _, headers, content in receiver.got}) == 1
    seen: set[str] = set()
    [to] = owner("SELECT secret FROM tabellion_webhook_endpoints")
    verify(receiver.got[0][1], receiver.got[0][2], to["secret"], seen=seen)
    with pytest.raises(BadSignature, match="was already received"):
        verify(receiver.got[1][1], receiver.got[1][2], to["secret"], seen=seen)


def test_rows_are_written_with_the_end_of_a_job_or_not_at_all(url: str, owner: Owner) -> None:
    """An outbox statement commits with the finish; a failed job leaves none."""
    owner.insert(1, 2)
    endpoint(url, "https://example.com/hook")
    queue = jobs_queue(max_attempts=1)

    @queue.handler
    async def end(job: Job) -> None:
        text, values = outbox("document.completed", f"d{job.key}", DOCUMENT)
        job.also(text, **values)
        if job.key == 2:
            raise ValueError("odd")

    drain(make_worker(url, queue))
    assert [row["document_id"] for row in owner("SELECT document_id FROM tabellion_webhook_deliveries")] == ["d1"]


def test_deliveries_are_retried_for_three_days() -> None:
    """Ten times, as Standard Webhooks recommends."""
    queue = webhooks_queue()
    assert queue.max_attempts == 10
    assert 75 <= sum(queue.waits) / 3600 < 76


def test_each_endpoint_gets_the_events_it_asked_for(url: str, owner: Owner) -> None:
    """By event, everything, or only of documents that name it; a disabled one gets nothing."""
    to = "https://example.com/hook"
    failures = endpoint(url, to, events=("document.failed",)).id
    everything = endpoint(url, to).id
    named = endpoint(url, to, events=()).id
    quiet = endpoint(url, to).id
    ask(url, lambda store: endpoints.disable(store, quiet, "asked to"))
    put(url, "document.completed")
    put(url, "document.failed", endpoint=named)
    rows = owner("SELECT endpoint_id, event FROM tabellion_webhook_deliveries")
    assert {(row["endpoint_id"], row["event"]) for row in rows} == {
        (everything, "document.completed"), (failures, "document.failed"), (everything, "document.failed"),
        (named, "document.failed"),
    }  # fmt: skip


def test_secrets_are_not_logged(
    url: str, owner: Owner, receiver: Receiver, capsys: pytest.CaptureFixture[str]
) -> None:  # fmt: skip
    """Not at the most verbose level, not in the rows of deliveries, not in the repr of an endpoint."""
    receiver.answers(500, 200)
    to = endpoint(url, receiver.url + "?token=canary")
    put(url)
    log_to_stderr("debug", as_json=True)
    drain(make_worker(url, quick()))
    logged = capsys.readouterr()
    assert '"event": "done"' in logged.err
    everything = logged.err + logged.out + repr(to) + repr(owner("SELECT * FROM tabellion_webhook_deliveries"))
    everything += repr(owner("SELECT * FROM tabellion_attempts"))
    for canary in (to.secret, to.secret.removeprefix("whsec_"), "token=canary"):
        assert canary not in everything.replace(repr(to), "")
    assert to.secret not in repr(to)


def test_data_that_is_too_large_is_sent_in_its_short_form() -> None:
    """It says so; without a short form only the id is sent."""
    large = {"id": "d1", "status": "completed", "fields": {"x": "y" * LARGEST}}
    text = body("document.completed", large, {"id": "d1", "status": "completed"})
    assert json.loads(text)["data"] == {"id": "d1", "status": "completed", "shortened": True}
    _, values = outbox("document.completed", "d1", large)
    assert json.loads(values["body"])["data"] == {"id": "d1", "shortened": True}


def test_removing_an_endpoint_deletes_its_deliveries(url: str, owner: Owner) -> None:
    """Nothing of it stays; an unknown one is an error."""
    to = endpoint(url, "https://example.com/hook")
    put(url)
    ask(url, lambda store: endpoints.remove(store, to.id))
    assert (
        owner("SELECT * FROM tabellion_webhook_deliveries") == owner("SELECT * FROM tabellion_webhook_endpoints") == []
    )
    for change in (endpoints.remove, endpoints.enable, endpoints.rotate):
        with pytest.raises(endpoints.EndpointError, match=f"unknown endpoint '{to.id}'") as caught:
            ask(url, lambda store, change=change: change(store, to.id))  # type: ignore[misc]
        assert in_french(caught.value) == f"point de terminaison « {to.id} » inconnu"


@pytest.mark.parametrize(
    ("to", "events", "message"),
    [
        ("ftp://example.com", ("*",), "must start with https:// or http://"),
        ("https://example.com/" + "x" * 3000, ("*",), "at most 2,048"),
        ("https://example.com", ("document.eaten",), "unknown event 'document.eaten'"),
    ],
)
def test_an_invalid_endpoint_is_rejected(sqlite_url: str, to: str, events: tuple[str, ...], message: str) -> None:
    """When it is created, with what would be right."""
    ask(sqlite_url, endpoints.SCHEMA.prepare)
    with pytest.raises(endpoints.EndpointError, match=message) as caught:
        endpoint(sqlite_url, to, events=events, known=["document.failed"])
    assert in_french(caught.value) != str(caught.value)


def in_french(error: Exception) -> str:
    """The message of an error, as French pages show it."""
    message = str(error)
    assert isinstance(message, Message)
    return translate("fr", message.code, **message.params).replace("\N{NO-BREAK SPACE}", " ")


def test_tables_are_created_concurrently(url: str) -> None:
    """Creating them again changes nothing."""
    import asyncio

    async def often(store: Any) -> None:
        await asyncio.gather(*(endpoints.SCHEMA.prepare(store) for _ in range(5)))

    ask(url, often)
    ask(url, often)
    assert ask(url, endpoints.list_endpoints) == []


@pytest.mark.parametrize(
    "headers",
    [{}, {"webhook-id": "m", "webhook-timestamp": "1", "webhook-signature": "v1,x"},
     {"webhook-id": "m", "webhook-timestamp": "now", "webhook-signature": "v1"}],
)  # fmt: skip
def test_forged_headers_are_one_clear_error(headers: dict[str, str]) -> None:
    """Missing, old or invalid: BadSignature, never another exception."""
    with pytest.raises(BadSignature):
        verify(headers, b"{}", endpoints.make_secret())
