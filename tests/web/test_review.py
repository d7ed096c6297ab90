"""/api/review: the queue, claims, fields and endings over HTTP, on both databases."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tabellion.accounts import audit
from tabellion.pipelines.documents.review import claims
from tests.pipelines.documents.review.items import TEXT, VALUES, put, put_user
from tests.web.live import Live, live, problem
from tests.web.test_events import data, listening

WRONG = VALUES | {"total": "121.00"}


@pytest.fixture
def app(tmp_path: Path, url: str) -> Iterator[Live]:
    """An application with a document type for these tests."""
    folder = tmp_path / "types"
    folder.mkdir()
    (folder / "bill.yaml").write_text(f"{TEXT}\ninstructions: Look at the stamp.\n")
    with live(tmp_path, {"prod": url}, types=(str(folder),)) as one:
        yield one


class Reviewer:
    """A user of a key, and the version of the item they last saw."""

    def __init__(self, web: Live, role: str = "reviewer") -> None:
        self.web, self.key = web, web.key(role)
        self.name = f"key:{role}"
        self.tag = ""

    def __call__(self, method: str, path: str, body: Any = None, *, tag: str | None = None) -> Any:
        """Send one request below /api/review with the version of the last answer."""
        headers = {"If-Match": tag or self.tag} if method == "PATCH" or path.endswith("/approve") else {}
        answer = self.web.ask(method, f"/api/review{path}", key=self.key, headers=headers, json=body)
        self.tag = answer.headers.get("etag", self.tag) if answer.status_code < 400 else self.tag
        return answer

    def ok(self, method: str, path: str, body: Any = None, status: int = 200) -> Any:
        """Send a request that must succeed; return its body."""
        answer = self(method, path, body)
        assert answer.status_code == status, answer.text
        return answer.json() if answer.content else None


def add_item(web: Live, *args: Any, **columns: Any) -> str:
    """Add an item that waits for review."""
    return web.store("prod", lambda store: put(store, *args, **columns))


def field(whole: Any, name: str) -> Any:
    """Return one field of an item."""
    return next(one for one in whole["fields"] if one["name"] == name)


def test_an_item_from_the_queue_to_approval(app: Live) -> None:
    """Listed, claimed, checked, corrected and approved; the audit log has every step."""
    item = add_item(app, WRONG)
    anna = Reviewer(app)
    listed = anna.ok("GET", "/items")
    assert [one["id"] for one in listed["items"]] == [item]
    assert listed["counts"] == {
        "pending": 1, "in_review": 0, "mine": 0, "overdue": 0, "escalated": 0, "done_today": 0,
    }  # fmt: skip
    parts = listed["items"][0]["parts"]
    assert sum(one["points"] for one in parts.values()) == pytest.approx(listed["items"][0]["priority"], abs=0.001)

    whole = anna.ok("POST", "/claim", {})
    assert (whole["id"], whole["status"], whole["claim"]["mine"]) == (item, "in_review", True)
    assert whole["instructions"] == "Look at the stamp."
    assert whole["position"] == {"place": 1, "of": 1}
    assert whole["issues"][0]["rule"] == "adds_up"
    assert field(whole, "total")["state"] == "rule_failed"
    assert field(whole, "vendor")["state"] == "auto"
    assert [one["name"] for one in field(whole, "lines")["columns"]] == ["description", "amount"]
    assert field(whole, "kind")["values"] == ["goods", "services"]

    gated = problem(anna("POST", f"/items/{item}/approve", {}), 422, "review_gated")
    assert (gated["missing"], gated["failing"][0]["rule"]) == ([], "adds_up")
    checked = anna.ok("POST", f"/items/{item}/check", {"fields": {"total": "120,00 €", "date": "soon"}})
    assert checked["fields"]["total"] == {"value": "120.00", "error": None}
    assert "date" in checked["fields"]["date"]["error"]
    assert [one["code"] for one in checked["issues"]] == ["type"]

    edited = anna.ok("PATCH", f"/items/{item}/fields", {"fields": {
        "total": {"action": "correct", "value": "120,00 €", "page": 1, "box": [0.5, 0.5, 0.6, 0.6], "quote": "120,00"},
        "vendor": {"action": "confirm"}, "currency": {"action": "absent"},
    }})  # fmt: skip
    total = field(edited, "total")
    assert (total["value"], total["state"], total["locked"], total["corrected_by"]) == (
        "120.00", "corrected", True, "key:reviewer",
    )  # fmt: skip
    assert total["box"] == [0.5, 0.5, 0.6, 0.6]
    assert field(edited, "vendor")["state"] == "confirmed"
    assert (field(edited, "currency")["state"], field(edited, "currency")["value"]) == ("absent", None)
    assert (edited["issues"], edited["version"]) == ([], 2)

    ended = anna.ok("POST", f"/items/{item}/approve", {"seconds": 41.5, "keystrokes": 12, "next": True})
    assert (ended["item"]["status"], ended["item"]["reviewer"], ended["next"]) == ("corrected", "key:reviewer", None)
    entries = anna.ok("GET", f"/items/{item}/history")["entries"]
    assert [(one["action"], one["field"]) for one in entries] == [
        ("claimed", None), ("corrected", "total"), ("confirmed", "vendor"), ("absent", "currency"), ("approved", None),
    ]  # fmt: skip
    assert (entries[1]["before"], entries[1]["after"]) == ("121.00", "120.00")
    assert entries == app.get(f"/api/documents/{whole['document_id']}/history").json()["entries"]
    assert app.store("prod", audit.verify).whole
    assert app.sql("SELECT chore FROM tabellion_documents") == [{"chore": "rewrite"}]
    problem(anna("PATCH", f"/items/{item}/fields", {"fields": {"tax": {"action": "confirm"}}}), 409, "item_closed")


def test_an_invalid_type_file_blocks_judging(app: Live, tmp_path: Path) -> None:
    """The item can be viewed; editing and approving fail with the file and the line until it is fixed."""
    item = add_item(app, WRONG)
    anna = Reviewer(app)
    anna.ok("POST", f"/items/{item}/claim")
    file = tmp_path / "types" / "bill.yaml"
    right = file.read_text()
    file.write_text(f"{right}nonsense: [\n")
    assert anna.ok("GET", f"/items/{item}")["issues"] == []
    for method, path, body in (
        ("POST", "approve", {}), ("PATCH", "fields", {"fields": {"vendor": {"action": "confirm"}}}),
        ("POST", "check", {"fields": {"total": "1"}}),
    ):  # fmt: skip
        error = problem(anna(method, f"/items/{item}/{path}", body), 409, "type_broken")
        assert error["file"] == "bill.yaml"
        assert f"bill.yaml, line {error['line']}" in error["detail"]
        assert str(tmp_path) not in str(error)
    file.write_text(right)
    problem(anna("POST", f"/items/{item}/approve", {}), 422, "review_gated")


def test_an_outdated_version_is_refused(app: Live) -> None:
    """The first save wins; the second gets the differences and changes nothing."""
    item = add_item(app)
    anna, tab = Reviewer(app), Reviewer(app)
    anna.ok("POST", f"/items/{item}/claim")
    tab.ok("GET", f"/items/{item}")
    anna.ok("PATCH", f"/items/{item}/fields", {"fields": {"vendor": {"action": "correct", "value": "Acme Ltd"}}})
    stale = tab("PATCH", f"/items/{item}/fields", {"fields": {"vendor": {"action": "correct", "value": "X"}}})
    error = problem(stale, 409, "version_conflict")
    assert error["current"]["version"] == 2
    [(name, now)] = error["current"]["fields"].items()
    assert (name, now["value"], now["by"]) == ("vendor", "Acme Ltd", "key:reviewer")
    assert stale.headers["etag"] == '"2"'
    problem(tab("POST", f"/items/{item}/approve", {}), 409, "version_conflict")
    assert field(tab.ok("GET", f"/items/{item}"), "vendor")["value"] == "Acme Ltd"
    tab.ok("POST", f"/items/{item}/approve")


def test_a_version_is_required(app: Live) -> None:
    """428 without, 422 with an invalid one."""
    item = add_item(app)
    body = {"fields": {"vendor": {"action": "confirm"}}}
    for method, path, sent in (("PATCH", "fields", body), ("POST", "approve", {})):
        address = f"/api/review/items/{item}/{path}"
        problem(app.ask(method, address, json=sent), 428, "version_missing")
        for wrong in ("1", "*", '"x"', '"1", "2"'):
            problem(app.ask(method, address, json=sent, headers={"If-Match": wrong}), 422, "value_invalid")


def test_only_the_holder_changes_an_item(app: Live) -> None:
    """409 naming the holder, for every change."""
    item = add_item(app)
    anna, boss = Reviewer(app), Reviewer(app, "operator")
    anna.ok("POST", f"/items/{item}/claim")
    held = problem(boss("POST", f"/items/{item}/claim", {}), 409, "item_held")
    assert held["holder"] == "key:reviewer"
    assert held["until"]
    boss.ok("GET", f"/items/{item}")
    for method, path, body in (
        ("PATCH", "fields", {"fields": {"vendor": {"action": "confirm"}}}), ("POST", "approve", {}),
        ("POST", "renew", None), ("POST", "release", None), ("POST", "postpone", {"seconds": 60}),
        ("POST", "reject", {"code": "unreadable"}), ("PUT", "draft", {"fields": {}}),
    ):  # fmt: skip
        assert problem(boss(method, f"/items/{item}/{path}", body), 409, "not_held")["holder"] == "key:reviewer"
    taken = boss.ok("POST", f"/items/{item}/claim", {"takeover": True})
    assert taken["claim"] == {"mine": True, "holder": "key:operator", "until": taken["claim"]["until"]}
    problem(anna("POST", f"/items/{item}/renew"), 409, "not_held")
    problem(anna("POST", f"/items/{item}/claim", {"takeover": True}), 403, "role_required")


def test_releasing_and_passing_on(app: Live) -> None:
    """Released, postponed, escalated, assigned, reopened; each with its answer."""
    item = add_item(app)
    app.store("prod", lambda store: put_user(store, "zoe"))
    anna, boss = Reviewer(app), Reviewer(app, "operator")
    anna.ok("POST", f"/items/{item}/claim")
    assert anna.ok("POST", f"/items/{item}/renew")["until"]
    anna.ok("POST", f"/items/{item}/release", status=204)
    anna.ok("POST", "/claim")
    anna.ok("POST", f"/items/{item}/postpone", {"seconds": 60, "reason": "lunch"}, 204)
    anna.ok("POST", "/claim", status=204)
    assert anna.ok("GET", f"/items/{item}")["postponed_until"]
    anna.ok("POST", f"/items/{item}/claim")
    anna.ok("POST", f"/items/{item}/escalate", {"reason": "forged?"}, 204)
    assert anna.ok("GET", f"/items/{item}")["escalated"]["why"] == "forged?"
    problem(anna("POST", f"/items/{item}/claim"), 409, "item_escalated")
    problem(anna("POST", f"/items/{item}/assign", {"to": "zoe", "reason": "x"}), 403, "role_required")
    refused = problem(boss("POST", f"/items/{item}/assign", {"to": "nobody", "reason": "x"}), 422, "value_invalid")
    assert refused["field"] == "/to"
    boss.ok("POST", f"/items/{item}/assign", {"to": "zoe", "reason": "she knows"}, 204)
    assert problem(anna("POST", f"/items/{item}/claim"), 409, "item_assigned")["assigned_to"] == "zoe"
    assert [one["id"] for one in boss.ok("GET", "/items?assigned=zoe")["items"]] == [item]
    assert boss.ok("GET", "/items?assigned=none")["items"] == []
    boss.ok("POST", f"/items/{item}/claim", {"takeover": True})
    problem(boss("POST", f"/items/{item}/reject", {"code": "ugly"}), 422, "value_invalid")
    problem(boss("POST", f"/items/{item}/reject", {"code": "other"}), 422, "value_invalid")
    problem(boss("POST", f"/items/{item}/reopen", {"reason": "x"}), 409, "item_open")
    ended = boss.ok("POST", f"/items/{item}/reject", {"code": "unreadable", "reason": "page 2 is black"})
    assert (ended["item"]["status"], ended["item"]["reason"]) == ("rejected", "unreadable: page 2 is black")
    rejection = ended["item"]["rejection"]
    assert (rejection["code"], rejection["note"]) == ("unreadable", "page 2 is black")
    assert rejection["translatable"] == {"text": {"code": "rejection.unreadable", "params": {}}}
    last = boss.ok("GET", f"/items/{item}/history")["entries"][-1]
    assert (last["reason"], last["more"]["code"]) == ("unreadable: page 2 is black", "unreadable")
    assert [one["id"] for one in boss.ok("GET", "/items?status=rejected")["items"]] == [item]
    reopened = boss.ok("POST", f"/items/{item}/reopen", {"reason": "found a better scan"})
    assert (reopened["status"], reopened["reviewer"], reopened["reason"]) == ("pending", None, None)


def test_a_paused_queue_and_too_many_claims_are_reported(app: Live) -> None:
    """409 with the reason, or with the held items; an approval that requests the next item still succeeds."""
    item, _ = add_item(app), [add_item(app) for _ in range(claims.HELD)]
    anna, boss = Reviewer(app), Reviewer(app, "operator")
    app.ask("POST", "/api/queues/review/pause", key=boss.key, json={"reason": "audit"})
    error = problem(anna("POST", "/claim", {}), 409, "queue_paused")
    assert (error["reason"], "audit" in error["detail"]) == ("audit", True)
    problem(anna("POST", f"/items/{item}/claim", {}), 409, "queue_paused")
    app.ask("POST", "/api/queues/review/resume", key=boss.key, json={})
    held = [anna.ok("POST", "/claim")["id"] for _ in range(claims.HELD)]
    assert problem(anna("POST", "/claim", {}), 409, "too_many_held")["items"] == sorted(held)
    app.ask("POST", "/api/queues/review/pause", key=boss.key, json={})
    ended = anna.ok("POST", f"/items/{held[-1]}/approve", {"next": True})
    assert (ended["item"]["status"], ended["next"]) == ("approved", None)
    assert "reason" not in problem(anna("POST", "/claim", {}), 409, "queue_paused")


def test_a_repeated_claim_returns_the_same_item(app: Live) -> None:
    """One Idempotency-Key gets one item, however often it is repeated; another key gets another."""
    for _ in range(3):
        add_item(app)
    key = app.key("reviewer")

    def claim(word: str, body: Any = None) -> Any:
        headers = {"Idempotency-Key": word}
        return app.ask("POST", "/api/review/claim", key=key, headers=headers, json=body or {})

    first, again, other = claim("one"), claim("one"), claim("two")
    assert (first.status_code, again.status_code) == (200, 200)
    assert first.json()["id"] == again.json()["id"] != other.json()["id"]
    assert again.headers["idempotency-replayed"] == "true"
    problem(claim("one", {"type": "bill"}), 409, "idempotency_mismatch")
    assert claim("three").status_code == 200
    assert claim("four").status_code == 204
    add_item(app)
    assert claim("four").status_code == 200


def test_invalid_values_are_rejected(app: Live) -> None:
    """Each is named with what to do; nothing of the same request is saved."""
    item = add_item(app)
    anna = Reviewer(app)
    anna.ok("POST", f"/items/{item}/claim")
    refused = anna("PATCH", f"/items/{item}/fields", {"fields": {
        "vendor": {"action": "correct", "value": "New"}, "date": {"action": "correct", "value": "31/02/2024"},
        "nothing": {"action": "confirm"}, "paid": {"action": "confirm"},
        "lines": {"action": "correct", "value": [{"amount": "1"}, {"amount": "x"}]},
    }})  # fmt: skip
    error = problem(refused, 422, "value_invalid")
    assert [one["field"] for one in error["errors"]] == [
        "/fields/date", "/fields/nothing", "/fields/paid", "/fields/lines",
    ]  # fmt: skip
    assert "YYYY-MM-DD" in error["errors"][0]["detail"]
    assert "lines[1].amount" in error["errors"][3]["detail"]
    whole = anna.ok("GET", f"/items/{item}")
    assert (field(whole, "vendor")["value"], whole["version"]) == ("ACME", 1)


@pytest.mark.parametrize(
    "change",
    [
        {"action": "correct", "value": "x", "page": 99},
        {"action": "correct", "value": "x", "page": 1, "box": [0.9, 0.9, 0.1, 0.1]},
        {"action": "correct", "value": "x", "box": [0.1, 0.1, 0.2, 0.2]},
        {"action": "correct", "value": "x", "quote": "x"},
        {"action": "confirm", "value": "x"},
        {"action": "absent", "value": "x"},
        {"action": "unlock", "page": 1},
        {"action": "correct", "value": True},
    ],
)
def test_an_impossible_or_ignored_change_is_rejected(app: Live, change: Any) -> None:
    """The error names the field, and nothing is saved."""
    item = add_item(app)
    anna = Reviewer(app)
    anna.ok("POST", f"/items/{item}/claim")
    error = problem(anna("PATCH", f"/items/{item}/fields", {"fields": {"vendor": change}}), 422, "value_invalid")
    assert error["field"] == "/fields/vendor"
    assert anna.ok("GET", f"/items/{item}")["version"] == 1


def test_errors_say_what_to_do(app: Live) -> None:
    """A blank reason, an unknown field, an impossible version and a held item each come with a fix."""
    item = add_item(app, VALUES | {"lines": [{"description": "bolt", "amount": None}]})
    app.store("prod", lambda store: put_user(store, "zoe"))
    anna, boss = Reviewer(app), Reviewer(app, "operator")
    anna.ok("POST", f"/items/{item}/claim")
    problem(anna("POST", f"/items/{item}/escalate", {"reason": "   "}), 422, "value_invalid")
    body = {"fields": {"vendor_name": {"action": "confirm"}}}
    error = problem(anna("PATCH", f"/items/{item}/fields", body), 422, "value_invalid")
    assert "known: vendor, date" in error["detail"]
    assert error["fix"] == "use an existing field name"
    never = problem(anna("PATCH", f"/items/{item}/fields", body, tag='"999"'), 422, "value_invalid")
    assert never["field"] == "/If-Match"
    unknown = problem(anna("POST", f"/items/{item}/postpone", {"seconds": 5, "until": 3}), 422, "value_unknown")
    assert unknown["fix"] == "remove it; known fields: seconds, reason"
    held = problem(boss("POST", f"/items/{item}/claim", {}), 409, "item_held")
    assert "takeover" in held["fix"]
    anna.ok("POST", f"/items/{item}/release", status=204)
    boss.ok("POST", f"/items/{item}/assign", {"to": "zoe"}, 204)
    assert problem(boss("POST", f"/items/{item}/claim", {}), 409, "item_assigned")["fix"] == (
        'claim it with {"takeover": true}'
    )
    assert problem(anna("POST", f"/items/{item}/claim", {}), 409, "item_assigned")["fix"] == "claim another item"


def test_a_draft_belongs_to_its_author(app: Live) -> None:
    """It is returned to its author only, and deleted with the approval."""
    item = add_item(app)
    anna, boss = Reviewer(app), Reviewer(app, "operator")
    anna.ok("POST", f"/items/{item}/claim")
    anna.ok("PUT", f"/items/{item}/draft", {"fields": {"total": "12"}, "cursor": {"field": "total"}}, 204)
    whole = anna.ok("GET", f"/items/{item}")
    assert whole["draft"]["fields"] == {"total": "12"}
    assert whole["draft"]["cursor"] == {"field": "total"}
    assert whole["version"] == 1
    assert boss.ok("GET", f"/items/{item}")["draft"] is None
    problem(anna("PUT", f"/items/{item}/draft", {"fields": {"total": "x" * 200_001}}), 422, "value_invalid")
    anna.ok("POST", f"/items/{item}/approve")
    assert anna.ok("GET", f"/items/{item}")["draft"] is None


def test_lists_are_filtered_and_paged(app: Live) -> None:
    """By status, type, reason and name; cursors lead through the whole queue, each item once."""
    doubt = '[{"code": "low_confidence", "message": "m", "fields": ["total"], "confidence": 0.5}]'
    created = [add_item(app, name=f"b{n}_%.pdf", confidence=n / 10, reasons=doubt if n % 2 else "[]") for n in range(5)]
    other = add_item(app, type="deed", name="deed.pdf")
    anna = Reviewer(app)
    assert {one["id"] for one in anna.ok("GET", "/items?type=deed")["items"]} == {other}
    assert {one["id"] for one in anna.ok("GET", "/items?reason=low_confidence")["items"]} == {created[1], created[3]}
    assert {one["id"] for one in anna.ok("GET", "/items?q=3_%25.PDF")["items"]} == {created[3]}
    assert anna.ok("GET", "/items?status=approved")["items"] == []
    seen, cursor = [], ""
    while cursor is not None:
        page = anna.ok("GET", f"/items?limit=2{cursor and '&cursor=' + cursor}")
        seen += [one["id"] for one in page["items"]]
        cursor = page["next"]
    assert len(seen) == 6
    assert set(seen) == {*created, other}
    whole = anna.ok("GET", "/items?limit=200")["items"]
    assert [one["id"] for one in whole] == seen
    cursor = anna.ok("GET", "/items?limit=2")["next"]
    problem(anna("GET", f"/items?limit=2&status=pending&cursor={cursor}"), 422, "cursor_invalid")


def test_a_document_reprocessed_meanwhile(app: Live) -> None:
    """Nothing is lost and nothing is saved while it is read: the answer says why."""
    item = add_item(app)
    anna = Reviewer(app)
    anna.ok("POST", f"/items/{item}/claim")
    app.sql("UPDATE tabellion_documents SET status = 'processing'")
    for method, path, body in (
        ("PATCH", "fields", {"fields": {"vendor": {"action": "confirm"}}}), ("POST", "approve", {}),
    ):  # fmt: skip
        problem(anna(method, f"/items/{item}/{path}", body), 409, "document_running")
    app.sql("UPDATE tabellion_documents SET status = 'completed'")
    app.sql("UPDATE tabellion_review_items SET version = version + 1")
    stale = problem(anna("POST", f"/items/{item}/approve", {}), 409, "version_conflict")
    assert set(stale["current"]["fields"]) == set(VALUES)
    anna.ok("GET", f"/items/{item}")
    assert anna.ok("POST", f"/items/{item}/approve")["item"]["status"] == "approved"


def test_the_history_of_a_document_outlives_it(app: Live) -> None:
    """After a delete it still names who deleted it; an unknown document has no history."""
    item = add_item(app)
    anna = Reviewer(app)
    document = anna.ok("POST", f"/items/{item}/claim", {})["document_id"]
    assert app.ask("DELETE", f"/api/documents/{document}").status_code == 204
    entries = app.get(f"/api/documents/{document}/history").json()["entries"]
    assert [one["action"] for one in entries] == ["claimed", "deleted"]
    problem(app.get(f"/api/documents/{'0' * 26}/history"), 404, "not_found")


def test_statistics_are_for_operators(app: Live) -> None:
    """As JSON and as CSV, per person and per field, between two times."""
    item = add_item(app)
    anna, boss = Reviewer(app), Reviewer(app, "operator")
    anna.ok("POST", f"/items/{item}/claim")
    anna.ok("POST", f"/items/{item}/approve", {"seconds": 8})
    problem(anna("GET", "/numbers"), 403, "role_required")
    error = boss.ok("GET", "/numbers")
    assert [(one["name"], one["documents"]) for one in error["people"]] == [("key:reviewer", 1)]
    assert boss.ok("GET", "/numbers?until=2020-01-01&since=2019-01-01")["totals"]["documents"] == 0
    problem(boss("GET", "/numbers?since=2024-02-01&until=2024-01-01"), 422, "value_invalid")
    sheet = boss("GET", "/numbers.csv")
    assert sheet.headers["content-type"] == "text/csv; charset=utf-8"
    assert sheet.text.splitlines()[1].startswith("key:reviewer,1,1,0,0,8.0,")
    assert boss("GET", "/numbers.csv?per=field").text.startswith("field,seen,corrected,share")


def test_events_of_the_queue(app: Live) -> None:
    """The number of items, at once, and again after each action."""
    item = add_item(app)
    anna = Reviewer(app)
    with listening(app, "/api/review/events", Authorization=f"Bearer {anna.key}") as stream:
        assert next(stream) == {"retry": "2000"}
        first = next(stream)
        assert (first["event"], data(first)["counts"]["pending"]) == ("review", 1)
        anna.ok("POST", f"/items/{item}/claim")
        assert data(next(stream))["counts"] == {
            "pending": 0, "in_review": 1, "mine": 1, "overdue": 0, "escalated": 0, "done_today": 0,
        }  # fmt: skip
        anna.ok("POST", f"/items/{item}/approve", {})
        assert data(next(stream))["counts"]["done_today"] == 1


def test_approval_asks_once_about_unchecked_fields(app: Live) -> None:
    """409 with the fields; the second request confirms that they are approved as they are."""
    item = add_item(app, field_confidence=0.3)
    anna = Reviewer(app)
    anna.ok("POST", f"/items/{item}/claim", {})
    anna.ok("PATCH", f"/items/{item}/fields", {"fields": {"total": {"action": "confirm"}}})
    asked = problem(anna("POST", f"/items/{item}/approve", {"seconds": 1}), 409, "fields_unseen")
    assert [one["name"] for one in asked["fields"]] == ["vendor", "date", "currency", "subtotal", "tax", "lines"]
    assert asked["fields"][0] == {
        "name": "vendor", "label": "Vendor", "value": "ACME", "confidence": 0.3, "threshold": 0.8,
    }  # fmt: skip
    ended = anna.ok("POST", f"/items/{item}/approve", {"seconds": 1, "unseen": True})
    assert ended["item"]["status"] == "approved"


def test_a_document_without_a_type_is_assigned_one_and_not_approved(app: Live) -> None:
    """Its holder names the type; it is queued to be read as such, and the claim stays."""
    item = add_item(app, {}, type=None)
    anna = Reviewer(app)
    problem(anna("POST", f"/items/{item}/type", {"type": "bill"}), 409, "not_held")
    whole = anna.ok("POST", f"/items/{item}/claim", {})
    problem(anna("POST", f"/items/{item}/approve", {"unseen": True}), 422, "type_missing")
    problem(anna("POST", f"/items/{item}/type", {"type": "nothing"}), 422, "value_invalid")
    error = anna.ok("POST", f"/items/{item}/type", {"type": "bill"}, 202)
    assert error["id"] == whole["document_id"]
    after = anna.ok("GET", f"/items/{item}")
    assert (after["document"]["status"], after["claim"]["mine"]) == ("queued", True)
    document = app.get(f"/api/documents/{whole['document_id']}").json()
    assert document["asked_type"] == "bill"
    entries = app.get(f"/api/documents/{whole['document_id']}/history").json()["entries"]
    assert (entries[-1]["action"], entries[-1]["actor"], entries[-1]["more"]["type"]) == (
        "reprocessed", "key:reviewer", "bill",
    )  # fmt: skip
