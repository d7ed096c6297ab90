"""What France asks of e-invoices beyond EN 16931 (the BR-FR rules): numbers, mentions, SIREN, rates, dates."""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal

from tabellion.reading.einvoice.codes import CREDITS, PREPAYMENTS, listed
from tabellion.reading.einvoice.rules import error, warning
from tabellion.reading.einvoice.terms import Party, Terms, date, number, said
from tabellion.reading.issue import Issue

ADDRESS_SCHEME = "0225"  #: electronic addresses of the French directory
SIREN, SIRET = "0002", "0009"
PROCESSES = listed("B1 S1 M1 B2 S2 M2 B4 S4 M4 S5 S6 B7 S7 B8 S8 M8")
PAID = frozenset({"B2", "S2", "M2"})
KINDS = listed("380 389 393 501 386 500 384 471 472 473 261 262 381 396 502 503")
MENTIONS = {
    "PMT": "the compensation for recovery costs",
    "PMD": "the penalties for late payment",
    "AAB": "the discount for early payment, or that there is none",
}
RATES = frozenset(map(Decimal, listed("0 0.9 1.05 1.75 2.1 5.5 7 8.5 9.2 9.6 10 13 19.6 20 20.6")))
NUMBER = re.compile(r"[A-Za-z0-9+\-_/]+")
LONGEST_NUMBER = 35


def is_french(terms: Terms) -> bool:
    """Whether the invoice says itself that it goes the French way."""
    addresses = (terms.seller.endpoint, terms.buyer.endpoint)
    schemes = {node.attributes.get("schemeID") for node in addresses if node is not None}
    return terms.syntax != "ZUGFeRD 1.0" and (said(terms.process) in PROCESSES or ADDRESS_SCHEME in schemes)


def french(terms: Terms, rank: int) -> Iterator[Issue]:
    """The BR-FR rules."""
    if is_french(terms):
        for rule in (_document, _mentions, _parties, _days, _amounts):
            yield from rule(terms)


def _document(terms: Terms) -> Iterator[Issue]:
    for node, field in [(terms.number, "invoice_number"), *((earlier, "") for earlier, _ in terms.preceding)]:
        text = said(node)
        fields = [field] if field else []
        if len(text) > LONGEST_NUMBER:
            yield error("number_long", "BR-FR-01", f"the number {text!r} is over {LONGEST_NUMBER} characters", *fields)
        if text and not NUMBER.fullmatch(text):
            message = f"the number {text!r} has characters other than letters, digits and - + _ /"
            yield error("number_characters", "BR-FR-02", message, *fields)
    kind, process = said(terms.kind), said(terms.process)
    if kind and kind not in KINDS:
        yield error("type_code", "BR-FR-04", f"France does not take documents of type {kind}")
    if process not in PROCESSES:
        yield error("process", "BR-FR-08", f"the kind of operation is {process!r}, not one of B1, S1, M1, …")
    if kind == "384" and len(terms.preceding) != 1:
        yield error("missing", "BR-FR-CO-04", "a corrected invoice names the one invoice it corrects")
    if kind in CREDITS and not any(said(earlier) for earlier, _ in terms.preceding):
        yield error("missing", "BR-FR-CO-05", "a credit note names the invoice it credits")


def _mentions(terms: Terms) -> Iterator[Issue]:
    subjects = [subject for subject, text in terms.notes if text]
    for subject, what in MENTIONS.items():
        if subject not in subjects:
            yield error("missing", "BR-FR-05", f"a note must tell {what} ({subject})")
    for subject in (*MENTIONS, "TXD"):
        if subjects.count(subject) > 1:
            yield error("note_twice", "BR-FR-06", f"the note {subject} is there twice")


def _parties(terms: Terms) -> Iterator[Issue]:
    siren = _siren(terms.seller)
    if not re.fullmatch(r"\d{9}", siren):
        yield error("siren", "BR-FR-10", f"the seller's SIREN is {siren!r}, not nine digits")
    for party, who in ((terms.seller, "seller"), (terms.buyer, "buyer")):
        own = _siren(party)
        for node in party.ids:
            if node.attributes.get("schemeID") == SIRET and not _fits(node.text, own):
                yield error("siret", "BR-FR-09", f"the {who}'s SIRET {node.text} does not fit the SIREN {own!r}")
        if not said(party.endpoint):
            rule = "BR-FR-13" if who == "seller" else "BR-FR-12"
            yield error("missing", rule, f"the {who}'s electronic address is missing")
        vat = "".join(said(party.vat).split())
        if vat.startswith("FR") and own and not vat.endswith(own):
            message = f"the {who}'s VAT number {vat} is not that of the SIREN {own}"
            yield warning("vat_number", "", message, *(["vendor_tax_id"] if who == "seller" else []))


def _siren(party: Party) -> str:
    legal = party.legal
    return legal.text if legal is not None and legal.attributes.get("schemeID") == SIREN else ""


def _fits(siret: str, siren: str) -> bool:
    return re.fullmatch(r"\d{14}", siret) is not None and siret.startswith(siren)


def _days(terms: Terms) -> Iterator[Issue]:
    issued = date(terms.issued)
    for day, field in [(issued, "invoice_date"), *((date(node), "due_date") for node in terms.due)]:
        if day and not 2000 <= day.year <= 2099:
            yield error("date_far", "BR-FR-03", f"the year of {day} is not between 2000 and 2099", field)
    if said(terms.kind) not in PREPAYMENTS and said(terms.process) not in PAID:
        for due in map(date, terms.due):
            if issued and due and due < issued:
                yield error("due_before_issue", "BR-FR-CO-07", f"due {due}, before the invoice of {issued}", "due_date")


def _amounts(terms: Terms) -> Iterator[Issue]:
    taxes = [*terms.taxes, *(line.tax for line in terms.lines if line.tax)]
    for rate in sorted({value for tax in taxes if (value := number(tax.rate)) is not None} - RATES):
        yield error("vat_rate", "BR-FR-16", f"{rate.normalize():f} % is no French VAT rate", "taxes")
    for line in terms.lines:
        for node, most, rule in ((line.quantity, 4, "BR-FR-DEC-02"), (line.price, 6, "BR-FR-DEC-03")):
            if len(said(node).partition(".")[2]) > most:
                yield error("decimals", rule, f"{said(node)}: more than {most} decimals", "line_items")
    if said(terms.process) in PAID and (number(terms.sums.get("due")) or not terms.due):
        yield error(
            "paid", "BR-FR-CO-09", "already paid, so nothing may be due, and the due date tells when it was paid"
        )
    if said(terms.currency) not in ("", "EUR") and said(terms.tax_currency) != "EUR":
        yield error("missing", "BR-FR-CO-12", "in another currency than the euro, and no VAT in euros", "tax")
