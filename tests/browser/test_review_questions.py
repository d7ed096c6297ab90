"""The review screen asks for a document's type, and whether to approve unchecked fields; it hides nothing."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from tests.browser.installation import Installation, open_installation
from tests.browser.screen import field, row, wait_for_focus
from tests.browser.watch import until
from tests.pipelines.documents import bills
from tests.reading import papers

LETTER = ["Dear neighbours,", "the stairs are painted on Monday.", "Please use the back door."]
#: A type whose fields are never sure enough, and which looks at every document.
STRICT = """\
name: strict
version: "1"
title: Strict bill
fields:
  vendor: {type: name, required: true, threshold: 1}
  subtotal: {type: money, threshold: 1, labels: {en: [subtotal]}}
  tax: {type: money, threshold: 1, labels: {en: [vat]}}
  total: {type: money, required: true, threshold: 1}
processing: {review: always}
"""


#: A type whose rows must have what no paper has.
GAPS = """\
name: gaps
version: "1"
fields:
  customer: {type: name, required: true}
  iban: {type: id, required: true}
  line_items:
    type: list
    items:
      description: {type: text, required: true}
      lot: {type: id, required: true}
      amount: {type: money}
processing: {review: always}
"""


@pytest.fixture(scope="module")
def own_installation(chromium: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """An installation with custom types, whose queue no other test uses."""
    folder = tmp_path_factory.mktemp("types")
    for name, text in (("strict", STRICT), ("gaps", GAPS)):
        (folder / f"{name}.yaml").write_text(text)
    with open_installation(tmp_path_factory.mktemp("own") / "data", TABELLION_TYPES=str(folder)) as one:
        yield one


def shot(page: Page, name: str) -> None:
    """Save a screenshot where PICTURES names a folder."""
    if folder := os.environ.get("PICTURES"):
        page.screenshot(path=Path(folder) / f"{name}.png")


def test_the_items_of_a_receipt_are_corrected_and_approved(own_installation: Installation, chromium: Browser) -> None:
    """A cell is typed, the row is stored without columns the type lacks, and the document is approved."""
    bill = replace(bills.invent("en", random.Random("receipt")), slip=Decimal(3))
    document = own_installation.upload(bills.invoice(bill).to_bytes(), "till.pdf", type="receipt")
    item = own_installation.item(document)
    with own_installation.visitor(chromium) as reviewer:
        page = reviewer.review(item)
        first = page.locator("#field-line_items tbody tr").first.locator("[data-column=description]")
        first.fill("Corrected goods")
        page.keyboard.press("Control+s")
        expect(page.locator("#saved")).to_have_text("Saved")
        shot(page, "receipt-items-corrected")
        page.keyboard.press("Control+Enter")
        approve(page)
        expect(page.locator("#nothing")).to_be_visible()
        page = reviewer.open(f"/review/{item['id']}")
        expect(page.locator("#banner")).to_be_visible()
        page.locator(row("line_items")).focus()
        shot(page, "receipt-items-approved")
        items = field(reviewer, item, "line_items")
    assert (items["state"], items["value"][0]["description"]) == ("corrected", "Corrected goods")
    assert "tax_rate" not in items["value"][0]


def approve(page: Page) -> None:
    """Answer the question about unchecked fields, where it is asked."""
    asked = page.locator("dialog[open] .unseen-fields")
    expect(asked.or_(page.locator("#nothing"))).to_be_visible()
    if asked.count():
        wait_for_focus(page, "dialog button[type=submit]")
        page.keyboard.press("Enter")


def test_a_document_without_a_type_is_assigned_one(own_installation: Installation, chromium: Browser) -> None:
    """It cannot be approved; after choosing a type its fields are shown, and the claim stays."""
    item = own_installation.item(own_installation.upload(papers.pdf(LETTER), "letter.pdf"))
    with own_installation.visitor(chromium) as reviewer:
        page = reviewer.open(f"/review/{item['id']}")
        expect(page.locator(".no-type")).to_be_visible()
        page.keyboard.press("c")
        expect(page.locator("#approve")).to_be_visible()
        expect(page.locator("#approve")).to_be_disabled()
        expect(page.locator("#left")).to_have_text("no type yet")
        shot(page, "unknown-type")
        page.keyboard.press("Control+Enter")
        expect(page.locator("dialog.question")).to_be_visible()
        shot(page, "unknown-type-question")
        page.locator("dialog.question select").select_option("receipt")
        page.keyboard.press("Enter")
        expect(page.locator(row("vendor"))).to_be_visible(timeout=60_000)
        expect(page.locator("#doc-type")).to_have_text("Receipt")
        expect(page.locator("#approve")).to_be_enabled()
        shot(page, "unknown-type-given")
        whole = reviewer.whole(item)
    assert (whole["type"], whole["status"]) == ("receipt", "in_review")


@pytest.mark.parametrize("locale", ["en-GB", "fr-FR"])
def test_unchecked_fields_are_asked_about(own_installation: Installation, chromium: Browser, locale: str) -> None:
    """Once, with the fields; Esc leads to the first of them, Enter approves, and checked fields are not asked about."""
    bill = bills.invent("en", random.Random(f"unseen {locale}"))
    item = own_installation.item(
        own_installation.upload(bills.invoice(bill).to_bytes(), f"unseen-{locale}.pdf", type="strict")
    )
    with own_installation.visitor(chromium, locale=locale) as reviewer:
        page = reviewer.review(item)
        wait_for_focus(page, "#fields .slot")
        page.locator(row("vendor")).focus()
        page.keyboard.press("Enter")
        page.keyboard.press("Control+Enter")
        question = page.locator("dialog.question")
        expect(question.locator("[data-name]")).to_have_count(3)
        expect(question.locator("[data-name=total]")).to_be_visible()
        shot(page, f"unseen-{locale}")
        page.keyboard.press("Escape")
        expect(question).to_have_count(0)
        wait_for_focus(page, row("subtotal"))
        page.keyboard.press("Enter")
        page.keyboard.press("Control+Enter")
        expect(question.locator("[data-name]")).to_have_count(2)
        wait_for_focus(page, "dialog button[type=submit]")
        page.keyboard.press("Enter")
        expect(question).to_have_count(0)
        until(page, lambda: reviewer.whole(item)["status"] == "approved")
    last = own_installation.api("GET", f"/api/review/items/{item['id']}/history")["entries"][-1]
    assert last["more"]["unseen"] == ["tax", "total"]


def reasons(page: Page) -> list[str]:
    """Return the sentences that are not settled."""
    return page.locator("#reasons li:not(.settled)").all_inner_texts()


@pytest.fixture(scope="module")
def gaps(own_installation: Installation) -> dict[str, Any]:
    """The item of a document whose rows lack required cells."""
    bill = bills.invent("en", random.Random("gaps"))
    return own_installation.item(own_installation.upload(bills.invoice(bill).to_bytes(), "gaps.pdf", type="gaps"))


def fill_gaps(page: Page) -> None:
    """Fill in what a document of the type `gaps` lacks."""
    lots = page.locator("#field-line_items tbody [data-column=lot]")
    for number in range(lots.count()):
        lots.nth(number).fill(f"L-{number}")
    page.locator("#field-iban").fill("DE89370400440532013000")
    page.locator("#field-customer").fill("Somebody Ltd")


def test_every_reason_is_shown_until_it_is_settled(
    own_installation: Installation, chromium: Browser, gaps: dict[str, Any]
) -> None:
    """Also what is missing within a row; once filled in, the reason is settled, here and on the document's page."""
    with own_installation.visitor(chromium) as reviewer:
        page = reviewer.review(gaps)
        missing = [one for one in reviewer.whole(gaps)["reasons"] if one["code"] == "missing"]
        assert len([one for one in missing if "lot" in one["fields"][0]]) > 1
        shown = page.locator("#reasons li.rule_failed").count()
        assert shown == len(missing)
        shot(page, "missing-cells")
        fill_gaps(page)
        page.keyboard.press("Control+s")
        expect(page.locator("#reasons li.rule_failed")).to_have_count(0)
        shot(page, "missing-settled")
        page = reviewer.open(f"/documents/{gaps['document_id']}")
        expect(page.locator("#fields > *").first).to_be_visible()
        expect(page.locator("#doubts .mark-bad")).to_have_count(0)
        shot(page, "missing-document")


def test_viewers_cannot_choose_a_type(own_installation: Installation, chromium: Browser) -> None:
    """A viewer sees that there is no type, and no way to choose one."""
    own_installation.add_person("vera", "viewer")
    item = own_installation.item(own_installation.upload(papers.pdf([*LETTER, "The lift works."]), "letter-2.pdf"))
    with own_installation.visitor(chromium, "vera") as viewer:
        page = viewer.open(f"/review/{item['id']}")
        expect(page.locator(".no-type")).to_be_visible()
        page.keyboard.press("g")
        page.keyboard.press("t")
        expect(page.locator("dialog.question")).to_have_count(0)


def test_an_approval_while_a_draft_is_being_deleted_counts(own_installation: Installation, chromium: Browser) -> None:
    """The screen says that everything is saved a moment before the saving has ended."""
    bill = bills.invent("en", random.Random("draft"))
    item = own_installation.item(own_installation.upload(bills.invoice(bill).to_bytes(), "draft.pdf", type="gaps"))
    with own_installation.visitor(chromium) as reviewer:
        page = reviewer.review(item)
        held: list[Route] = []
        pressed = False

        def hold(route: Route) -> None:
            if pressed:
                route.continue_()
            else:
                held.append(route)

        page.route("**/draft", hold)
        fill_gaps(page)
        page.keyboard.press("Control+s")
        expect(page.locator("#saved")).to_have_text("Saved")
        until(page, lambda: bool(held))
        page.keyboard.press("Control+Enter")
        pressed = True
        for route in held:
            route.continue_()
        until(page, lambda: reviewer.whole(item)["status"] == "corrected")
