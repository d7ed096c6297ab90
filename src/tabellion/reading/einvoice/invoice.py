"""Invoices with embedded XML (Factur-X, ZUGFeRD, XRechnung): exact fields, and the issues of the XML."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tabellion.messages import Message, quote_value
from tabellion.reading.einvoice import cii, ubl
from tabellion.reading.einvoice.codes import NAMES, PROFILES, profile_of, rank_of
from tabellion.reading.einvoice.french import check_french_rules
from tabellion.reading.einvoice.rules import RULES
from tabellion.reading.einvoice.terms import InvoiceTerms, TradeParty, date, money, number, plain, text_of
from tabellion.reading.einvoice.vat import vat
from tabellion.reading.einvoice.xmltree import Tree, XmlNode, parse
from tabellion.reading.field import Field
from tabellion.reading.issue import Issue

SURE = 0.99  #: an exact reading still depends on the author of the XML
DAMAGED = 0.9
MOST_ISSUES = 100  #: people do not read more
#: Always errors; other rules bind only invoices that claim to follow EN 16931.
ALWAYS = ("number_notation", "date_impossible", "date_notation")


@dataclass(frozen=True, slots=True)
class EInvoice:
    """The contents of an embedded invoice."""

    syntax: str = ""  #: Factur-X, ZUGFeRD 1.0, XRechnung, UBL; empty when there is no XML to read
    profile: str | None = None
    name: str | None = None  #: of the attachment
    fields: dict[str, Field] = field(default_factory=dict)
    issues: tuple[Issue, ...] = ()


def read_einvoice(
    attachments: Sequence[tuple[str, bytes]], claims: Mapping[str, Mapping[str, str]] | None = None
) -> EInvoice | None:
    """The invoice among a PDF's attachments; None when there is none and none is claimed.

    `claims` is the PDF's metadata, as `{"facturx": {"profile": …, "filename": …}}`: empty when the metadata does not
    mention an invoice, None when it was not read.
    """
    claim = next((dict(value) for value in (claims or {}).values()), {})
    filename = claim.get("filename", "")
    candidates = [(name, read_xml(data)) for name, data in attachments if _may_be_xml(name, data)]
    invoices = [(name, invoice) for name, invoice in candidates if invoice.syntax or name in NAMES]
    if not invoices:
        if not claim:
            return None
        message = Message("carrier.invoice_not_attached", text=filename or "XML")
        return EInvoice(issues=(Issue("xml_missing", "error", message, rule="Factur-X"),))
    invoices.sort(key=lambda pair: (not pair[1].syntax, pair[0] != filename, pair[0] not in NAMES))
    name, invoice = invoices[0]
    issues = [
        *_check_names(name, claim, claims),
        *_profile(invoice, claim),
        *_others(invoice, invoices[1:]),
        *invoice.issues,
    ]
    return dataclasses.replace(invoice, name=name, issues=tuple(issues))


def read_xml(data: bytes) -> EInvoice:
    """An invoice from its bare XML; without a syntax when it is not an invoice."""
    tree = parse(data)
    if tree.root is None:
        return EInvoice(issues=tree.issues)
    if cii.is_cii(tree.root):
        terms = cii.read_cii(tree.root)
        issues = _space(tree.root, terms.syntax)
    elif ubl.is_ubl(tree.root):
        terms, issues = ubl.read_ubl(tree.root), []
    else:
        message = Message("carrier.no_invoice", name=tree.root.name)
        return EInvoice(issues=(*tree.issues, Issue("xml_root", "error", message, rule="EN 16931")))
    guideline = text_of(terms.guideline)
    profile = profile_of(guideline)
    if guideline and profile is None:
        message = Message("carrier.unknown_specification", value=quote_value(guideline))
        issues.append(Issue("profile_unknown", "error", message, rule="BR-01"))
    issues += tree.issues
    if tree.whole:
        issues += _judge(terms, profile)
    syntax = _syntax(terms, profile)
    return EInvoice(syntax, profile, None, _fields(terms, syntax, profile, tree), tuple(issues))


def _may_be_xml(name: str, data: bytes) -> bool:
    start = data[:64].lstrip(b"\xef\xbb\xbf\xff\xfe \t\r\n\0")
    return name.lower().endswith(".xml") or start.startswith(b"<")


def _syntax(terms: InvoiceTerms, profile: str | None) -> str:
    if profile == "XRECHNUNG":
        return "XRechnung"
    return "Factur-X" if terms.syntax == "CII" else terms.syntax


def _space(root: XmlNode, syntax: str) -> list[Issue]:
    pattern = cii.SPACE if syntax == "CII" else cii.FIRST_SPACE
    if pattern.fullmatch(root.space):
        return []
    return [
        Issue(
            "xml_namespace",
            "error",
            Message("carrier.wrong_namespace", value=quote_value(root.space), text=syntax),
            rule="XML Schema",
        )
    ]


def _judge(terms: InvoiceTerms, profile: str | None) -> list[Issue]:
    is_first_version = terms.syntax == "ZUGFeRD 1.0"
    found = (
        issue
        for rule in (*RULES, vat, check_french_rules)
        for issue in rule(terms, 0 if is_first_version else rank_of(profile))
    )
    issues = list(itertools.islice(found, MOST_ISSUES))
    if is_first_version:
        # Older than EN 16931: its requirements do not apply, the remaining issues are warnings.
        issues = [issue for issue in issues if issue.code != "missing" or issue.fields]
        issues = [issue if issue.code in ALWAYS else dataclasses.replace(issue, severity="warning") for issue in issues]
    errors = {(issue.code, issue.fields) for issue in issues if issue.severity == "error"}
    return [
        issue
        for issue in dict.fromkeys(issues)
        if issue.severity == "error" or (issue.code, issue.fields) not in errors
    ]


def _check_names(name: str, claim: dict[str, str], claims: object) -> list[Issue]:
    issues = []
    if name not in NAMES:
        message = Message("carrier.file_name", value=quote_value(name))
        issues.append(Issue("attachment_name", "error", message, rule="Factur-X"))
    elif claim.get("filename") and claim["filename"] != name:
        message = Message("carrier.file_name_differs", value=quote_value(claim["filename"]), name=quote_value(name))
        issues.append(Issue("metadata_filename", "error", message, rule="Factur-X"))
    if claims is not None and not claim:
        message = Message("carrier.metadata_missing")
        issues.append(Issue("metadata_missing", "error", message, rule="Factur-X"))
    if claim.get("type", "INVOICE").upper() != "INVOICE":
        message = Message("carrier.not_an_invoice_type", value=quote_value(claim["type"]))
        issues.append(Issue("metadata_type", "error", message, rule="Factur-X"))
    return issues


def _profile(invoice: EInvoice, claim: dict[str, str]) -> list[Issue]:
    claimed = claim.get("profile")
    if claimed is None or invoice.profile is None or claimed.replace("_", " ").upper() == invoice.profile:
        return []
    message = Message("carrier.profile_differs", value=quote_value(claimed), xml=quote_value(invoice.profile))
    known = claimed in (*PROFILES, "XRECHNUNG") and invoice.syntax != "ZUGFeRD 1.0"
    return [Issue("metadata_profile", "error" if known else "warning", message, rule="Factur-X")]


def _others(invoice: EInvoice, others: Sequence[tuple[str, EInvoice]]) -> list[Issue]:
    """Issues for further invoices in the same PDF, which must agree with the first."""
    issues = []
    for name, other in others:
        different = [key for key in ("invoice_number", "total") if _value(invoice, key) != _value(other, key)]
        if different:
            message = Message(
                "carrier.second_invoice_differs",
                value=quote_value(name),
                text=" and ".join(different).replace("_", " "),
            )
            issues.append(Issue("two_invoices", "error", message, tuple(different), "Factur-X"))
        else:
            message = Message("carrier.second_invoice_same", value=quote_value(name))
            issues.append(Issue("two_invoices", "warning", message, rule="Factur-X"))
    return issues


def _value(invoice: EInvoice, name: str) -> Any:
    return invoice.fields[name].value if name in invoice.fields else None


def _fields(terms: InvoiceTerms, syntax: str, profile: str | None, tree: Tree) -> dict[str, Field]:
    is_complete = tree.whole and not tree.issues
    code = "reason.embedded_xml_profile" if profile else "reason.embedded_xml"
    origin = Message(code, text=syntax, **({"profile": profile} if profile else {}))
    reasons = (origin,) if is_complete else (origin, tree.issues[0].message)
    fields: dict[str, Field] = {}

    def put(name: str, value: Any, quote: str | None) -> None:
        if value not in (None, "", []):
            confidence = SURE if is_complete else DAMAGED
            fields[name] = Field(value, confidence, quote=quote or None, source="xml", reasons=reasons)

    seller = terms.seller
    texts = {"vendor": seller.name, "customer": terms.buyer.name, "invoice_number": terms.number}
    for name, node in (*texts.items(), ("currency", terms.currency), ("purchase_order", terms.order)):
        put(name, " ".join(text_of(node).split()), text_of(node))
    address = _address(seller)
    put("vendor_address", address, address)
    tax_id = seller.vat or seller.tax_number
    put("vendor_tax_id", "".join(text_of(tax_id).split()), text_of(tax_id))
    for name, node in (("invoice_date", terms.issued), ("due_date", next(iter(terms.due), None))):
        day = date(node)
        put(name, day.isoformat() if day else None, text_of(node))
    for name, total in (("subtotal", "basis"), ("tax", "tax"), ("total", "total")):
        value = number(terms.sums.get(total))
        put(name, money(value) if value is not None else None, text_of(terms.sums.get(total)))
    put("taxes", _taxes(terms), None)
    put("line_items", _items(terms), None)
    iban = next(iter(terms.accounts), None)
    put("iban", "".join(text_of(iban).split()).upper(), text_of(iban))
    agreed = "\n".join(node.text for node in terms.terms if node.text)
    put("payment_terms", agreed, agreed)
    return fields


def _address(party: TradeParty) -> str:
    town = " ".join(filter(None, (text_of(party.postcode), text_of(party.city))))
    parts = [*(node.text for node in party.address), town, text_of(party.country)]
    return ", ".join(" ".join(part.split()) for part in parts if part)


def _taxes(terms: InvoiceTerms) -> list[dict[str, str | None]]:
    rows = []
    for tax in terms.taxes:
        rate, base, amount = number(tax.rate), number(tax.basis), number(tax.amount)
        rows.append({
            "rate": plain(rate) if rate is not None else None,
            "base": money(base) if base is not None else None,
            "amount": money(amount) if amount is not None else None,
        })  # fmt: skip
    return rows


def _items(terms: InvoiceTerms) -> list[dict[str, str | None]]:
    rows = []
    for line in terms.lines:
        amount, quantity, price = number(line.amount), number(line.quantity), number(line.price)
        if amount is None and quantity is None:
            continue  # a remark between the lines
        per, rate = number(line.per) or 1, number(line.tax.rate) if line.tax else None
        rows.append({
            "description": " ".join(text_of(line.name).split()) or None,
            "quantity": plain(quantity) if quantity is not None else None,
            "unit_price": plain(round(price / per, 6), 2) if price is not None else None,
            "amount": money(amount) if amount is not None else None,
            "tax_rate": plain(rate) if rate is not None else None,
        })  # fmt: skip
    return rows
