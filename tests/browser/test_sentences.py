"""Sentences of the reader and the rules on French pages: whatever the server says there is said in French."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from playwright.sync_api import Browser, Page, expect

from tests.browser.site import WRONG, Site

#: What comes back as it came, and why that is right.
SAME = {
    "page": "the same word in both languages",
}
SAYING = """async texts => {
    const { saying } = await import(document.querySelector("link[href*='sentences.js']").href);
    return texts.map(saying);
}"""
#: Ordinary English words that no French sentence has.
ENGLISH = re.compile(r"\b(?:the|is|are|was|were|it|its|of|and|with|label|other|than|not|has|no|at|by|an|for)\b")
QUOTED = re.compile(r"«[^»]*»|le modèle dit .*|les mots disent .*")


def told(document: dict[str, Any]) -> Iterator[str]:
    """Every sentence in what the API says of a document or of a review item."""
    fields = document.get("fields") or {}
    for field in fields.values() if isinstance(fields, dict) else fields:
        yield from field["reasons"]
        yield from (one["from"] for one in field.get("candidates") or [])
    for name in ("issues", "reasons"):
        yield from (one["message"] for one in document.get(name) or [])
    yield from document.get("notes") or []
    if document.get("error"):
        yield document["error"]["message"]


def everything(site: Site) -> set[str]:
    """Every sentence of every document and review item."""
    said: set[str] = set()
    for one in site.api("GET", "/api/documents?limit=100")["documents"]:
        said.update(told(site.api("GET", f"/api/documents/{one['id']}")))
        for attempt in site.api("GET", f"/api/documents/{one['id']}/work")["attempts"]:
            said.update(text for text in ((attempt["error"] or {}).get("message"), attempt["note"]) if text)
    for one in site.api("GET", "/api/review/items?limit=100")["items"]:
        said.update(told(one))
        said.update(told(site.api("GET", f"/api/review/items/{one['id']}")))
    return said


def saying(page: Page, texts: list[str]) -> list[str]:
    """The texts as the page says them."""
    return list(page.evaluate(SAYING, texts))


def test_everything_is_said_in_french(site: Site, chromium: Browser) -> None:
    """Reasons, issues, doubts, notes and failures of every document and review item: none comes back unchanged, and
    none half in English."""
    texts = sorted(everything(site))
    assert len(texts) > 25
    with site.visitor(chromium, locale="fr-CA") as visitor:
        french = saying(visitor.open("/documents"), texts)
    assert [text for text, said in zip(texts, french, strict=True) if text == said and text not in SAME] == []
    assert [said for said in french if ENGLISH.search(QUOTED.sub("", said))] == []


def test_english_pages_have_no_templates(site: Site, chromium: Browser) -> None:
    """Every text stays as it is there, and the page carries nothing for it; nor does a French page that says none."""
    texts = ["1 other candidate", "The total is not the subtotal plus the tax"]
    with site.visitor(chromium) as visitor:
        page = visitor.open("/documents")
        assert saying(page, texts) == texts
        expect(page.locator("#sentences")).to_have_count(0)
    with site.visitor(chromium, locale="fr-CA") as visitor:
        expect(visitor.open("/numbers").locator("#sentences")).to_have_count(0)


def test_holes_are_said_as_their_names_tell(site: Site, chromium: Browser) -> None:
    """Fields by their titles, cells by row and column, values in quotes, numbers as French writes them, and sentences
    within sentences; what is not ours is left alone."""
    wanted = {
        "line_items[0].unit_price: 'abc' is not an amount such as 1234.50, without currency":
            "Lignes, rangée 1, prix unitaire : « abc » n’est pas un montant comme 1234.50, sans devise",
        "registration_date is missing; it is required": "Date d'inscription manque ; ce champ est obligatoire",
        "the file has 12,345,678 bytes; the limit is 1,000": "le fichier a 12 345 678 octets ; la limite est 1 000",
        "but perhaps 12.50 (1 read for 7: 10.00 + 2.50 = 12.50)":
            "mais peut-être 12.50 (1 lu pour 7 : 10.00 + 2.50 = 12.50)",
        "Lots are named, but not the cadastre they belong to (lots (1 row), cadastre (nothing))":
            "Des lots sont nommés, mais pas le cadastre auquel ils appartiennent (lots (1 ligne), cadastre (rien))",
        "page 2 could not be read: the image cannot be decoded: broken data stream":
            "la page 2 n’a pas pu être lue : l’image ne peut pas être décodée : broken data stream",
        "Il manque un timbre (stamp (nothing))": "Il manque un timbre (stamp (nothing))",
        "ValueError: no such row (own.py:12 in work)": "ValueError: no such row (own.py:12 in work)",
    }  # fmt: skip
    with site.visitor(chromium, locale="fr-CA") as visitor:
        said = saying(visitor.open("/queue"), list(wanted))
    assert [one.replace("\N{NO-BREAK SPACE}", " ") for one in said] == list(wanted.values())


def test_a_failing_rule_is_shown_in_french(site: Site, chromium: Browser) -> None:
    """With its values, on the review screen, the document's page and in the tooltips of the queue."""
    document = site.documents[WRONG]
    item = site.item(document)
    with site.visitor(chromium, locale="fr-CA") as visitor:
        page = visitor.review(item, claim=False)
        rule = re.compile(r"Le total n’est pas le sous-total plus la taxe \(total [\d.]+, .*tolérance 0\.02\)")
        expect(page.locator("#reasons li.rule_failed").filter(has_text=rule)).to_have_count(1)
        page = visitor.open(f"/documents/{document}")
        expect(page.locator("#doubts li").filter(has_text=rule)).to_have_count(1)
        page = visitor.open("/queue")
        causes = page.locator(f"#rows tr[data-row='{item['id']}'] .cause")
        expect(causes.first).to_be_visible()
        titles = [str(one.get_attribute("title")) for one in causes.all()]
        assert any(rule.search(title) for title in titles), titles
        assert not any(ENGLISH.search(title) for title in titles), titles


def test_failures_are_shown_in_french(site: Site, chromium: Browser) -> None:
    """In the list, on the document's page and among the errors of its queue, where the code stands before them."""
    why = "e PDF ne peut pas être ouvert\N{NO-BREAK SPACE}: il est tronqué ou endommagé"
    with site.visitor(chromium, locale="fr-CA") as visitor:
        page = visitor.open("/documents")
        expect(page.locator("#rows .text-bad").filter(has_text=why)).not_to_have_count(0)
        visitor.watch.expect(422)  # it has no page that could be drawn
        page = visitor.open(f"/documents/{site.documents['truncated.pdf']}")
        expect(page.locator("#leaf")).to_contain_text(f"L{why}")
        expect(page.locator("#notices")).to_contain_text(f"L{why}")
        expect(page.locator("#attempts")).to_contain_text(f"l{why}")
        page = visitor.open("/queues/documents#failed")
        expect(page.locator("#groups")).to_contain_text(f"pdf_damaged\N{NO-BREAK SPACE}: l{why}")


def test_a_value_that_cannot_be_read_is_told_in_french(site: Site, chromium: Browser) -> None:
    """While it is typed, with the title of its field."""
    item = site.item(site.documents[WRONG])
    with site.visitor(chromium, locale="fr-CA") as visitor:
        page = visitor.review(item)
        field = page.locator("#field-invoice_date")
        field.fill("le mois dernier")
        told = "Date de facture : « le mois dernier » n’est pas une date, AAAA-MM-JJ"
        expect(page.locator("#fields .detail .wrong").first).to_contain_text(told)
        page.keyboard.press("Control+z")
        page.keyboard.press("Escape")
        page.keyboard.press("u")
        expect(page.locator("#approve")).to_be_hidden()
