"""The taxes of a bill: the name, rate, base and amount of each."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal

from tabellion.reading.fields.labelled_text import LabelledText
from tabellion.reading.fields.layout import Line
from tabellion.reading.fields.values import amounts, fold_in_place

_TAX = re.compile(
    r"\b(t\.?p\.?s|t\.?v\.?q|gst|hst|pst|qst|tva|vat|mwst|ust|umsatzsteuer|mehrwertsteuer|sst|sales "
    r"tax)\b"
)
_NAMES = {"umsatzsteuer": "USt", "mehrwertsteuer": "MwSt", "ust": "USt", "mwst": "MwSt", "sales tax": "Sales tax"}
CENT = Decimal("0.02")


@dataclass(frozen=True, slots=True)
class Tax:
    """One tax of a bill."""

    name: str
    amount: Decimal
    rate: Decimal | None
    base: Decimal | None
    line: Line


def read_taxes(doc: LabelledText, subtotal: Decimal | None, tax: Decimal | None) -> list[Tax]:
    """The taxes from rows where rate × base is the amount, else from rows that name a tax; their sum must be `tax`."""
    proven: dict[tuple[Decimal, Decimal], Tax] = {}
    with_name: dict[tuple[str, Decimal], Tax] = {}
    for row in doc.layout.rows:
        text = "  ".join(line.text for line in row)
        numbers = list(amounts(text, doc.mark))
        money = [number.value for number in numbers if not number.percent and number.decimals == 2 and number.value > 0]
        rates = [
            number.value for number in numbers if number.percent or (number.decimals <= 3 and 0 < number.value <= 27)
        ]
        name = _name(text)
        for rate in rates:
            pairs = [(base, part) for base in money for part in money if base != part and base > part]
            for base, part in pairs:
                if abs(base * rate / 100 - part) <= CENT and rate > 0:
                    proven.setdefault((rate, base), Tax(name, part, rate, base, row[0]))
        if name and money and not re.search(r"total|summe", fold_in_place(text)):
            printed_rate = next((number.value for number in numbers if number.percent), None)
            with_name.setdefault((name, money[-1]), Tax(name, money[-1], printed_rate, None, row[0]))
    for taxes in (list(proven.values()), _with_base(list(with_name.values()), subtotal)):
        if taxes and (tax is None or abs(sum((row_tax.amount for row_tax in taxes), Decimal()) - tax) <= CENT):
            return taxes
    return []


def _name(text: str) -> str:
    match = _TAX.search(fold_in_place(text))
    return _NAMES.get(match.group(), match.group().upper().replace(".", "")) if match else ""


def _with_base(taxes: list[Tax], subtotal: Decimal | None) -> list[Tax]:
    return [Tax(tax.name, tax.amount, tax.rate, subtotal, tax.line) for tax in taxes] if subtotal is not None else taxes
