"""The rules of EN 16931 about VAT categories: rates, bases, reasons for exemption, and required VAT numbers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from tabellion.messages import quote_value
from tabellion.reading.einvoice.rules import error, round_to_cent, warning
from tabellion.reading.einvoice.terms import InvoiceTerms, VatCategory, number, text_of
from tabellion.reading.issue import Issue

#: A validator rejects an amount that differs from base × rate by this much.
SLACK = Decimal(1)


@dataclass(frozen=True, slots=True)
class Category:
    """The requirements of a VAT category."""

    letters: str  #: in the names of its rules
    zero: bool = True  #: whether its rate must be zero
    reason: bool | None = None  #: whether a reason for exemption must (True) or must not (False) be given
    seller: bool = True  #: whether the seller's tax number is needed
    buyer: bool = False  #: whether the buyer's VAT number is needed


CATEGORIES = {
    "S": Category("S", zero=False, reason=False),
    "Z": Category("Z", reason=False),
    "E": Category("E", reason=True),
    "AE": Category("AE", reason=True, buyer=True),
    "K": Category("IC", reason=True, buyer=True),
    "G": Category("G", reason=True),
    "O": Category("O", reason=True, seller=False),
    "L": Category("AF", zero=False, reason=False),
    "M": Category("AG", zero=False, reason=False),
    "B": Category("B", zero=False),
}


def vat(terms: InvoiceTerms, rank: int) -> Iterator[Issue]:
    """The rules of every category, on the lines, the charges and the breakdown."""
    used = [line.tax for line in terms.lines if line.tax] + [charge.tax for charge in terms.charges if charge.tax]
    for tax in [*used, *terms.taxes]:
        yield from _rate(tax)
    names = {text_of(tax.category) for tax in [*used, *terms.taxes]} & set(CATEGORIES)
    for name in sorted(names):
        yield from _numbers(terms, name)
        if terms.taxes and name not in {text_of(tax.category) for tax in terms.taxes}:
            rule = f"BR-{CATEGORIES[name].letters}-01"
            yield error("vat_breakdown", rule, "einvoice.category_not_in_breakdown", "taxes", category=name)
    for tax in terms.taxes:
        yield from _breakdown(terms, tax)


def _rate(tax: VatCategory) -> Iterator[Issue]:
    name, rate = text_of(tax.category), number(tax.rate)
    if not name:
        return
    if name not in CATEGORIES:
        yield error("vat_category", "BR-CL-17", "einvoice.unknown_vat_category", "taxes", value=quote_value(name))
        return
    category = CATEGORIES[name]
    if name == "S" and rate is not None and rate <= 0:
        yield error("vat_rate", "BR-S-05", "einvoice.standard_rate_needed", "taxes")
    if category.zero and rate:
        yield error(
            "vat_rate",
            f"BR-{category.letters}-05",
            "einvoice.category_rate_unexpected",
            "taxes",
            category=name,
            rate=rate,
        )
    if rate is None and name != "O":
        yield error("vat_rate", "BR-48", "einvoice.category_rate_missing", "taxes", category=name)


def _numbers(terms: InvoiceTerms, name: str) -> Iterator[Issue]:
    category = CATEGORIES[name]
    rule = f"BR-{category.letters}-02"
    if category.seller and not (text_of(terms.seller.vat) or text_of(terms.seller.tax_number)):
        yield error("missing", rule, "einvoice.category_needs_seller_vat", "vendor_tax_id", category=name)
    if category.buyer and not (text_of(terms.buyer.vat) or (name == "AE" and text_of(terms.buyer.legal))):
        yield error("missing", rule, "einvoice.category_needs_buyer_vat", category=name)
    if name == "O" and text_of(terms.seller.vat):
        yield warning("vat_category", rule, "einvoice.outside_scope_with_vat", "vendor_tax_id")


def _breakdown(terms: InvoiceTerms, tax: VatCategory) -> Iterator[Issue]:
    name, rate, basis, amount = text_of(tax.category), number(tax.rate), number(tax.basis), number(tax.amount)
    category = CATEGORIES.get(name)
    if category is None or basis is None or amount is None:
        return
    if category.reason is True and not text_of(tax.reason):
        yield error("missing", f"BR-{category.letters}-10", "einvoice.exemption_reason_needed", "taxes", category=name)
    if category.reason is False and text_of(tax.reason):
        yield error(
            "vat_reason", f"BR-{category.letters}-10", "einvoice.exemption_reason_unexpected", "taxes", category=name
        )
    if category.zero and amount:
        yield error(
            "vat_amount",
            f"BR-{category.letters}-09",
            "einvoice.category_tax_unexpected",
            "tax",
            category=name,
            amount=f"{amount:.2f}",
        )
    elif rate is not None:
        expected = round_to_cent(basis * rate / 100)
        if (difference := abs(expected - amount)) >= Decimal("0.015"):
            build_issue = error if difference >= SLACK else warning
            yield build_issue(
                "vat_amount", "BR-CO-17", "einvoice.tax_differs", "tax", "taxes", amount=f"{basis:.2f}",
                rate=f"{rate.normalize():f}", expected=f"{expected:.2f}", found=f"{amount:.2f}",
            )  # fmt: skip
    if terms.lines:
        expected = round_to_cent(_base(terms, name, rate))
        if abs(expected - basis) >= Decimal("0.015"):
            params: dict[str, Any] = {"category": name, "amount": f"{expected:.2f}", "base": f"{basis:.2f}"}
            code = "einvoice.base_differs"
            if rate is not None:
                code, params["rate"] = "einvoice.base_differs_at_rate", f"{rate.normalize():f}"
            yield error("vat_base", f"BR-{category.letters}-08", code, "taxes", **params)


def _base(terms: InvoiceTerms, name: str, rate: Decimal | None) -> Decimal:
    total = Decimal(0)
    for line in terms.lines:
        if line.counts and _same(line.tax, name, rate):
            total += number(line.amount) or 0
    for charge in terms.charges:
        if _same(charge.tax, name, rate):
            total += (number(charge.amount) or 0) * (1 if charge.is_charge else -1)
    return total


def _same(tax: VatCategory | None, name: str, rate: Decimal | None) -> bool:
    return tax is not None and text_of(tax.category) == name and (number(tax.rate) or 0) == (rate or 0)
