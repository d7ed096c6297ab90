"""What an e-invoice says, whatever its syntax: the business terms of EN 16931 as they stand in the XML."""

from __future__ import annotations

import datetime
import re
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation

from tabellion.reading.einvoice.xmltree import Node

STRICT = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)")  #: xs:decimal
DATES = (
    ("102", re.compile(r"(\d{4})(\d\d)(\d\d)")),
    ("", re.compile(r"(\d{4})-(\d\d)-(\d\d)(?:T.*|Z|[+-]\d\d:\d\d)?")),
    ("", re.compile(r"(\d{4})[/.](\d\d)[/.](\d\d)")),
)
DAY_FIRST = re.compile(r"(\d\d)[/.-](\d\d)[/.-](\d{4})")


@dataclass(slots=True)
class Party:
    """Seller or buyer."""

    name: Node | None = None
    trading_name: Node | None = None
    address: list[Node] = field(default_factory=list)  #: the lines before the city
    postcode: Node | None = None
    city: Node | None = None
    country: Node | None = None
    has_address: bool = False
    vat: Node | None = None
    tax_number: Node | None = None
    legal: Node | None = None  #: registration: SIREN, Handelsregister
    ids: list[Node] = field(default_factory=list)
    endpoint: Node | None = None


@dataclass(slots=True)
class Tax:
    """A VAT category with its rate, of a line, a charge or the breakdown."""

    category: Node | None = None
    rate: Node | None = None
    amount: Node | None = None
    basis: Node | None = None
    reason: Node | None = None  #: why exempt, as text or code


@dataclass(slots=True)
class Charge:
    """An allowance (taken off) or a charge (put on)."""

    is_charge: bool
    amount: Node | None
    tax: Tax | None = None
    reason: Node | None = None


@dataclass(slots=True)
class Line:
    """One invoice line."""

    id: Node | None = None
    name: Node | None = None
    quantity: Node | None = None
    price: Node | None = None
    gross: Node | None = None
    per: Node | None = None  #: how many units the price is for
    amount: Node | None = None
    tax: Tax | None = None
    charges: list[Charge] = field(default_factory=list)
    period: tuple[Node | None, Node | None] = (None, None)
    counts: bool = True  #: False for a heading or a detail that is in another line's amount


@dataclass(slots=True)
class Terms:
    """One invoice."""

    syntax: str  #: CII, ZUGFeRD 1.0 or UBL
    root: Node
    guideline: Node | None = None
    process: Node | None = None
    number: Node | None = None
    kind: Node | None = None
    issued: Node | None = None
    due: list[Node] = field(default_factory=list)
    delivered: Node | None = None
    period: tuple[Node | None, Node | None] = (None, None)
    currency: Node | None = None
    tax_currency: Node | None = None
    seller: Party = field(default_factory=Party)
    buyer: Party = field(default_factory=Party)
    order: Node | None = None
    terms: list[Node] = field(default_factory=list)
    means: list[Node] = field(default_factory=list)
    accounts: list[Node] = field(default_factory=list)
    notes: list[tuple[str, str]] = field(default_factory=list)  #: subject code and text
    preceding: list[tuple[Node | None, Node | None]] = field(default_factory=list)  #: number and date
    lines: list[Line] = field(default_factory=list)
    charges: list[Charge] = field(default_factory=list)
    taxes: list[Tax] = field(default_factory=list)
    #: by name: lines, allowances, charges, basis, tax, total, prepaid, rounding, due
    sums: dict[str, Node] = field(default_factory=dict)


def said(node: Node | None) -> str:
    """The text of a node, or nothing."""
    return node.text if node is not None else ""


def number(node: Node | None) -> Decimal | None:
    """The number a node says, read leniently: a decimal comma or a thousands mark is understood."""
    text = said(node)
    if STRICT.fullmatch(text):
        return Decimal(text)
    text = re.sub(r"[^\d.,+-]", "", text)
    comma, dot = text.rfind(","), text.rfind(".")
    text = text.replace(".", "").replace(",", ".") if comma > dot else text.replace(",", "")
    try:
        return Decimal(text)
    except InvalidOperation:
        return None


def date(node: Node | None) -> datetime.date | None:
    """The day a node says, if there is such a day; other notations than the standard's are understood."""
    text = said(node)
    for _, pattern in DATES:
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
    """A number without needless zeros, but with at least so many decimals."""
    text = f"{value:f}"
    whole, _, decimals = text.partition(".")
    decimals = decimals.rstrip("0").ljust(least, "0")
    return f"{whole}.{decimals}" if decimals else whole
