"""Messages on French pages: all messages of the reader, the rules and the server are in French."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from playwright.sync_api import Browser, Page, expect

from tabellion.messages import Message, quote_value, translatable
from tabellion.reading.types.kinds import KINDS
from tests.browser.installation import WRONG, Installation

SAID = """async texts => {
    const { localized } = await import(document.querySelector("link[href*='messages.js']").href);
    return texts.map(one => localized(one));
}"""
#: Ordinary English words that no French sentence has.
ENGLISH = re.compile(r"\b(?:the|is|are|was|were|it|its|of|and|with|label|other|than|not|has|no|at|by|an|for)\b")
QUOTED = re.compile(r"«[^»]*»|le modèle dit .*|le texte de la page dit .*")


def messages_in(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Return every message in the API's answer about a document or a review item."""
    fields = document.get("fields") or {}
    for field in fields.values() if isinstance(fields, dict) else fields:
        forms = (field.get("translatable") or {}).get("reasons") or [None] * len(field["reasons"])
        yield from (_one(text, form) for text, form in zip(field["reasons"], forms, strict=True))
    for name in ("issues", "reasons"):
        yield from document.get(name) or []
    if document.get("error"):
        yield document["error"]


def _one(text: str, form: Any) -> dict[str, Any]:
    return {"message": text, "translatable": {"message": form} if form else None}


def everything(installation: Installation) -> list[dict[str, Any]]:
    """Return every message of every document and review item."""
    found: list[dict[str, Any]] = []
    for one in installation.api("GET", "/api/documents?limit=100")["documents"]:
        found += messages_in(installation.api("GET", f"/api/documents/{one['id']}"))
        attempts = installation.api("GET", f"/api/documents/{one['id']}/work")["attempts"]
        found += [attempt["error"] for attempt in attempts if attempt["error"]]
    for one in installation.api("GET", "/api/review/items?limit=100")["items"]:
        found += [*messages_in(one), *messages_in(installation.api("GET", f"/api/review/items/{one['id']}"))]
    return list({one["message"]: one for one in found}.values())


def render(page: Page, texts: list[dict[str, Any]]) -> list[str]:
    """Return the messages as the page shows them."""
    return list(page.evaluate(SAID, texts))


def test_every_message_is_in_french(installation: Installation, chromium: Browser) -> None:
    """Reasons, issues, doubts, notes and failures of every document and review item: none is unchanged, and
    none half in English.
    """
    texts = everything(installation)
    assert len(texts) > 25
    with installation.visitor(chromium, locale="fr-CA") as visitor:
        french = render(visitor.open("/documents"), texts)
    assert [one for one, text in zip(texts, french, strict=True) if text == one["message"]] == []
    assert [text for text in french if ENGLISH.search(QUOTED.sub("", text))] == []


def test_english_pages_have_no_catalogue(installation: Installation, chromium: Browser) -> None:
    """Texts stay as they are, and the page carries no catalogue; nor does a French page without messages."""
    plain = Message("reason.single_candidate")
    with installation.visitor(chromium) as visitor:
        page = visitor.open("/documents")
        assert render(page, [{"message": plain, **translatable(message=plain)}]) == [plain]
        expect(page.locator("#messages")).to_have_count(0)
    with installation.visitor(chromium, locale="fr-CA") as visitor:
        expect(visitor.open("/numbers").locator("#messages")).to_have_count(0)


def test_parameters_are_formatted_by_their_names(installation: Installation, chromium: Browser) -> None:
    """Fields by their titles, cells by row and column, values in quotes, numbers in French format, and messages
    within messages; foreign texts are left alone.
    """
    read_for = Message("reason.read_for", sign="1", other="7")
    misread = Message("reason.misread", detail=read_for, text="10.00 + 2.50 = 12.50")
    doubt = Message("reason.perhaps", amount="12.50", detail=misread)
    seen = [
        Message("rule.seen", field="lots", value=Message("value.rows", n=1)),
        Message("rule.seen", field="cadastre", value=Message("value.nothing")),
    ]
    decoded = Message("unreadable.image_cannot_decode", text="broken data stream")
    wanted = {
        Message("issue.not_of_kind", field="line_items[0].unit_price", value=quote_value("abc"), detail=KINDS["money"]):
            "Lignes, ligne 1, prix unitaire : « abc » n’est pas un montant comme 1234.50, sans devise",
        Message("issue.missing", field="registration_date"): "Date d'inscription est obligatoire mais manque",
        Message("unreadable.bytes_over_limit", n=12345678, limit=1000):
            "le fichier a 12 345 678 octets ; la limite est 1 000",
        Message("reason.but", detail=doubt): "mais peut-être 12.50 (1 lu au lieu de 7 : 10.00 + 2.50 = 12.50)",
        Message("issue.rule", rule={"en": "Lots are named", "fr": "Des lots sont nommés"}, seen=seen):
            "Des lots sont nommés (lots (1 ligne), cadastre (rien))",
        Message("note.page_failed", n=2, detail=decoded):
            "la page 2 n’a pas pu être lue : l’image ne peut pas être décodée : broken data stream",
        Message("reason.other_candidates", n=1): "1 autre candidat",
        Message("reason.other_candidates", n=3): "3 autres candidats",
        "Il manque un timbre (stamp (nothing))": "Il manque un timbre (stamp (nothing))",
        "ValueError: no such row (own.py:12 in work)": "ValueError: no such row (own.py:12 in work)",
    }  # fmt: skip
    with installation.visitor(chromium, locale="fr-CA") as visitor:
        found = render(visitor.open("/queue"), [{"message": one, **translatable(message=one)} for one in wanted])
    spaces = str.maketrans(dict.fromkeys("\N{NO-BREAK SPACE}\N{NARROW NO-BREAK SPACE}", " "))
    assert [one.translate(spaces) for one in found] == list(wanted.values())


def test_a_failing_rule_is_shown_in_french(installation: Installation, chromium: Browser) -> None:
    """With its values, on the review screen, the document's page and in the tooltips of the queue."""
    document = installation.documents[WRONG]
    item = installation.item(document)
    with installation.visitor(chromium, locale="fr-CA") as visitor:
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


def test_failures_are_shown_in_french(installation: Installation, chromium: Browser) -> None:
    """In the list, on the document's page and among the errors of its queue, after the code."""
    why = "e PDF ne peut pas être ouvert\N{NO-BREAK SPACE}: il est tronqué ou endommagé"
    with installation.visitor(chromium, locale="fr-CA") as visitor:
        page = visitor.open("/documents")
        expect(page.locator("#rows .text-bad").filter(has_text=why)).not_to_have_count(0)
        page = visitor.open(f"/documents/{installation.documents['truncated.pdf']}")
        expect(page.locator("#leaf")).to_contain_text(f"L{why}")
        expect(page.locator("#notices")).to_contain_text(f"L{why}")
        expect(page.locator("#attempts")).to_contain_text(f"l{why}")
        page = visitor.open("/queues/documents#failed")
        expect(page.locator("#groups")).to_contain_text(f"pdf_damaged\N{NO-BREAK SPACE}: l{why}")


def test_an_invalid_value_is_reported_in_french(installation: Installation, chromium: Browser) -> None:
    """While it is typed, with the title of its field."""
    item = installation.item(installation.documents[WRONG])
    with installation.visitor(chromium, locale="fr-CA") as visitor:
        page = visitor.review(item)
        field = page.locator("#field-invoice_date")
        field.fill("le mois dernier")
        messages_in = "Date de facture : « le mois dernier » n’est pas une date, AAAA-MM-JJ"
        expect(page.locator("#fields .detail .wrong").first).to_contain_text(messages_in)
        page.keyboard.press("Control+z")
        page.keyboard.press("Escape")
        page.keyboard.press("u")
        expect(page.locator("#approve")).to_be_hidden()
