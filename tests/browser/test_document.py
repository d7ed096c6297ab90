"""A document's own page: what happened to it, how sure its values are, and that it is true for as long as one looks."""

from __future__ import annotations

import contextlib
import re
import sqlite3
import time
from datetime import UTC, datetime

from playwright.sync_api import Browser, expect

from tests.browser.site import Site, Visitor


def rejected(site: Site, item: dict[str, str]) -> None:
    """Somebody else turns the document down."""
    site.api("POST", f"/api/review/items/{item['id']}/assign", {"to": None, "reason": "for whoever comes"})
    site.api("POST", f"/api/review/items/{item['id']}/claim")
    site.api("POST", f"/api/review/items/{item['id']}/reject", {"code": "unreadable", "reason": "coffee"})


def test_what_people_do_is_seen_at_once(visitor: Visitor) -> None:
    """A document that was read is reviewed elsewhere: the page says so, and offers the review no more as work."""
    item = visitor.site.doubtful()
    page = visitor.open(f"/documents/{item['document_id']}")
    expect(page.locator("#standing")).to_contain_text("waiting for review")
    page.locator("[data-field=total] .field-name").click()
    rejected(visitor.site, item)
    expect(page.locator("#standing")).to_contain_text("rejected by a person")
    expect(page.locator("#open-review")).to_have_text("Open the review")
    expect(page.locator("[data-field=total] .field-name")).to_be_focused()
    expect(page.locator("#leaf .spot.here")).to_be_visible()


def test_a_second_reading_is_seen_at_once(visitor: Visitor) -> None:
    """Somebody else has it read again: its second attempt appears by itself."""
    item = visitor.site.doubtful()
    page = visitor.open(f"/documents/{item['document_id']}")
    expect(page.locator("#attempts tbody tr")).to_have_count(1)
    visitor.site.api("POST", f"/api/documents/{item['document_id']}/reprocess", {})
    expect(page.locator("#attempts tbody tr")).to_have_count(2)


def test_the_next_attempt_is_announced(visitor: Visitor) -> None:
    """Of a document that waits for it, beside its newest attempt; when an earlier one was due is of no use."""
    document = visitor.site.doubtful()["document_id"]
    due = time.time() + 7200
    with contextlib.closing(sqlite3.connect(visitor.site.service.data / "tabellion.db", timeout=30)) as base, base:
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
    visitor.site.api("DELETE", f"/api/documents/{document}")


def test_history_says_what_happened(site: Site, chromium: Browser) -> None:
    """To whom it was given, whose claim ran out, why it was rejected; in sentences, on the page and in the drawer."""
    item = site.doubtful()
    where = f"/api/review/items/{item['id']}"
    site.api("POST", f"{where}/assign", {"to": None, "reason": "for whoever comes"})
    site.api("POST", f"{where}/claim")
    whole = site.api("GET", where)
    site.api("PATCH", f"{where}/fields", {"fields": {"invoice_date": {"action": "correct", "value": "2024-01-31"}}},
             **{"If-Match": f'"{whole["version"]}"'})  # fmt: skip
    site.api("POST", f"{where}/reject", {"code": "unreadable", "reason": "coffee"})
    with site.visitor(chromium, locale="fr-FR") as one:
        page = one.open(f"/documents/{item['document_id']}")
        expect(page.locator("#history")).to_contain_text("Il est illisible: coffee")
        said = page.locator("#history").inner_text()
        assert "Date de facture" in said
        assert "2024-01-31" in said
        assert not re.search(r"in_review|pending|unreadable|invoice_date|∅", said), said
        page = one.open(f"/review/{item['id']}")
        expect(page.locator("#fields .slot").first).to_be_visible()
        page.keyboard.press("t")
        trail = page.locator("#drawer")
        expect(trail).to_contain_text("Il est illisible: coffee")
        expect(trail).to_contain_text("Date de facture")
        assert not re.search(r"unreadable|invoice_date", trail.inner_text())


def test_history_says_to_whom_it_went(site: Site, chromium: Browser) -> None:
    """Given by the machine or by a person, it is the receiver who is named."""
    site.person("jonas", "reviewer", available=True)
    user = next(one for one in site.api("GET", "/api/users")["users"] if one["name"] == "jonas")
    others = [one for one in site.api("GET", "/api/users")["users"] if one["available"] and one["name"] != "jonas"]
    for one in others:
        site.api("PATCH", f"/api/users/{one['id']}", {"available": False})
    item = site.doubtful()
    for one in [*others, user]:
        site.api("PATCH", f"/api/users/{one['id']}", {"available": one is not user})
    assert item["assigned_to"] == "jonas"
    site.api("POST", f"/api/review/items/{item['id']}/assign", {"to": "admin", "reason": "he is ill"})
    with site.visitor(chromium) as one_visitor:
        page = one_visitor.open(f"/documents/{item['document_id']}")
        expect(page.locator("#history")).to_contain_text("tabellion assigned it to jonas")
        expect(page.locator("#history")).to_contain_text("assigned it to admin")
        expect(page.locator("#history")).not_to_contain_text("∅")
        page = one_visitor.open(f"/review/{item['id']}")
        expect(page.locator("#fields .slot").first).to_be_visible()
        page.keyboard.press("t")
        expect(page.locator("#drawer")).to_contain_text("assigned to jonas")
        expect(page.locator("#drawer")).to_contain_text("assigned to admin")


def test_how_sure_a_value_is_is_said_alike_everywhere(visitor: Visitor) -> None:
    """And never rounded up to what was wanted."""
    receipt = visitor.site.documents["en-receipt-1.pdf"]
    told = visitor.site.api("GET", f"/api/documents/{receipt}")["fields"]
    page = visitor.open(f"/documents/{receipt}")
    expect(page.locator(".field-row .meter").first).to_be_visible()
    shown = {
        str(row.get_attribute("data-field")): row.locator(".meter").inner_text()
        for row in page.locator(".field-row").all()
        if row.locator(".meter").count()
    }  # fmt: skip
    assert shown
    for name, text in shown.items():
        assert text == f"{int(100 * told[name]['confidence'] + 1e-6)} %", name
