"""The contents of an e-invoice in any syntax: the business terms of EN 16931, as nodes of the XML."""

from __future__ import annotations

import datetime
import re
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation

from tabellion.reading.einvoice.xmltree import XmlNode

STRICT = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)")  #: xs:decimal
DATES = (
    re.compile(r"(\d{4})(\d\d)(\d\d)"),
    re.compile(r"(\d{4})-(\d\d)-(\d\d)(?:T.*|Z|[+-]\d\d:\d\d)?"),
    re.compile(r"(\d{4})[/.](\d\d)[/.](\d\d)"),
)
DAY_FIRST = re.compile(r"(\d\d)[/.-](\d\d)[/.-](\d{4})")


@dataclass(slots=True)
class TradeParty:
    """Seller or buyer."""

    name: XmlNode | None = None
    trading_name: XmlNode | None = None
    address: list[XmlNode] = field(default_factory=list)  #: the lines before the city
    postcode: XmlNode | None = None
    city: XmlNode | None = None
    country: XmlNode | None = None
    has_address: bool = False
    vat: XmlNode | None = None
    tax_number: XmlNode | None = None
    legal: XmlNode | None = None  #: registration: SIREN, Handelsregister
    ids: list[XmlNode] = field(default_factory=list)
    endpoint: XmlNode | None = None


@dataclass(slots=True)
class VatCategory:
    """A VAT category with its rate, of a line, a charge or the breakdown."""

    category: XmlNode | None = None
    rate: XmlNode | None = None
    amount: XmlNode | None = None
    basis: XmlNode | None = None
    reason: XmlNode | None = None  #: why exempt, as text or code


@dataclass(slots=True)
class Charge:
    """An allowance (subtracted) or a charge (added)."""

    is_charge: bool
    amount: XmlNode | None
    tax: VatCategory | None = None
    reason: XmlNode | None = None


@dataclass(slots=True)
class InvoiceLine:
    """One invoice line."""

    id: XmlNode | None = None
    name: XmlNode | None = None
    quantity: XmlNode | None = None
    price: XmlNode | None = None
    gross: XmlNode | None = None
    per: XmlNode | None = None  #: the number of units that the price is for
    amount: XmlNode | None = None
    tax: VatCategory | None = None
    charges: list[Charge] = field(default_factory=list)
    period: tuple[XmlNode | None, XmlNode | None] = (None, None)
    counts: bool = True  #: False for a heading or a detail whose amount is included in another line


@dataclass(slots=True)
class InvoiceTerms:
    """One invoice."""

    syntax: str  #: CII, ZUGFeRD 1.0 or UBL
    root: XmlNode
    guideline: XmlNode | None = None
    process: XmlNode | None = None
    number: XmlNode | None = None
    kind: XmlNode | None = None
    issued: XmlNode | None = None
    due: list[XmlNode] = field(default_factory=list)
    delivered: XmlNode | None = None
    period: tuple[XmlNode | None, XmlNode | None] = (None, None)
    currency: XmlNode | None = None
    tax_currency: XmlNode | None = None
    seller: TradeParty = field(default_factory=TradeParty)
    buyer: TradeParty = field(default_factory=TradeParty)
    order: XmlNode | None = None
    terms: list[XmlNode] = field(default_factory=list)
    means: list[XmlNode] = field(default_factory=list)
    accounts: list[XmlNode] = field(default_factory=list)
    notes: list[tuple[str, str]] = field(default_factory=list)  #: subject code and text
    preceding: list[tuple[XmlNode | None, XmlNode | None]] = field(default_factory=list)  #: number and date
    lines: list[InvoiceLine] = field(default_factory=list)
    charges: list[Charge] = field(default_factory=list)
    taxes: list[VatCategory] = field(default_factory=list)
    #: by name: lines, allowances, charges, basis, tax, total, prepaid, rounding, due
    sums: dict[str, XmlNode] = field(default_factory=dict)


def text_of(node: XmlNode | None) -> str:
    """The text of a node; empty without a node."""
    return node.text if node is not None else ""


def number(node: XmlNode | None) -> Decimal | None:
    """The number in a node, read leniently: a decimal comma, a thousands mark or a unit is accepted."""
    text = text_of(node)
    if STRICT.fullmatch(text):
        return Decimal(text)
    if any(letter.isalpha() for between in re.split(r"\d+", text)[1:-1] for letter in between):
        return None  # without its letters, 1.5E3 would be another number
    text = re.sub(r"[^\d.,+-]", "", text)
    comma, dot = text.rfind(","), text.rfind(".")
    text = text.replace(".", "").replace(",", ".") if comma > dot else text.replace(",", "")
    try:
        return Decimal(text)
    except InvalidOperation:
        return None


def date(node: XmlNode | None) -> datetime.date | None:
    """The date in a node, if it exists; other notations than the standard's are accepted."""
    text = text_of(node)
    for pattern in DATES:
        if match := pattern.fullmatch(text):
            return _day(match[1], match[2], match[3])
    if match := DAY_FIRST.fullmatch(text):
        return _day(match[3], match[2], match[1])
    return None


def _day(year: str, month: str, day: str) -> datetime.date | None:
    try:
        return datetime.date(int(year), int(month), int(day))
    except ValueError:
        return None


def money(value: Decimal) -> str:
    """An amount with two decimals."""
    return f"{value:.2f}"


def plain(value: Decimal, least: int = 0) -> str:
    """A number without trailing zeros, but with at least `least` decimals."""
    text = f"{value:f}"
    whole, _, decimals = text.partition(".")
    decimals = decimals.rstrip("0").ljust(least, "0")
    return f"{whole}.{decimals}" if decimals else whole
