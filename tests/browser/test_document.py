"""A document's page: its history, the confidence of its values, and live updates."""

from __future__ import annotations

import contextlib
import re
import sqlite3
import time
from datetime import UTC, datetime

from playwright.sync_api import Browser, Route, expect

from tests.browser.installation import Installation, Visitor


def reject(installation: Installation, item: dict[str, str]) -> None:
    """Reject the document as another user."""
    installation.api("POST", f"/api/review/items/{item['id']}/assign", {"to": None, "reason": "for whoever comes"})
    installation.api("POST", f"/api/review/items/{item['id']}/claim")
    installation.api("POST", f"/api/review/items/{item['id']}/reject", {"code": "unreadable", "reason": "coffee"})


def test_a_review_elsewhere_is_shown_at_once(visitor: Visitor) -> None:
    """The page says so, and no longer offers the review as work."""
    item = visitor.installation.add_doubtful()
    page = visitor.open(f"/documents/{item['document_id']}")
    expect(page.locator("#standing")).to_contain_text("waiting for review")
    page.locator("[data-field=total] .field-name").click()
    reject(visitor.installation, item)
    expect(page.locator("#standing")).to_contain_text("rejected by a person")
    expect(page.locator("#open-review")).to_have_text("Open the review")
    expect(page.locator("[data-field=total] .field-name")).to_be_focused()
    expect(page.locator("#leaf .spot.here")).to_be_visible()


def test_a_reprocessing_elsewhere_is_shown_at_once(visitor: Visitor) -> None:
    """Its second attempt appears by itself."""
    item = visitor.installation.add_doubtful()
    page = visitor.open(f"/documents/{item['document_id']}")
    expect(page.locator("#attempts tbody tr")).to_have_count(1)
    visitor.installation.api("POST", f"/api/documents/{item['document_id']}/reprocess", {})
    expect(page.locator("#attempts tbody tr")).to_have_count(2)


def test_no_picture_of_an_unreadable_file_is_requested(visitor: Visitor) -> None:
    """The page says why there is none, from what it knows already."""
    document = visitor.installation.documents["truncated.pdf"]
    requested: list[str] = []
    visitor.page.on("request", lambda request: requested.append(request.url))
    page = visitor.open(f"/documents/{document}")
    expect(page.locator("#leaf")).to_contain_text("This page cannot be displayed")
    expect(page.locator("#leaf a.button")).to_be_visible()
    assert [url for url in requested if "/pages/" in url] == []


def test_the_next_attempt_is_announced(visitor: Visitor) -> None:
    """Beside the newest attempt of a waiting document; when an earlier one was due is not shown."""
    document = visitor.installation.add_doubtful()["document_id"]
    due = time.time() + 7200
    with (
        contextlib.closing(sqlite3.connect(visitor.installation.service.data / "tabellion.db", timeout=30)) as base,
        base,
    ):
        base.execute(
            "UPDATE tabellion_attempts SET n = 2, outcome = 'retried', retry_at = ? WHERE key = ?", [due, document]
        )
        base.execute(
            """INSERT INTO tabellion_attempts (queue, key, n, token, attempt, crashes, deferrals, worker, first_at,
  claimed_at, lease_until, settled_at, outcome, retry_at) SELECT queue, key, 1, 'former', attempt, crashes, deferrals,
  worker, first_at, claimed_at - 60, lease_until, settled_at, outcome, claimed_at FROM tabellion_attempts
WHERE key = ?""",
            [document],
        )
        base.execute("UPDATE tabellion_documents SET status = 'queued' WHERE id = ?", [document])
    page = visitor.open(f"/documents/{document}")
    expect(page.locator("#attempts tbody tr")).to_have_count(2)
    at = datetime.fromtimestamp(due, UTC)
    announced = re.compile(rf"Next attempt: .*\b{at.hour % 12 or 12}:{at:%M}")
    expect(page.locator("#attempts tbody tr").first).to_contain_text(announced)
    expect(page.locator("#attempts")).not_to_contain_text(re.compile("Next attempt.*Next attempt", re.DOTALL))
    visitor.installation.api("DELETE", f"/api/documents/{document}")


def test_a_note_is_in_the_language_of_the_page(installation: Installation, chromium: Browser) -> None:
    """What a worker says while it reads the document is a message."""
    document = installation.add_doubtful()["document_id"]
    form = {"code": "progress.page", "params": {"n": 3, "total": 12}}

    def run(route: Route) -> None:
        answer = route.fetch()
        body = answer.json()
        running = {"outcome": None, "settled_at": None, "note": "page 3 of 12", "translatable": {"note": form}}
        body["attempts"][0] |= running
        route.fulfill(response=answer, json=body)

    with installation.visitor(chromium, locale="fr-FR") as one:
        one.page.route(f"**/api/documents/{document}/work", run)
        page = one.open(f"/documents/{document}")
        expect(page.locator("#attempts tbody tr")).to_contain_text("page 3 sur 12")
        # The page asks again at any time: the handler would fail when the page is closed.
        page.unroute_all(behavior="ignoreErrors")


def test_history_says_what_happened(installation: Installation, chromium: Browser) -> None:
    """Assignee, expired claims and rejection reasons, in sentences, on the page and in the drawer."""
    item = installation.add_doubtful()
    where = f"/api/review/items/{item['id']}"
    installation.api("POST", f"{where}/assign", {"to": None, "reason": "for whoever comes"})
    installation.api("POST", f"{where}/claim")
    whole = installation.api("GET", where)
    installation.api(
        "PATCH", f"{where}/fields", {"fields": {"invoice_date": {"action": "correct", "value": "2024-01-31"}}},
        **{"If-Match": f'"{whole["version"]}"'},
    )  # fmt: skip
    installation.api("POST", f"{where}/reject", {"code": "unreadable", "reason": "coffee"})
    with installation.visitor(chromium, locale="fr-FR") as one:
        page = one.open(f"/documents/{item['document_id']}")
        expect(page.locator("#history")).to_contain_text("Il est illisible: coffee")
        text = page.locator("#history").inner_text()
        assert "Date de facture" in text
        assert "2024-01-31" in text
        assert not re.search(r"in_review|pending|unreadable|invoice_date|∅", text), text
        page = one.open(f"/review/{item['id']}")
        expect(page.locator("#fields .slot").first).to_be_visible()
        page.keyboard.press("t")
        trail = page.locator("#drawer")
        expect(trail).to_contain_text("Il est illisible: coffee")
        expect(trail).to_contain_text("Date de facture")
        assert not re.search(r"unreadable|invoice_date", trail.inner_text())


def test_history_names_the_assignee(installation: Installation, chromium: Browser) -> None:
    """Assigned by the machine or by a person, the receiver is named."""
    installation.add_person("jonas", "reviewer", available=True)
    user = next(one for one in installation.api("GET", "/api/users")["users"] if one["name"] == "jonas")
    others = [
        one for one in installation.api("GET", "/api/users")["users"] if one["available"] and one["name"] != "jonas"
    ]
    for one in others:
        installation.api("PATCH", f"/api/users/{one['id']}", {"available": False})
    item = installation.add_doubtful()
    for one in [*others, user]:
        installation.api("PATCH", f"/api/users/{one['id']}", {"available": one is not user})
    assert item["assigned_to"] == "jonas"
    installation.api("POST", f"/api/review/items/{item['id']}/assign", {"to": "admin", "reason": "he is ill"})
    with installation.visitor(chromium) as one_visitor:
        page = one_visitor.open(f"/documents/{item['document_id']}")
        expect(page.locator("#history")).to_contain_text("tabellion assigned it to jonas")
        expect(page.locator("#history")).to_contain_text("assigned it to admin")
        expect(page.locator("#history")).not_to_contain_text("∅")
        page = one_visitor.open(f"/review/{item['id']}")
        expect(page.locator("#fields .slot").first).to_be_visible()
        page.keyboard.press("t")
        expect(page.locator("#drawer")).to_contain_text("assigned to jonas")
        expect(page.locator("#drawer")).to_contain_text("assigned to admin")


def test_confidence_is_shown_the_same_everywhere(visitor: Visitor) -> None:
    """And never rounded up to the threshold."""
    receipt = visitor.installation.documents["en-receipt-1.pdf"]
    fields = visitor.installation.api("GET", f"/api/documents/{receipt}")["fields"]
    page = visitor.open(f"/documents/{receipt}")
    expect(page.locator(".field-row .meter").first).to_be_visible()
    shown = {
        str(row.get_attribute("data-field")): row.locator(".meter").inner_text()
        for row in page.locator(".field-row").all()
        if row.locator(".meter").count()
    }  # fmt: skip
    assert shown
    for name, text in shown.items():
        assert text == f"{int(100 * fields[name]['confidence'] + 1e-6)} %", name
