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
def desk(tmp_path: Path, url: str) -> Iterator[Live]:
    """An application with a document type of the tests' own."""
    folder = tmp_path / "types"
    folder.mkdir()
    (folder / "bill.yaml").write_text(f"{TEXT}\ninstructions: Look at the stamp.\n")
    with live(tmp_path, {"prod": url}, types=(str(folder),)) as one:
        yield one


class Reviewer:
    """Somebody with a key, and what they last saw of an item."""

    def __init__(self, web: Live, role: str = "reviewer") -> None:
        self.web, self.key = web, web.key(role)
        self.name = f"key:{role}"
        self.tag = ""

    def __call__(self, method: str, path: str, body: Any = None, *, tag: str | None = None) -> Any:
        """One request below /api/review; the version is that of the last answer."""
        headers = {"If-Match": tag or self.tag} if method == "PATCH" or path.endswith("/approve") else {}
        answer = self.web.ask(method, f"/api/review{path}", key=self.key, headers=headers, json=body)
        self.tag = answer.headers.get("etag", self.tag) if answer.status_code < 400 else self.tag
        return answer

    def ok(self, method: str, path: str, body: Any = None, status: int = 200) -> Any:
        """One that must succeed; what it says."""
        answer = self(method, path, body)
        assert answer.status_code == status, answer.text
        return answer.json() if answer.content else None


def waiting(web: Live, *args: Any, **columns: Any) -> str:
    """An item that waits."""
    return web.store("prod", lambda store: put(store, *args, **columns))


def field(whole: Any, name: str) -> Any:
    """One field of an item."""
    return next(one for one in whole["fields"] if one["name"] == name)


def test_from_the_queue_to_the_end(desk: Live) -> None:
    """Listed, claimed, checked, corrected and approved; the trail has all of it."""
    item = waiting(desk, WRONG)
    anna = Reviewer(desk)
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
    assert entries == desk.get(f"/api/documents/{whole['document_id']}/history").json()["entries"]
    assert desk.store("prod", audit.verify).whole
    assert desk.sql("SELECT chore FROM tabellion_documents") == [{"chore": "rewrite"}]
    problem(anna("PATCH", f"/items/{item}/fields", {"fields": {"tax": {"action": "confirm"}}}), 409, "item_closed")


def test_a_mistake_in_the_type_file_opens_no_gate(desk: Live, tmp_path: Path) -> None:
    """It can be looked at; whoever judges, edits or approves is told the file and the line, until it is mended."""
    item = waiting(desk, WRONG)
    anna = Reviewer(desk)
    anna.ok("POST", f"/items/{item}/claim")
    file = tmp_path / "types" / "bill.yaml"
    right = file.read_text()
    file.write_text(f"{right}nonsense: [\n")
    assert anna.ok("GET", f"/items/{item}")["issues"] == []
    for method, path, body in (
        ("POST", "approve", {}), ("PATCH", "fields", {"fields": {"vendor": {"action": "confirm"}}}),
        ("POST", "check", {"fields": {"total": "1"}}),
    ):  # fmt: skip
        told = problem(anna(method, f"/items/{item}/{path}", body), 409, "type_broken")
        assert told["file"] == "bill.yaml"
        assert f"bill.yaml, line {told['line']}" in told["detail"]
        assert str(tmp_path) not in str(told)
    file.write_text(right)
    problem(anna("POST", f"/items/{item}/approve", {}), 422, "review_gated")


def test_two_versions_of_one_item(desk: Live) -> None:
    """Who saved first has saved; who comes second is told what differs and has changed nothing."""
    item = waiting(desk)
    anna, tab = Reviewer(desk), Reviewer(desk)
    anna.ok("POST", f"/items/{item}/claim")
    tab.ok("GET", f"/items/{item}")
    anna.ok("PATCH", f"/items/{item}/fields", {"fields": {"vendor": {"action": "correct", "value": "Acme Ltd"}}})
    stale = tab("PATCH", f"/items/{item}/fields", {"fields": {"vendor": {"action": "correct", "value": "X"}}})
    told = problem(stale, 409, "version_conflict")
    assert told["current"]["version"] == 2
    [(name, now)] = told["current"]["fields"].items()
    assert (name, now["value"], now["by"]) == ("vendor", "Acme Ltd", "key:reviewer")
    assert stale.headers["etag"] == '"2"'
    problem(tab("POST", f"/items/{item}/approve", {}), 409, "version_conflict")
    assert field(tab.ok("GET", f"/items/{item}"), "vendor")["value"] == "Acme Ltd"
    tab.ok("POST", f"/items/{item}/approve")


def test_versions_must_be_said(desk: Live) -> None:
    """428 without, 422 with something else."""
    item = waiting(desk)
    body = {"fields": {"vendor": {"action": "confirm"}}}
    for method, path, sent in (("PATCH", "fields", body), ("POST", "approve", {})):
        address = f"/api/review/items/{item}/{path}"
        problem(desk.ask(method, address, json=sent), 428, "version_missing")
        for wrong in ("1", "*", '"x"', '"1", "2"'):
            problem(desk.ask(method, address, json=sent, headers={"If-Match": wrong}), 422, "value_invalid")


def test_who_does_not_hold_it_changes_nothing(desk: Live) -> None:
    """409 that says whose it is, for every change."""
    item = waiting(desk)
    anna, boss = Reviewer(desk), Reviewer(desk, "operator")
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


def test_giving_back_and_handing_on(desk: Live) -> None:
    """Released, postponed, escalated, assigned, reopened; each with its answer."""
    item = waiting(desk)
    desk.store("prod", lambda store: put_user(store, "zoe"))
    anna, boss = Reviewer(desk), Reviewer(desk, "operator")
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
    assert [one["id"] for one in boss.ok("GET", "/items?status=rejected")["items"]] == [item]
    reopened = boss.ok("POST", f"/items/{item}/reopen", {"reason": "found a better scan"})
    assert (reopened["status"], reopened["reviewer"], reopened["reason"]) == ("pending", None, None)


def test_a_pause_and_full_hands_are_told(desk: Live) -> None:
    """409 with the reason, or with what is held; an approval that asks for the next one is an approval all the same."""
    item, _ = waiting(desk), [waiting(desk) for _ in range(claims.HELD)]
    anna, boss = Reviewer(desk), Reviewer(desk, "operator")
    desk.ask("POST", "/api/queues/review/pause", key=boss.key, json={"reason": "audit"})
    told = problem(anna("POST", "/claim", {}), 409, "queue_paused")
    assert (told["reason"], "audit" in told["detail"]) == ("audit", True)
    problem(anna("POST", f"/items/{item}/claim", {}), 409, "queue_paused")
    desk.ask("POST", "/api/queues/review/resume", key=boss.key, json={})
    held = [anna.ok("POST", "/claim")["id"] for _ in range(claims.HELD)]
    assert problem(anna("POST", "/claim", {}), 409, "too_many_held")["items"] == sorted(held)
    desk.ask("POST", "/api/queues/review/pause", key=boss.key, json={})
    ended = anna.ok("POST", f"/items/{held[-1]}/approve", {"next": True})
    assert (ended["item"]["status"], ended["next"]) == ("approved", None)
    assert "reason" not in problem(anna("POST", "/claim", {}), 409, "queue_paused")


def test_a_claim_that_is_asked_again(desk: Live) -> None:
    """Under one Idempotency-Key there is one item, however often it is asked for; another key gives another."""
    for _ in range(3):
        waiting(desk)
    key = desk.key("reviewer")

    def claim(word: str, body: Any = None) -> Any:
        headers = {"Idempotency-Key": word}
        return desk.ask("POST", "/api/review/claim", key=key, headers=headers, json=body or {})

    first, again, other = claim("one"), claim("one"), claim("two")
    assert (first.status_code, again.status_code) == (200, 200)
    assert first.json()["id"] == again.json()["id"] != other.json()["id"]
    assert again.headers["idempotency-replayed"] == "true"
    problem(claim("one", {"type": "bill"}), 409, "idempotency_mismatch")
    assert claim("three").status_code == 200
    assert claim("four").status_code == 204
    waiting(desk)
    assert claim("four").status_code == 200


def test_values_that_do_not_fit(desk: Live) -> None:
    """Each is named with what to do; nothing of the same request is kept."""
    item = waiting(desk)
    anna = Reviewer(desk)
    anna.ok("POST", f"/items/{item}/claim")
    refused = anna("PATCH", f"/items/{item}/fields", {"fields": {
        "vendor": {"action": "correct", "value": "New"}, "date": {"action": "correct", "value": "31/02/2024"},
        "nothing": {"action": "confirm"}, "paid": {"action": "confirm"},
        "lines": {"action": "correct", "value": [{"amount": "1"}, {"amount": "x"}]},
    }})  # fmt: skip
    told = problem(refused, 422, "value_invalid")
    assert [one["field"] for one in told["errors"]] == [
        "/fields/date", "/fields/nothing", "/fields/paid", "/fields/lines",
    ]  # fmt: skip
    assert "YYYY-MM-DD" in told["errors"][0]["detail"]
    assert "lines[1].amount" in told["errors"][3]["detail"]
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
def test_nothing_is_left_out_without_a_word(desk: Live, change: Any) -> None:
    """What cannot be, or would be dropped, is refused with its place."""
    item = waiting(desk)
    anna = Reviewer(desk)
    anna.ok("POST", f"/items/{item}/claim")
    told = problem(anna("PATCH", f"/items/{item}/fields", {"fields": {"vendor": change}}), 422, "value_invalid")
    assert told["field"] == "/fields/vendor"
    assert anna.ok("GET", f"/items/{item}")["version"] == 1


def test_what_is_said_helps(desk: Live) -> None:
    """Blanks are no reason, names are those there are, a version that never was is no conflict, helpers are told."""
    item = waiting(desk, VALUES | {"lines": [{"description": "bolt", "amount": None}]})
    desk.store("prod", lambda store: put_user(store, "zoe"))
    anna, boss = Reviewer(desk), Reviewer(desk, "operator")
    anna.ok("POST", f"/items/{item}/claim")
    problem(anna("POST", f"/items/{item}/escalate", {"reason": "   "}), 422, "value_invalid")
    body = {"fields": {"vendor_name": {"action": "confirm"}}}
    told = problem(anna("PATCH", f"/items/{item}/fields", body), 422, "value_invalid")
    assert "known: vendor, date" in told["detail"]
    assert told["fix"] == "use an existing field name"
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


def test_a_draft_is_its_writers(desk: Live) -> None:
    """It comes back to whoever typed it, to nobody else, and is gone with the end."""
    item = waiting(desk)
    anna, boss = Reviewer(desk), Reviewer(desk, "operator")
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


def test_lists_are_narrowed_and_paged(desk: Live) -> None:
    """By status, type, doubt and name; cursors lead through the whole queue, each item once."""
    doubt = '[{"code": "low_confidence", "message": "m", "fields": ["total"], "confidence": 0.5}]'
    made = [waiting(desk, name=f"b{n}_%.pdf", confidence=n / 10, reasons=doubt if n % 2 else "[]") for n in range(5)]
    other = waiting(desk, type="deed", name="deed.pdf")
    anna = Reviewer(desk)
    assert {one["id"] for one in anna.ok("GET", "/items?type=deed")["items"]} == {other}
    assert {one["id"] for one in anna.ok("GET", "/items?reason=low_confidence")["items"]} == {made[1], made[3]}
    assert {one["id"] for one in anna.ok("GET", "/items?q=3_%25.PDF")["items"]} == {made[3]}
    assert anna.ok("GET", "/items?status=approved")["items"] == []
    seen, cursor = [], ""
    while cursor is not None:
        page = anna.ok("GET", f"/items?limit=2{cursor and '&cursor=' + cursor}")
        seen += [one["id"] for one in page["items"]]
        cursor = page["next"]
    assert len(seen) == 6
    assert set(seen) == {*made, other}
    whole = anna.ok("GET", "/items?limit=200")["items"]
    assert [one["id"] for one in whole] == seen
    cursor = anna.ok("GET", "/items?limit=2")["next"]
    problem(anna("GET", f"/items?limit=2&status=pending&cursor={cursor}"), 422, "cursor_invalid")


def test_a_document_that_is_read_again_meanwhile(desk: Live) -> None:
    """Nothing is lost and nothing is written while it lasts: the answer says why."""
    item = waiting(desk)
    anna = Reviewer(desk)
    anna.ok("POST", f"/items/{item}/claim")
    desk.sql("UPDATE tabellion_documents SET status = 'processing'")
    for method, path, body in (
        ("PATCH", "fields", {"fields": {"vendor": {"action": "confirm"}}}), ("POST", "approve", {}),
    ):  # fmt: skip
        problem(anna(method, f"/items/{item}/{path}", body), 409, "document_running")
    desk.sql("UPDATE tabellion_documents SET status = 'completed'")
    desk.sql("UPDATE tabellion_review_items SET version = version + 1")
    stale = problem(anna("POST", f"/items/{item}/approve", {}), 409, "version_conflict")
    assert set(stale["current"]["fields"]) == set(VALUES)
    anna.ok("GET", f"/items/{item}")
    assert anna.ok("POST", f"/items/{item}/approve")["item"]["status"] == "approved"


def test_the_trail_of_a_document_outlasts_it(desk: Live) -> None:
    """Deleted while somebody had it: who did so can still be asked; of what never was there is nothing to tell."""
    item = waiting(desk)
    anna = Reviewer(desk)
    document = anna.ok("POST", f"/items/{item}/claim", {})["document_id"]
    assert desk.ask("DELETE", f"/api/documents/{document}").status_code == 204
    entries = desk.get(f"/api/documents/{document}/history").json()["entries"]
    assert [one["action"] for one in entries] == ["claimed", "deleted"]
    problem(desk.get(f"/api/documents/{'0' * 26}/history"), 404, "not_found")


def test_numbers_are_for_operators(desk: Live) -> None:
    """As JSON and as CSV, per person and per field, between two times."""
    item = waiting(desk)
    anna, boss = Reviewer(desk), Reviewer(desk, "operator")
    anna.ok("POST", f"/items/{item}/claim")
    anna.ok("POST", f"/items/{item}/approve", {"seconds": 8})
    problem(anna("GET", "/numbers"), 403, "role_required")
    told = boss.ok("GET", "/numbers")
    assert [(one["name"], one["documents"]) for one in told["people"]] == [("key:reviewer", 1)]
    assert boss.ok("GET", "/numbers?until=2020-01-01&since=2019-01-01")["totals"]["documents"] == 0
    problem(boss("GET", "/numbers?since=2024-02-01&until=2024-01-01"), 422, "value_invalid")
    sheet = boss("GET", "/numbers.csv")
    assert sheet.headers["content-type"] == "text/csv; charset=utf-8"
    assert sheet.text.splitlines()[1].startswith("key:reviewer,1,1,0,0,8.0,")
    assert boss("GET", "/numbers.csv?per=field").text.startswith("field,seen,corrected,share")


def test_news_of_the_queue(desk: Live) -> None:
    """How many there are, at once, and again when somebody has done something."""
    item = waiting(desk)
    anna = Reviewer(desk)
    with listening(desk, "/api/review/events", Authorization=f"Bearer {anna.key}") as stream:
        assert next(stream) == {"retry": "2000"}
        first = next(stream)
        assert (first["event"], data(first)["counts"]["pending"]) == ("review", 1)
        anna.ok("POST", f"/items/{item}/claim")
        assert data(next(stream))["counts"] == {
            "pending": 0, "in_review": 1, "mine": 1, "overdue": 0, "escalated": 0, "done_today": 0,
        }  # fmt: skip
        anna.ok("POST", f"/items/{item}/approve", {})
        assert data(next(stream))["counts"]["done_today"] == 1


def test_approval_asks_once_about_what_nobody_looked_at(desk: Live) -> None:
    """409 with the fields; the second request says that they are approved as they are."""
    item = waiting(desk, field_confidence=0.3)
    anna = Reviewer(desk)
    anna.ok("POST", f"/items/{item}/claim", {})
    anna.ok("PATCH", f"/items/{item}/fields", {"fields": {"total": {"action": "confirm"}}})
    asked = problem(anna("POST", f"/items/{item}/approve", {"seconds": 1}), 409, "fields_unseen")
    assert [one["name"] for one in asked["fields"]] == ["vendor", "date", "currency", "subtotal", "tax", "lines"]
    assert asked["fields"][0] == {
        "name": "vendor", "label": "Vendor", "value": "ACME", "confidence": 0.3, "threshold": 0.8,
    }  # fmt: skip
    ended = anna.ok("POST", f"/items/{item}/approve", {"seconds": 1, "unseen": True})
    assert ended["item"]["status"] == "approved"


def test_a_document_without_a_type_is_given_one_and_not_approved(desk: Live) -> None:
    """Its holder says what it is; it is queued to be read as that, and the item stays theirs."""
    item = waiting(desk, {}, type=None)
    anna = Reviewer(desk)
    problem(anna("POST", f"/items/{item}/type", {"type": "bill"}), 409, "not_held")
    whole = anna.ok("POST", f"/items/{item}/claim", {})
    problem(anna("POST", f"/items/{item}/approve", {"unseen": True}), 422, "type_missing")
    problem(anna("POST", f"/items/{item}/type", {"type": "nothing"}), 422, "value_invalid")
    told = anna.ok("POST", f"/items/{item}/type", {"type": "bill"}, 202)
    assert told["id"] == whole["document_id"]
    after = anna.ok("GET", f"/items/{item}")
    assert (after["document"]["status"], after["claim"]["mine"]) == ("queued", True)
    document = desk.get(f"/api/documents/{whole['document_id']}").json()
    assert document["asked_type"] == "bill"
    entries = desk.get(f"/api/documents/{whole['document_id']}/history").json()["entries"]
    assert (entries[-1]["action"], entries[-1]["actor"], entries[-1]["more"]["type"]) == (
        "reprocessed", "key:reviewer", "bill",
    )  # fmt: skip
