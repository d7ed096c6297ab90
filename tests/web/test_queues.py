"""/api/queues: waiting, running, done and failed rows; pause, resume and retry."""

from __future__ import annotations

from typing import Any

import pytest

from tabellion import Queue, Store
from tabellion.accounts import audit
from tabellion.engine.settlement import Settlement
from tabellion.monitor.view import QueueView
from tabellion.pipelines.documents.queues import documents_queues
from tests.models.bills import bill
from tests.web.live import Live, problem

MARKUP = "<img src=x onerror=alert(1)>"


async def fail(store: Store, queue: Queue, errors: list[str]) -> list[str]:
    """Fail the next rows, each with its own error; return their keys."""
    jobs = await store.claim(queue, len(errors), "w1")
    jobs.sort(key=lambda job: job.text_key)
    await store.settle([Settlement(job, "failed", error=error) for job, error in zip(jobs, errors, strict=True)])
    return [job.text_key for job in jobs]


def documents(web: Live) -> Queue:
    """The queue of documents."""
    return documents_queues(web.settings())[0]


def upload_and_fail(web: Live, *errors: str) -> list[str]:
    """Upload this many documents and fail them."""
    for number in range(len(errors)):
        web.upload(bill(f"failing {number} {len(web.keys)}"))
    return web.store("prod", lambda store: fail(store, documents(web), list(errors)))


def find_queue(answer: Any, name: str) -> Any:
    """Return one queue of a list."""
    return next(one for one in answer.json()["queues"] if one["name"] == name)


def test_queues_are_listed_with_their_counts(web_any: Live) -> None:
    """Those of the document service; a single one is the same."""
    one = web_any.upload(bill())
    answer = web_any.get("/api/queues", key=web_any.key("viewer"))
    names = [queue["name"] for queue in answer.json()["queues"]]
    assert names[0] == "documents"
    assert {"followers", "failures", "webhooks"} <= set(names)
    mine = find_queue(answer, "documents")
    assert (mine["ready"], mine["running"], mine["done"], mine["failed"]) == (1, 0, 0, 0)
    assert mine["oldest_at"] == web_any.get(f"/api/documents/{one['id']}").json()["created_at"]
    assert mine["paused"] is False
    assert all(queue["problem"] is None for queue in answer.json()["queues"])
    assert web_any.get("/api/queues/documents").json()["states"] == mine["states"]


def test_rows_of_a_state_are_listed_page_by_page(web_any: Live) -> None:
    """Each once, with its key, its mirrors, its last attempt and a link to its page."""
    keys = upload_and_fail(web_any, "row 1: HTTP 503", "row 2: HTTP 503", '{"code": "timed_out", "message": "slow"}')
    first = web_any.get("/api/queues/documents/rows?state=failed&limit=2").json()
    second = web_any.get(f"/api/queues/documents/rows?state=failed&limit=2&cursor={first['next']}").json()
    rows = [*first["rows"], *second["rows"]]
    assert [row["key"] for row in rows] == sorted(keys, reverse=True)
    assert second["next"] is None
    assert rows[0]["error"] == rows[0]["mirrors"]["error"] == "timed_out: slow"
    assert rows[0]["url"] == f"/documents/{rows[0]['key']}"
    assert (rows[1]["attempt"]["outcome"], rows[1]["attempt"]["worker"]) == ("failed", "w1")
    assert rows[1]["attempt"]["settled_at"].endswith("Z")
    assert rows[1]["mirrors"]["finished_at"].endswith("Z")
    assert rows[1]["fingerprint"] == rows[2]["fingerprint"] != rows[0]["fingerprint"]
    assert web_any.get("/api/queues/documents/rows").json() == {"rows": [], "next": None}
    other = web_any.get(f"/api/queues/documents/rows?state=done&cursor={first['next']}")
    problem(other, 422, "cursor_invalid")
    error = problem(web_any.get("/api/queues/documents/rows?state=broken"), 422, "value_invalid")
    assert error["field"] == "state"


def test_errors_are_grouped_and_a_group_is_retried(web_any: Live) -> None:
    """One group per kind of error; its rows, and no others, are ready again."""
    upload_and_fail(web_any, f"no file /in/1.pdf {MARKUP}", f"no file /in/x/2.pdf {MARKUP}", "HTTP 500", "HTTP 404")
    found = web_any.get("/api/queues/documents/errors", key=web_any.key("viewer")).json()
    assert (found["rows"], found["whole"]) == (4, True)
    assert [group["count"] for group in found["groups"]] == [2, 1, 1]
    group = found["groups"][0]
    assert group["shape"].startswith("no file <path>")
    assert MARKUP in group["message"]
    assert group["first_at"] <= group["last_at"]
    sent = {"fingerprint": group["fingerprint"]}
    answer = web_any.ask("POST", "/api/queues/documents/retry", json=sent, key=web_any.key("operator"))
    assert answer.json() == {"queue": "documents", "retried": 2}
    mine = find_queue(web_any.get("/api/queues"), "documents")
    assert (mine["ready"], mine["failed"]) == (2, 2)
    assert web_any.ask("POST", "/api/queues/documents/retry", json=sent).json()["retried"] == 0


def test_rows_are_retried_by_key(web_any: Live) -> None:
    """Only failed rows are; others are not reported."""
    keys = upload_and_fail(web_any, "bad", "worse")
    sent = {"keys": [keys[0], "nobody"]}
    assert web_any.ask("POST", "/api/queues/documents/retry", json=sent).json()["retried"] == 1
    assert web_any.get(f"/api/documents/{keys[0]}").json()["status"] == "queued"
    assert web_any.get(f"/api/documents/{keys[1]}").json()["status"] == "failed"


@pytest.mark.parametrize(
    ("sent", "status", "code", "field"),
    [
        ({}, 422, "value_invalid", "/fingerprint"),
        ({"keys": ["a"], "fingerprint": "0" * 16}, 422, "value_invalid", "/fingerprint"),
        ({"keys": []}, 422, "value_invalid", "/keys"),
        ({"fingerprint": "xyz"}, 422, "value_invalid", "/fingerprint"),
        ({"keys": [1]}, 422, "value_invalid", "/keys/0"),
        ({"keys": ["a"] * 1001}, 422, "value_invalid", "/keys"),
        ({"keys": ["a\u0000b"]}, 400, "text_nul", "/keys/0"),
        ({"all": True}, 422, "value_unknown", "/all"),
    ],
)
def test_a_retry_must_say_which_rows(web: Live, sent: dict[str, Any], status: int, code: str, field: str) -> None:
    """Either a fingerprint or keys, in the right form."""
    answer = web.ask("POST", "/api/queues/documents/retry", json=sent)
    assert problem(answer, status, code)["field"] == field


@pytest.mark.parametrize(
    ("action", "sent", "code"),
    [
        ("retry", {}, "expected.fingerprint_or_keys"),
        ("release", {}, "expected.keys_or_orphans"),
        ("release", {"orphans": True, "force": True}, "expected.force_with_keys"),
    ],
)
def test_what_is_expected_can_be_translated(web: Live, action: str, sent: dict[str, Any], code: str) -> None:
    """A message with its code, not an English sentence."""
    error = problem(web.ask("POST", f"/api/queues/documents/{action}", json=sent), 422, "value_invalid")
    assert error["translatable"]["expected"] == {"code": code, "params": {}}


def test_a_queue_is_paused_and_resumed(web_any: Live) -> None:
    """With a reason, visible at once to everyone; nothing is claimed meanwhile."""
    web_any.upload(bill())
    operator = web_any.key("operator")
    answer = web_any.ask("POST", "/api/queues/documents/pause", json={"reason": f"lunch {MARKUP}"}, key=operator)
    assert answer.json() == {"queue": "documents", "paused": True, "reason": f"lunch {MARKUP}"}
    mine = find_queue(web_any.get("/api/queues"), "documents")
    assert (mine["paused"], mine["reason"]) == (True, f"lunch {MARKUP}")
    assert mine["paused_at"].endswith("Z")
    claimed = web_any.store("prod", lambda store: store.claim(documents(web_any), 5, "w"))
    assert claimed == []
    assert web_any.ask("POST", "/api/queues/documents/resume", key=operator).json()["paused"] is False
    assert find_queue(web_any.get("/api/queues"), "documents")["paused"] is False
    assert len(web_any.store("prod", lambda store: store.claim(documents(web_any), 5, "w"))) == 1
    assert web_any.ask("POST", "/api/queues/documents/pause").json()["reason"] is None


def test_actions_are_audited(web_any: Live) -> None:
    """In the chain that nobody can change."""
    upload_and_fail(web_any, "bad")
    web_any.ask("POST", "/api/queues/webhooks/pause", json={"reason": "lunch"})
    web_any.ask("POST", "/api/queues/webhooks/resume")
    mark = web_any.get("/api/queues/documents/errors").json()["groups"][0]["fingerprint"]
    web_any.ask("POST", "/api/queues/documents/retry", json={"fingerprint": mark}, key=web_any.key("operator"))
    rows: Any = web_any.sql("SELECT n, at, body FROM tabellion_audit_log ORDER BY n")
    entries = [one for one in map(audit.serialize_entry, rows) if one["action"] in ("paused", "resumed", "retried")]
    assert [(one["actor"], one["action"], one["reason"], one["more"]["queue"]) for one in entries] == [
        ("key:admin", "paused", "lunch", "webhooks"), ("key:admin", "resumed", None, "webhooks"),
        ("key:operator", "retried", None, "documents"),
    ]  # fmt: skip
    assert entries[-1]["more"] == {"queue": "documents", "rows": 1, "fingerprint": mark}
    assert web_any.store("prod", audit.verify).whole


def test_an_unknown_queue_is_not_found(web: Live) -> None:
    """For every route about it."""
    for method, path in (("GET", ""), ("GET", "/rows"), ("GET", "/errors"), ("POST", "/pause"), ("POST", "/resume"),
                         ("POST", "/retry")):  # fmt: skip
        problem(web.ask(method, f"/api/queues/nowhere{path}", json=None), 404, "not_found")


def test_a_missing_table_is_reported(web_any: Live) -> None:
    """The list names the problem; requests for its rows fail with the same sentence."""
    environment = web_any.app.state.auth.environments["prod"]
    nowhere = Queue("nowhere", ready=1, running=2, done=3, failed=4)
    environment.monitor.overview.views.append(QueueView(nowhere))
    assert "nowhere" in find_queue(web_any.get("/api/queues"), "nowhere")["problem"]
    for path in ("rows", "errors"):
        error = problem(web_any.get(f"/api/queues/nowhere/{path}"), 409, "queue_unusable")
        assert "nowhere" in error["detail"]


def test_invalid_keys_are_rejected(web_any: Live) -> None:
    """A number is expected where keys are numbers."""
    web_any.sql("CREATE TABLE mine (id integer PRIMARY KEY, status text)")
    web_any.sql("INSERT INTO mine VALUES (7, 'f')")
    queue = Queue("mine", ready="r", running="w", done="d", failed="f")
    web_any.app.state.auth.environments["prod"].monitor.overview.views.append(QueueView(queue))
    error = problem(web_any.ask("POST", "/api/queues/mine/retry", json={"keys": ["7", "x"]}), 422, "value_invalid")
    assert error["field"] == "/keys/1"
    assert web_any.ask("POST", "/api/queues/mine/retry", json={"keys": ["7"]}).json()["retried"] == 1


def own_rows(web: Live, *rows: str) -> Queue:
    """A queue on an own table with these rows."""
    web.sql("CREATE TABLE mine (id integer PRIMARY KEY, status text)")
    for row in rows:
        web.sql(f"INSERT INTO mine VALUES {row}")
    queue = Queue("mine", ready="r", running="w", done="d", failed="f")
    web.app.state.auth.environments["prod"].monitor.overview.views.append(QueueView(queue))
    return queue


def test_orphans_are_released(web_any: Live) -> None:
    """By key or all of them; the holders of other rows are named, and only `force` ends a live claim."""
    queue = own_rows(web_any, "(1, 'r')", "(2, 'w')", "(3, 'w')", "(4, 'd')")
    [job] = web_any.store("prod", lambda store: store.claim(queue, 1, "w1"))
    assert job.text_key == "1"
    url, key = "/api/queues/mine/release", web_any.key("operator")
    result = web_any.ask("POST", url, json={"keys": ["1", "2", "4", "5"]}, key=key).json()
    assert (result["queue"], result["released"]) == ("mine", ["2"])
    assert [(one["key"], one["reason"], one["worker"]) for one in result["kept"]] == [
        ("1", "held", "w1"), ("4", "not_running", None), ("5", "missing", None),
    ]  # fmt: skip
    result = web_any.ask("POST", url, json={"orphans": True}, key=key).json()
    assert (result["released"], result["kept"]) == (["3"], [])
    result = web_any.ask("POST", url, json={"keys": ["1"], "force": True}, key=key).json()
    assert result["released"] == ["1"]
    assert {row["status"] for row in web_any.sql("SELECT status FROM mine WHERE id < 4")} == {"r"}
    rows: Any = web_any.sql("SELECT * FROM tabellion_audit_log ORDER BY n")
    entries = [one for one in map(audit.serialize_entry, rows) if one["action"] == "rows_released"]
    assert [one["more"] for one in entries] == [
        {"queue": "mine", "rows": 1, "keys": ["2"]}, {"queue": "mine", "rows": 1},
        {"queue": "mine", "rows": 1, "keys": ["1"], "force": True},
    ]  # fmt: skip


@pytest.mark.parametrize("sent", [{}, {"keys": ["1"], "orphans": True}, {"orphans": True, "force": True}])
def test_a_release_must_say_which_rows(web: Live, sent: dict[str, Any]) -> None:
    """Keys or orphans; orphans cannot be combined with force."""
    problem(web.ask("POST", "/api/queues/documents/release", json=sent), 422, "value_invalid")


def test_a_viewer_cannot_release_rows(web: Live) -> None:
    """It needs the operator role, as on the command line."""
    sent, key = {"orphans": True}, web.key("reviewer")
    problem(web.ask("POST", "/api/queues/documents/release", json=sent, key=key), 403, "role_required")
