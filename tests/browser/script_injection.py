"""Texts that would run as scripts if shown as markup, and a document full of them."""

from __future__ import annotations

import random
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING

from tests.pipelines.documents import bills

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Page

IMAGE = "<img src=x onerror=ran(1)>"
SCRIPT = "</script><script>ran(2)</script>"
DRAWING = "\"'><svg onload=ran(3)>"
BACKWARDS = "invoice\u202egnp.exe\u202c"  #: shown as it is, it reads "invoiceexe.png"
ADDRESS = "javascript:ran(4)"
BRACES = "{{ran(5)}}${ran(6)}"
TEXTS = (IMAGE, SCRIPT, DRAWING, ADDRESS, BRACES)
EVERYTHING = f"{IMAGE} {SCRIPT} {DRAWING} {BRACES}"

#: Elements that only a text that was taken for markup makes.
GROWN = """() => [...document.querySelectorAll("[onerror], [onload], img[src='x'], a[href^='javascript:']")]
    .map(one => one.outerHTML.slice(0, 200))"""
#: Everything that a person can see or be told: text, values, titles, labels.
SHOWN = """() => [document.documentElement.innerText, document.title,
    ...[...document.querySelectorAll("input, textarea, select")].map(one => one.value ?? ""),
    ...[...document.querySelectorAll("[title]")].map(one => one.title),
    ...[...document.querySelectorAll("[aria-label]")].map(one => one.ariaLabel)].join("\\n")"""


class ScriptDetector:
    """Notices when one of the texts has run in any page of the browser."""

    def __init__(self, context: BrowserContext) -> None:
        self.sprung: list[str] = []
        context.expose_function("ran", lambda which: self.sprung.append(str(which)))

    def check(self, page: Page) -> None:
        """Fail when something ran, or when a text has become markup."""
        assert not self.sprung, f"ran on {page.url}: {self.sprung}"
        grown = page.evaluate(GROWN)
        assert not grown, f"grew on {page.url}: {grown}"


def page_text(page: Page) -> str:
    """Return all text of the page."""
    return str(page.evaluate(SHOWN))


def paper() -> bytes:
    """Return an invoice with a script in every text; its total is wrong, so that it needs review."""
    bill = replace(
        bills.invent("en", random.Random(6)),
        vendor=(f"Acme {IMAGE} Ltd", f"1 {DRAWING} Road", f"Leeds {SCRIPT}"),
        customer=(f"Blue {IMAGE} Hotel", f"2 {BRACES} Lane", "York YO1 7HH"),
        number=f"INV-7{IMAGE}",
        rows=((f"Shelf {SCRIPT}", 2, Decimal("10.00")), (f"Hinge {DRAWING}", 1, Decimal("5.00"))),
        slip=Decimal("10.00"),
    )
    return bills.invoice(bill).to_bytes()
