"""The rules of EN 16931 for e-invoices: what must be present, in which notation, and what must add up."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Iterable, Iterator
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

from tabellion.messages import Message, quote_value
from tabellion.reading.einvoice import codes
from tabellion.reading.einvoice.terms import STRICT, InvoiceLine, InvoiceTerms, date, number, text_of
from tabellion.reading.einvoice.xmltree import XmlNode
from tabellion.reading.issue import Issue

CENT = Decimal("0.01")
#: How far a line's amount may differ from quantity times price: a cent, or the rounding of the price.
SLACK = Decimal("0.02")
TWO_DECIMALS = re.compile(r"[+-]?\d*(\.\d{0,2})?")
NUMERIC = re.compile(r".*(Amount|Quantity|Percent|FactorNumeric)")
PRICES = ("NetPriceProductTradePrice", "GrossPriceProductTradePrice", "Price")
DAY = re.compile(r"\d{4}-\d\d-\d\d(Z|[+-]\d\d:\d\d)?")

InvoiceRule = Callable[[InvoiceTerms, int], Iterator[Issue]]


def error(code: str, rule: str, message: str, *fields: str, **params: Any) -> Issue:
    """An issue that a validator of the standard rejects; `message` is a message code."""
    return Issue(code, "error", Message(message, **params), fields, rule)


def warning(code: str, rule: str, message: str, *fields: str, **params: Any) -> Issue:
    """An issue that no rule forbids but a person should see; `message` is a message code."""
    return Issue(code, "warning", Message(message, **params), fields, rule)


def presence(terms: InvoiceTerms, rank: int) -> Iterator[Issue]:
    """BR-01 to BR-16, and the required terms of each line and of the VAT breakdown."""
    seller, buyer, sums = terms.seller, terms.buyer, terms.sums
    basic_wl, basic = rank >= 1, rank >= 2
    required: list[tuple[bool, XmlNode | None, str, str, str]] = [
        (True, terms.guideline, "BR-01", Message("term.specification"), ""),
        (True, terms.number, "BR-02", Message("term.number"), "invoice_number"),
        (True, terms.issued, "BR-03", Message("term.issue_date"), "invoice_date"),
        (True, terms.kind, "BR-04", Message("term.type"), ""),
        (True, terms.currency, "BR-05", Message("term.currency"), "currency"),
        (True, seller.name, "BR-06", Message("term.seller_name"), "vendor"),
        (True, buyer.name, "BR-07", Message("term.buyer_name"), "customer"),
        (True, seller.country, "BR-09", Message("term.seller_country"), "vendor_address"),
        (basic, buyer.country, "BR-11", Message("term.buyer_country"), ""),
        (basic_wl, sums.get("lines"), "BR-12", Message("term.sum_of_lines"), ""),
        (True, sums.get("basis"), "BR-13", Message("term.total_without_tax"), "subtotal"),
        (True, sums.get("total"), "BR-14", Message("term.total_with_tax"), "total"),
        (True, sums.get("due"), "BR-15", Message("term.amount_due"), ""),
    ]
    for line in terms.lines if basic else ():
        line_number = {"line": text_of(line.id) or "?"}
        required += [
            (True, line.id, "BR-21", Message("term.line_identifier"), "line_items"),
            (True, line.quantity, "BR-22", Message("term.line_quantity", **line_number), "line_items"),
            (True, line.amount, "BR-24", Message("term.line_amount", **line_number), "line_items"),
            (True, line.name, "BR-25", Message("term.line_name", **line_number), "line_items"),
            (True, line.price, "BR-26", Message("term.line_price", **line_number), "line_items"),
            (
                True,
                line.tax.category if line.tax else None,
                "BR-CO-04",
                Message("term.line_category", **line_number),
                "line_items",
            ),
        ]
    for tax in terms.taxes if basic_wl else ():
        required += [
            (True, tax.basis, "BR-45", Message("term.rate_base"), "taxes"),
            (True, tax.amount, "BR-46", Message("term.rate_amount"), "taxes"),
            (True, tax.category, "BR-47", Message("term.rate_category"), "taxes"),
        ]
    for charge in terms.charges:
        kind, rule = ("charge", "BR-36") if charge.is_charge else ("allowance", "BR-31")
        required.append((True, charge.amount, rule, Message(f"term.{kind}_amount"), ""))
    for applies, node, rule, description, name in required:
        if applies and not text_of(node):
            yield error("missing", rule, "einvoice.missing", *([name] if name else []), detail=description)
    if basic and not terms.lines:
        yield error("missing", "BR-16", "einvoice.no_line", "line_items")
    if basic_wl and not terms.taxes:
        yield error("missing", "BR-CO-18", "einvoice.no_vat_breakdown", "taxes")
    if rank >= 1 and not (text_of(seller.vat) or text_of(seller.legal) or any(map(text_of, seller.ids))):
        yield error("missing", "BR-CO-26", "einvoice.seller_unidentified")


def notation(terms: InvoiceTerms, rank: int) -> Iterator[Issue]:
    """Numbers, dates, codes: each in the notation of the schema and of the code lists."""
    # A discount on a price may have as many decimals as the price.
    finer = {id(part) for node in terms.root.walk() if node.name in PRICES for part in node.walk()}
    for node in terms.root.walk():
        text = node.text
        if node.children:
            continue
        if NUMERIC.fullmatch(node.name):
            if not STRICT.fullmatch(text):
                yield error(
                    "number_notation", "xs:decimal", "einvoice.not_decimal", element=node.name, value=quote_value(text)
                )
            elif node.name.endswith("Amount") and id(node) not in finer and not TWO_DECIMALS.fullmatch(text):
                yield error("decimals", "BR-DEC", "einvoice.too_many_decimals", element=node.name, n=text)
        if (currency := node.attributes.get("currencyID")) is not None and currency not in codes.CURRENCIES:
            yield error(
                "currency_code", "BR-CL-03", "einvoice.unknown_currency", "currency", value=quote_value(currency)
            )
        if (unit := node.attributes.get("unitCode")) is not None and not codes.UNIT.fullmatch(unit):
            yield error("unit_code", "BR-CL-23", "einvoice.unknown_unit", "line_items", value=quote_value(unit))
        if node.name in ("CountryID", "IdentificationCode") and text and text not in codes.COUNTRIES:
            yield error("country_code", "BR-CL-14", "einvoice.unknown_country", value=quote_value(text))
    for name in map(text_of, (terms.currency, terms.tax_currency)):
        if name and name not in codes.CURRENCIES:
            yield error("currency_code", "BR-CL-04", "einvoice.unknown_currency", "currency", value=quote_value(name))
    if text_of(terms.kind) and text_of(terms.kind) not in codes.KINDS:
        yield error("type_code", "BR-CL-01", "einvoice.unknown_invoice_type", value=quote_value(text_of(terms.kind)))
    for node in terms.means:
        if text_of(node) not in codes.MEANS:
            yield error("payment_code", "BR-CL-16", "einvoice.unknown_payment_means", value=quote_value(text_of(node)))


def days(terms: InvoiceTerms, rank: int) -> Iterator[Issue]:
    """Every date is a day of the calendar, in the notation of its syntax, and periods do not run backwards."""
    for node in terms.root.walk():
        if terms.syntax == "UBL":
            if node.name.endswith("Date") and not node.children and not (DAY.fullmatch(node.text) and date(node)):
                yield _bad_day(terms, node, "YYYY-MM-DD")
        elif node.name in ("DateTimeString", "DateString"):
            form = node.attributes.get("format")
            if form in ("610", "616") and terms.syntax != "CII":
                continue  # a month or a week, which ZUGFeRD 1.0 allows
            if form != "102" or not re.fullmatch(r"\d{8}", node.text) or date(node) is None:
                yield _bad_day(terms, node, "format 102, YYYYMMDD")
    for start, end, rule in [(*terms.period, "BR-29"), *((*line.period, "BR-30") for line in terms.lines)]:
        first, last = date(start), date(end)
        if first and last and last < first:
            yield error("period", rule, "einvoice.period_reversed", end=last, start=first)
    issued = date(terms.issued)
    for due in map(date, terms.due):
        if issued and due and due < issued:
            yield warning("due_before_issue", "", "einvoice.due_before_issue", "due_date", due=due, issued=issued)
    if issued and issued > datetime.date(2099, 12, 31):
        yield warning("date_far", "", "einvoice.date_in_future", "invoice_date", date=issued)


def _bad_day(terms: InvoiceTerms, node: XmlNode, expected: str) -> Issue:
    name = "invoice_date" if node is terms.issued else "due_date" if node in terms.due else ""
    rule = "xs:date" if terms.syntax == "UBL" else "CII-DT-097"
    if date(node) is None and re.fullmatch(r"\d{8}|\d{4}-\d\d-\d\d", node.text):
        return error("date_impossible", rule, "einvoice.no_such_day", *([name] if name else []), date=node.text)
    fields = [name] if name else []
    return error("date_notation", rule, "einvoice.date_format", *fields, value=quote_value(node.text), text=expected)


def sums(terms: InvoiceTerms, rank: int) -> Iterator[Issue]:
    """BR-CO-10 to BR-CO-16: the totals add up, to the cent."""
    values = {name: number(node) for name, node in terms.sums.items()}
    lines, basis, tax, total, due = (values.get(name) for name in ("lines", "basis", "tax", "total", "due"))
    zero = Decimal(0)
    counted = [line for line in terms.lines if line.counts]
    if lines is not None and counted:
        yield from _equal(
            "BR-CO-10",
            Message("term.lines"),
            total_of(line.amount for line in counted),
            Message("term.their_total"),
            lines,
        )
    for name, is_charge, rule in (("allowances", False, "BR-CO-11"), ("charges", True, "BR-CO-12")):
        parts = [charge.amount for charge in terms.charges if charge.is_charge is is_charge]
        if parts or values.get(name):
            yield from _equal(
                rule, Message(f"term.{name}"), total_of(parts), Message("term.their_total"), values.get(name) or zero
            )
    if lines is not None and basis is not None:
        expected = lines - (values.get("allowances") or zero) + (values.get("charges") or zero)
        yield from _equal(
            "BR-CO-13",
            Message("term.lines_allowances_charges"),
            expected,
            Message("term.total_without_tax"),
            basis,
            "subtotal",
        )
    if tax is not None and terms.taxes:
        breakdown = total_of(part.amount for part in terms.taxes)
        yield from _equal("BR-CO-14", Message("term.vat_breakdown"), breakdown, Message("term.total_tax"), tax, "tax")
    if basis is not None and total is not None:
        expected = basis + (tax or zero)
        yield from _equal(
            "BR-CO-15",
            Message("term.total_plus_tax"),
            expected,
            Message("term.total"),
            total,
            "subtotal",
            "tax",
            "total",
        )
    if total is not None and due is not None and rank >= 1:  # MINIMUM has no prepaid amount
        expected = total - (values.get("prepaid") or zero) + (values.get("rounding") or zero)
        yield from _equal(
            "BR-CO-16", Message("term.total_prepaid_rounding"), expected, Message("term.amount_due"), due, "total"
        )
    if due is not None and due > 0 and rank >= 2 and not terms.due and not any(map(text_of, terms.terms)):
        yield error("missing", "BR-CO-25", "einvoice.no_due_date", "due_date")


def _equal(rule: str, left: str, expected: Decimal, right: str, found: Decimal, *fields: str) -> Iterator[Issue]:
    if abs(expected - found) >= CENT / 2:
        yield error(
            "sum",
            rule,
            "einvoice.sums_differ",
            *fields,
            detail=left,
            amount=f"{expected:.2f}",
            right=right,
            found=f"{found:.2f}",
        )


def lines(terms: InvoiceTerms, rank: int) -> Iterator[Issue]:
    """Prices are not negative, identifiers are unique, and quantity times price is the amount."""
    names: set[str] = set()
    for line in terms.lines:
        name = text_of(line.id)
        for price, rule in ((line.price, "BR-27"), (line.gross, "BR-28")):
            if (value := number(price)) is not None and value < 0:
                yield error("price_negative", rule, "einvoice.price_negative", "line_items", line=name, amount=value)
        if name and name in names:
            yield warning("line_twice", "", "einvoice.line_identifier_twice", "line_items", line=name)
        names.add(name)
        expected = amount_of(line)
        found = number(line.amount)
        if expected is not None and found is not None and abs(expected - found) > SLACK:
            message = Message("einvoice.line_amount_differs", line=name, amount=f"{expected:.2f}", found=f"{found:.2f}")
            yield warning("line_amount", "", message, "line_items")


def amount_of(line: InvoiceLine) -> Decimal | None:
    """Quantity times price, with the line's own allowances and charges."""
    quantity, price, per = number(line.quantity), number(line.price), number(line.per)
    if quantity is None or price is None:
        return None
    extra = sum((number(c.amount) or Decimal(0)) * (1 if c.is_charge else -1) for c in line.charges)
    return round_to_cent(quantity * price / (per or 1)) + extra


def total_of(nodes: Iterable[XmlNode | None]) -> Decimal:
    """The sum of the nodes' numbers."""
    return sum((number(node) or Decimal(0) for node in nodes), Decimal(0))


def round_to_cent(value: Decimal) -> Decimal:
    """Rounds to the cent, half away from zero."""
    return value.quantize(CENT, ROUND_HALF_UP)


RULES: tuple[InvoiceRule, ...] = (presence, notation, days, sums, lines)
