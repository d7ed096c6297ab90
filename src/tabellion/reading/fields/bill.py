"""Invoices and receipts: their sums, dates, parties and items, read together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal
from functools import cached_property

from tabellion.messages import Message
from tabellion.reading.boosting.mend import AmountCorrection, mend_amounts
from tabellion.reading.fields.answer import FieldAnswer, answer_at, answer_of, beside
from tabellion.reading.fields.candidates import FieldCandidate
from tabellion.reading.fields.codes import read_codes, read_ibans, read_tax_numbers
from tabellion.reading.fields.currency import read_currency
from tabellion.reading.fields.dates import read_dates
from tabellion.reading.fields.labelled_text import LabelledText
from tabellion.reading.fields.parties import Party, read_customer, read_vendor
from tabellion.reading.fields.sums import SUMS, Sums, read_sums
from tabellion.reading.fields.table import LineItem, heads_a_column, read_items
from tabellion.reading.fields.taxes import read_taxes
from tabellion.reading.fields.values import digits, money
from tabellion.reading.page import around

CENT = Decimal("0.02")
GUESSED = 0.65  # confidence limit of a date whose day and month could be swapped, where nothing decides
#: Words of a payment, and the method they mean.
_METHODS = {
    "cash": "cash|especes|comptant|bar|bargeld|tunai|argent",
    "card": "visa|mastercard|master|card|carte|karte|amex|girocard|ec karte|cb",
    "debit": "debit|interac|bank card", "cheque": "cheque|check|chèque|scheck",
    "transfer": "virement|transfer|uberweisung",
    "mobile": "touch n go|tng|grabpay|e-wallet|boost|apple pay|google pay|paypal",
}  # fmt: skip


def _in_time(dates: dict[str, list[FieldCandidate]]) -> bool:
    issued, due = dates.get("invoice_date"), dates.get("due_date")
    return not issued or not due or due[0].value >= issued[0].value


class Bill:
    """The contents of an invoice or a receipt; each part is read once, on first use."""

    def __init__(self, doc: LabelledText) -> None:
        self.doc = doc
        self.readers: dict[str, Callable[[], FieldAnswer | None]] = {
            "vendor": self._vendor, "vendor_address": self._vendor_address, "customer": self._customer,
            "invoice_number": self._number, "invoice_date": lambda: self._date("invoice_date"),
            "due_date": lambda: self._date("due_date"), "currency": lambda: answer_of(read_currency(doc)),
            "subtotal": lambda: self._sum("subtotal"), "tax": lambda: self._sum("tax"),
            "total": lambda: self._sum("total"),
            "taxes": self._taxes, "line_items": self._items, "payment": self._payment,
            "iban": lambda: answer_of(read_ibans(doc)), "vendor_tax_id": self._tax_id,
            "tax_ids": self._tax_ids,
        }  # fmt: skip

    @cached_property
    def items(self) -> list[LineItem]:
        """The line items."""
        return read_items(self.doc)

    @cached_property
    def sums(self) -> Sums:
        """Subtotal, tax and total."""
        return read_sums(self.doc, self.items)

    @cached_property
    def vendor(self) -> Party:
        """The sender."""
        return read_vendor(self.doc)

    @cached_property
    def customer(self) -> Party:
        """The recipient."""
        return read_customer(self.doc)

    @cached_property
    def dates(self) -> dict[str, list[FieldCandidate]]:
        """Issue and due dates; where the order of day and month is unknown, the order that puts the due date last."""
        dates = read_dates(self.doc)
        if self.doc.order_guessed and not _in_time(dates):
            swapped = replace(self.doc, order="dmy" if self.doc.order == "mdy" else "mdy")
            other = read_dates(swapped)
            return other if _in_time(other) else dates
        return dates

    @cached_property
    def _misread_digit(self) -> AmountCorrection | None:
        """The one misread digit that would make the labelled sums close, on scans."""
        candidates = [self.sums.labelled.get(name) for name in SUMS]
        if self.sums.closes or any(candidate is None or candidate.line.source != "ocr" for candidate in candidates):
            return None
        subtotal, tax, total = (money(candidate.value) for candidate in candidates if candidate is not None)
        return mend_amounts((subtotal, tax), total)

    def _vendor(self) -> FieldAnswer | None:
        party = self.vendor
        if not party.name:
            return None
        return answer_at(
            "vendor", party.name, party.lines, min(party.score / 8, 1.5), margin=party.margin / 3,
            reasons=list(party.reasons),
        )  # fmt: skip

    def _vendor_address(self) -> FieldAnswer | None:
        party = self.vendor
        if not party.address.text:
            return None
        looks = party.address.certainty() + 0.3 * min(party.score / 8, 1.0)
        reasons = (
            [Message("reason.under_name")]
            if party.address.lines[0].number - party.lines[-1].number in (0, 1, 2)
            else [Message("reason.elsewhere")]
        )
        return answer_at(
            "vendor_address", party.address.text, party.address.lines, looks, margin=party.margin / 3, reasons=reasons
        )  # fmt: skip

    def _customer(self) -> FieldAnswer | None:
        party = self.customer
        if not party.name or (self.vendor.name and party.name.casefold() == self.vendor.name.casefold()):
            return None
        return answer_at("customer", party.name, party.lines, party.score, reasons=list(party.reasons))

    def _number(self) -> FieldAnswer | None:
        return answer_of(read_codes(self.doc, "invoice_number"))

    def _date(self, name: str) -> FieldAnswer | None:
        found = self.dates.get(name) or []
        if name == "due_date":
            found = [candidate for candidate in found if candidate.score >= 0.5]
        answer = answer_of(found, found[0].value.isoformat()) if found else None
        if answer and not found[0].found.sure and self.doc.order_guessed:
            answer.doubts.append(Message("reason.date_ambiguous"))
            answer.ceiling = GUESSED
        issued = self.dates.get("invoice_date") or []
        if answer and name == "due_date" and issued and found[0].value < issued[0].value:
            answer.doubts.append(Message("reason.before_issue"))
        return answer

    def _sum(self, name: str) -> FieldAnswer | None:
        chosen: FieldCandidate | None = getattr(self.sums, name)
        if chosen is None:
            return None
        answer = answer_of([chosen], money(chosen.value))
        if answer is None:
            return None
        answer.margin, answer.rivals, answer.others = self.sums.margin, self.sums.rivals, self.sums.weighed[name]
        if self.sums.closes:
            answer.proofs.append(Message("reason.arithmetic_closes"))
        elif self.sums.subtotal and self.sums.tax:
            answer.doubts.append(Message("reason.arithmetic_open"))
        if self._misread_digit and self._misread_digit.position == SUMS.index(name):
            answer.doubts.append(
                Message("reason.perhaps", amount=self._misread_digit.after, detail=self._misread_digit.reason)
            )
            answer.others = [replace(chosen, value=Decimal(self._misread_digit.after)), *answer.others]
        if name == "total":
            answer.proofs += self.sums.proofs
        if name == "subtotal" and self.items and abs(sum(item.amount for item in self.items) - chosen.value) <= CENT:
            answer.proofs.append(Message("reason.items_add_up"))
        answer.reasons[-1] = beside(answer.rivals)
        return answer

    def _items(self) -> FieldAnswer | None:
        items = self.items
        if not items:
            return None
        total = sum((item.amount for item in items), Decimal())
        sums = [candidate.value for candidate in (self.sums.subtotal, self.sums.total) if candidate]
        lines = [line for item in items for line in item.lines]
        first_page = [line for line in lines if line.page == items[0].page]
        answer = answer_at(
            "line_items", [item.as_dict() for item in items], first_page,
            sum(item.checked for item in items) / len(items),
        )  # fmt: skip
        answer.box = around([line.box for line in first_page])
        answer.quote = "\n".join(line.text for line in items[0].lines)
        if any(abs(total - value) <= CENT * len(items) for value in sums):
            answer.proofs.append(Message("reason.items_add_up"))
        elif sums:
            answer.doubts.append(Message("reason.items_open"))
        if any(heads_a_column(item.description) for item in items):
            answer.doubts.append(Message("reason.heading_as_item"))
        answer.reasons = [
            Message("reason.rows", n=len(items)),
            Message("reason.rows_priced", n=sum(item.checked for item in items)),
        ]
        return answer

    def _taxes(self) -> FieldAnswer | None:
        subtotal, tax = self.sums.subtotal, self.sums.tax
        taxes = read_taxes(self.doc, subtotal.value if subtotal else None, tax.value if tax else None)
        if not taxes:
            return None
        rows = [
            {
                "name": row.name or None, "rate": digits(row.rate) if row.rate is not None else None,
                "base": money(row.base) if row.base is not None else None, "amount": money(row.amount),
            }
            for row in taxes
        ]  # fmt: skip
        proofs = [Message("reason.make_the_tax")] if tax is not None else []
        return answer_at("taxes", rows, [row.line for row in taxes], 1.0, proofs=proofs)

    def _payment(self) -> FieldAnswer | None:
        for label in self.doc.find_labels("tendered", "payment"):
            for method, words in _METHODS.items():
                if label.phrase in words.split("|"):
                    return answer_at("payment", method, [label.line], 0.9 if label.leads else 0.6)
        return None

    def _tax_id(self) -> FieldAnswer | None:
        found = self._own(read_tax_numbers(self.doc))
        return answer_of(found or read_codes(self.doc, "vendor_tax_id"))

    def _tax_ids(self) -> FieldAnswer | None:
        found = self._own(read_tax_numbers(self.doc))
        if not found:
            return None
        numbers = [{"kind": candidate.how, "number": candidate.value} for candidate in found]
        return answer_at("tax_ids", numbers, [candidate.line for candidate in found][:1], 0.8)

    def _own(self, found: Sequence[FieldCandidate]) -> list[FieldCandidate]:
        """The candidates outside the customer's block."""
        customer_lines = self.doc.customer_lines
        return [candidate for candidate in found if candidate.line.number not in customer_lines]
