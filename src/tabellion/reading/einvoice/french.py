"""The French rules for e-invoices beyond EN 16931 (BR-FR): numbers, mentions, SIREN, rates, dates."""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal

from tabellion.messages import Message, quote_value
from tabellion.reading.einvoice.codes import CREDITS, PREPAYMENTS, parse_codes
from tabellion.reading.einvoice.rules import error, warning
from tabellion.reading.einvoice.terms import InvoiceTerms, TradeParty, date, number, text_of
from tabellion.reading.issue import Issue

ADDRESS_SCHEME = "0225"  #: electronic addresses of the French directory
SIREN, SIRET = "0002", "0009"
PROCESSES = parse_codes("B1 S1 M1 B2 S2 M2 B4 S4 M4 S5 S6 B7 S7 B8 S8 M8")
PAID = frozenset({"B2", "S2", "M2"})
KINDS = parse_codes("380 389 393 501 386 500 384 471 472 473 261 262 381 396 502 503")
MENTIONS = {
    "PMT": Message("term.recovery_costs"),
    "PMD": Message("term.late_penalties"),
    "AAB": Message("term.early_discount"),
}
RATES = frozenset(map(Decimal, parse_codes("0 0.9 1.05 1.75 2.1 5.5 7 8.5 9.2 9.6 10 13 19.6 20 20.6")))
NUMBER = re.compile(r"[A-Za-z0-9+\-_/]+")
LONGEST_NUMBER = 35


def is_french(terms: InvoiceTerms) -> bool:
    """Whether the invoice declares the French process."""
    addresses = (terms.seller.endpoint, terms.buyer.endpoint)
    schemes = {node.attributes.get("schemeID") for node in addresses if node is not None}
    return terms.syntax != "ZUGFeRD 1.0" and (text_of(terms.process) in PROCESSES or ADDRESS_SCHEME in schemes)


def check_french_rules(terms: InvoiceTerms, rank: int) -> Iterator[Issue]:
    """The BR-FR rules."""
    if is_french(terms):
        for rule in (_document, _mentions, _parties, _days, _amounts):
            yield from rule(terms)


def _document(terms: InvoiceTerms) -> Iterator[Issue]:
    for node, field in [(terms.number, "invoice_number"), *((earlier, "") for earlier, _ in terms.preceding)]:
        text = text_of(node)
        fields = [field] if field else []
        if len(text) > LONGEST_NUMBER:
            yield error(
                "number_long", "BR-FR-01", "france.number_too_long", *fields, value=quote_value(text), n=LONGEST_NUMBER
            )
        if text and not NUMBER.fullmatch(text):
            message = Message("france.number_characters", value=quote_value(text))
            yield error("number_characters", "BR-FR-02", message, *fields)
    kind, process = text_of(terms.kind), text_of(terms.process)
    if kind and kind not in KINDS:
        yield error("type_code", "BR-FR-04", "france.document_type", kind=kind)
    if process not in PROCESSES:
        yield error("process", "BR-FR-08", "france.operation", value=quote_value(process))
    if kind == "384" and len(terms.preceding) != 1:
        yield error("missing", "BR-FR-CO-04", "france.correction_reference")
    if kind in CREDITS and not any(text_of(earlier) for earlier, _ in terms.preceding):
        yield error("missing", "BR-FR-CO-05", "france.credit_reference")


def _mentions(terms: InvoiceTerms) -> Iterator[Issue]:
    subjects = [subject for subject, text in terms.notes if text]
    for subject, description in MENTIONS.items():
        if subject not in subjects:
            yield error("missing", "BR-FR-05", "france.note_missing", detail=description, subject=subject)
    for subject in (*MENTIONS, "TXD"):
        if subjects.count(subject) > 1:
            yield error("note_twice", "BR-FR-06", "france.note_twice", subject=subject)


def _parties(terms: InvoiceTerms) -> Iterator[Issue]:
    siren = _siren(terms.seller)
    if not re.fullmatch(r"\d{9}", siren):
        yield error("siren", "BR-FR-10", "france.siren", value=quote_value(siren))
    for party, role in ((terms.seller, "seller"), (terms.buyer, "buyer")):
        own = _siren(party)
        for node in party.ids:
            if node.attributes.get("schemeID") == SIRET and not _fits(node.text, own):
                yield error("siret", "BR-FR-09", f"france.{role}_siret", siret=node.text, value=quote_value(own))
        if not text_of(party.endpoint):
            rule = "BR-FR-13" if role == "seller" else "BR-FR-12"
            yield error("missing", rule, f"einvoice.{role}_address_missing")
        vat = "".join(text_of(party.vat).split())
        if vat.startswith("FR") and own and not vat.endswith(own):
            fields = ["vendor_tax_id"] if role == "seller" else []
            yield warning("vat_number", "", f"france.{role}_vat", *fields, vat=vat, siren=own)


def _siren(party: TradeParty) -> str:
    legal = party.legal
    return legal.text if legal is not None and legal.attributes.get("schemeID") == SIREN else ""


def _fits(siret: str, siren: str) -> bool:
    return re.fullmatch(r"\d{14}", siret) is not None and siret.startswith(siren)


def _days(terms: InvoiceTerms) -> Iterator[Issue]:
    issued = date(terms.issued)
    for day, field in [(issued, "invoice_date"), *((date(node), "due_date") for node in terms.due)]:
        if day and not 2000 <= day.year <= 2099:
            yield error("date_far", "BR-FR-03", "france.year", field, date=day)
    if text_of(terms.kind) not in PREPAYMENTS and text_of(terms.process) not in PAID:
        for due in map(date, terms.due):
            if issued and due and due < issued:
                yield error(
                    "due_before_issue", "BR-FR-CO-07", "einvoice.due_before_issue", "due_date", due=due, issued=issued
                )


def _amounts(terms: InvoiceTerms) -> Iterator[Issue]:
    taxes = [*terms.taxes, *(line.tax for line in terms.lines if line.tax)]
    for rate in sorted({value for tax in taxes if (value := number(tax.rate)) is not None} - RATES):
        yield error("vat_rate", "BR-FR-16", "france.vat_rate", "taxes", n=f"{rate.normalize():f}")
    for line in terms.lines:
        for node, most, rule in ((line.quantity, 4, "BR-FR-DEC-02"), (line.price, 6, "BR-FR-DEC-03")):
            if len(text_of(node).partition(".")[2]) > most:
                yield error("decimals", rule, "france.decimals", "line_items", n=text_of(node), limit=most)
    if text_of(terms.process) in PAID and (number(terms.sums.get("due")) or not terms.due):
        yield error("paid", "BR-FR-CO-09", "france.already_paid")
    if text_of(terms.currency) not in ("", "EUR") and text_of(terms.tax_currency) != "EUR":
        yield error("missing", "BR-FR-CO-12", "france.vat_in_euros", "tax")
