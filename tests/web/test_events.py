"""Server-sent events: the status of documents as it changes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx2
import pytest

from tabellion.pipelines.documents.routes import events, updates
from tabellion.web.limits import RequestLimits
from tests.models.bills import bill
from tests.waiting import eventually
from tests.web.live import Live, live, problem
from tests.web.test_documents import finish

ALL = "/api/documents/events"


@contextmanager
def listening(web: Live, path: str, **headers: str) -> Iterator[Iterator[dict[str, str]]]:
    """The events of a stream, one by one; comments as `{"comment": …}`."""
    sent = {"Authorization": f"Bearer {web.key('viewer')}"} | {
        name.replace("_", "-"): value for name, value in headers.items()
    }
    with (
        httpx2.Client(trust_env=False, timeout=20) as client,
        client.stream("GET", web.url + path, headers=sent) as answer,
    ):
        assert answer.status_code == 200, answer.read()
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert answer.headers["cache-control"] == "no-store"
        yield _events(answer.iter_lines())


def _events(lines: Iterator[str]) -> Iterator[dict[str, str]]:
    event: dict[str, str] = {}
    for line in lines:
        if not line:
            if event:
                yield event
            event = {}
            continue
        name, _, value = line.partition(": ")
        event[name or "comment"] = value


def data(event: dict[str, str]) -> Any:
    """Return the data of an event."""
    return json.loads(event["data"])


def test_a_document_is_followed_to_its_end(web_any: Live) -> None:
    """Its status, each page, its end; then the stream ends."""
    one = web_any.upload(bill())
    with listening(web_any, f"{one['status_url']}/events") as stream:
        assert next(stream) == {"retry": "2000"}
        first = next(stream)
        assert (first["event"], data(first)["status"]) == ("document", "queued")
        web_any.sql(
            "UPDATE tabellion_documents SET status = 'processing', pages = 3, done_pages = 1 WHERE id = $1", one["id"]
        )
        assert data(next(stream))["progress"] == {"done": 1, "pages": 3}
        web_any.sql("UPDATE tabellion_documents SET done_pages = 2 WHERE id = $1", one["id"])
        assert data(next(stream))["progress"] == {"done": 2, "pages": 3}
        finish(web_any, one["id"])
        last = next(stream)
        assert data(last)["status"] == "completed"
        assert list(stream) == []
    sent = {"Last-Event-ID": last["id"]}
    assert web_any.get(f"{one['status_url']}/events", headers=sent).status_code == 204
    with listening(web_any, f"{one['status_url']}/events") as stream:
        assert [data(event)["status"] for event in list(stream)[1:]] == ["completed"]


def test_all_documents_are_followed(web_any: Live) -> None:
    """Documents that arrive or end from now on; after a reconnect, from the last event received."""
    web_any.upload(bill("before"))
    with listening(web_any, ALL) as stream:
        next(stream)
        served = web_any.app.state.auth.environments["prod"].served["documents"]
        eventually(lambda: served.updates._watches)
        one = web_any.upload(bill("one"))
        event = next(stream)
        while data(event)["id"] != one["id"]:  # an event from just before the start may come first
            event = next(stream)
        assert data(event)["status"] == "queued"
        finish(web_any, one["id"], "failed")
        assert (data(next(stream))["id"], event["event"]) == (one["id"], "document")
    two = web_any.upload(bill("two"))
    with listening(web_any, ALL, last_event_id=event["id"]) as stream:
        next(stream)
        seen: set[str] = set()
        while seen != {one["id"], two["id"]}:
            seen |= {data(next(stream))["id"]} & {one["id"], two["id"]}
    problem(web_any.get(ALL, headers={"Last-Event-ID": "yesterday"}), 422, "value_invalid")


def test_polling_stops_without_listeners(web: Live) -> None:
    """The database is no longer polled once the last stream has ended."""
    one = web.upload(bill("alone"))
    served = web.app.state.auth.environments["prod"].served["documents"]
    with listening(web, f"{one['status_url']}/events") as stream:
        next(stream)
        next(stream)
        assert served.updates._watches
    eventually(lambda: not served.updates._watches)
    eventually(lambda: served.updates._task.done())


def test_an_idle_stream_sends_comments(web: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    """A comment now and then; and an event when the document is deleted."""
    monkeypatch.setattr(events, "HEARTBEAT", 0.1)
    monkeypatch.setattr(events, "LOOK", 0.05)
    one = web.upload(bill("silent"))
    with listening(web, f"{one['status_url']}/events") as stream:
        next(stream)
        next(stream)
        assert next(stream) == {"comment": "alive"}
        assert web.ask("DELETE", one["status_url"]).status_code == 204
        event = next(stream)
        while event.get("event") != "deleted":
            event = next(stream)
        assert list(stream) == []


def test_the_number_of_streams_is_limited(tmp_path_factory: pytest.TempPathFactory) -> None:
    """429 for one too many per key, or in all; a closed one makes room."""
    folder = tmp_path_factory.mktemp("streams")
    with live(folder, {"prod": f"sqlite:///{folder}/p.db"}, limits=RequestLimits(streams=3, streams_per_key=2)) as web:
        with listening(web, ALL) as one, listening(web, ALL) as two:
            next(one), next(two)
            answer = web.get(ALL, key=web.key("viewer"))
            assert problem(answer, 429, "too_many_streams")["limit"] == 2
            assert answer.headers["retry-after"]
        eventually(lambda: not web.app.state.streams._open)


def test_streams_end_with_the_server(tmp_path_factory: pytest.TempPathFactory) -> None:
    """An open stream does not keep it from stopping."""
    folder = tmp_path_factory.mktemp("ends")
    with live(folder, {"prod": f"sqlite:///{folder}/p.db"}) as web, listening(web, ALL) as stream:
        next(stream)
        web.stop()
        assert list(stream) == []


def test_a_stream_resumed_far_back_gets_everything_in_batches(web: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    """More events than one query returns are not lost."""
    monkeypatch.setattr(updates, "MOST", 2)
    submitted = {web.upload(bill(f"pieces {number}"))["id"] for number in range(5)}
    with listening(web, ALL, last_event_id="1") as stream:
        next(stream)
        seen: set[str] = set()
        while not submitted <= seen:
            seen.add(data(next(stream))["id"])
