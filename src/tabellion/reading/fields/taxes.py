"""The taxes of a bill, one by one: which, at what rate, on what, how much."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal

from tabellion.reading.fields.layout import Line
from tabellion.reading.fields.sheet import Sheet
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


def read_taxes(sheet: Sheet, subtotal: Decimal | None, tax: Decimal | None) -> list[Tax]:
    """Rows with a rate whose numbers prove each other, or that name a tax and together make the tax that was read."""
    proven: dict[tuple[Decimal, Decimal], Tax] = {}
    named: dict[tuple[str, Decimal], Tax] = {}
    for row in sheet.layout.rows:
        text = "  ".join(line.text for line in row)
        found = list(amounts(text, sheet.mark))
        money = [one.value for one in found if not one.percent and one.decimals == 2 and one.value > 0]
        rates = [one.value for one in found if one.percent or (one.decimals <= 3 and 0 < one.value <= 27)]
        name = _name(text)
        for rate in rates:
            pairs = [(base, part) for base in money for part in money if base != part and base > part]
            for base, part in pairs:
                if abs(base * rate / 100 - part) <= CENT and rate > 0:
                    proven.setdefault((rate, base), Tax(name, part, rate, base, row[0]))
        if name and money and not re.search(r"total|summe", fold_in_place(text)):
            rate_of = next((one.value for one in found if one.percent), None)
            named.setdefault((name, money[-1]), Tax(name, money[-1], rate_of, None, row[0]))
    for taxes in (list(proven.values()), _with_base(list(named.values()), subtotal)):
        if taxes and (tax is None or abs(sum((one.amount for one in taxes), Decimal()) - tax) <= CENT):
            return taxes
    return []


def _name(text: str) -> str:
    match = _TAX.search(fold_in_place(text))
    return _NAMES.get(match.group(), match.group().upper().replace(".", "")) if match else ""


def _with_base(taxes: list[Tax], subtotal: Decimal | None) -> list[Tax]:
    return [Tax(one.name, one.amount, one.rate, subtotal, one.line) for one in taxes] if subtotal is not None else taxes
