"""Subtotal, tax and total, chosen together: the three that say it best and whose arithmetic closes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import combinations

from tabellion.messages import Message
from tabellion.reading.fields.candidates import ALONE, Candidate, Parser, find_labelled
from tabellion.reading.fields.sheet import Sheet
from tabellion.reading.fields.table import LineItem, columns_of
from tabellion.reading.fields.values import Amount, amounts, fold_in_place

CENT = Decimal("0.02")  # sums of rounded amounts miss by a cent or two
LOWEST, HIGHEST = Decimal("0.015"), Decimal("0.28")  # taxes there are, of what they are raised on
MANY = 160  # amounts that are tried with each other
MOST = 7  # candidates of a role that are weighed against the others'
#: Money with another job; knowing it keeps it from being taken for the total, and helps to prove the total.
SUMS = ("subtotal", "tax", "total")
ROLES = ("tendered", "change", "rounding", "discount", "charge", "paid", "due")


def _phrases(text: str) -> frozenset[str]:
    return frozenset(text.split("|"))


_RATES = "5 5.5 6 7 7.7 8 8.1 8.875 9.975 10 12 13 14.975 15 16 17 19 20 21 22 23 24 25"
RATES = frozenset(map(Decimal, _RATES.split()))
#: Phrases that say "this is the amount to pay", beyond any doubt that "total" leaves.
_FINAL = _phrases(
    "grand total|total ttc|montant ttc|net a payer|montant total|gesamtbetrag|rechnungsbetrag|bruttosumme|gesamtsumme|"
    "endbetrag|rechnungssumme brutto|total amount|amount due|total due|total payable|net total|nett total|invoice "
    "total|"
    "total after rounding|rounded total|net total rounded|total amount due|montant du|bruttobetrag|total toutes taxes"
)
#: Phrases that mean the total on one paper and the sum before tax on the next.
_EITHER = _phrases("net total|nett total|net|nett|net amount|summe|gesamt|total net|rechnungssumme|total sales|total")
_AFTER_TOTAL = re.compile(
    r"[\s.:(]*(?:(?P<tax>(?:of )?(?:gst|tax(?:es)?|tva|vat|mwst|ust|sst)\b)|(?:qty|quantity|items?|pcs|discount|"
    r"saving|points|count|no\b|number))"
)
_TAX_BEFORE = re.compile(r"\b(?:gst|tva|vat|mwst|ust|sst|tax)\b\W*$")
_WITHOUT = re.compile(r"\b(?:excl\w*|exkl\w*|ohne|hors|before)\b")
_WEAK = _phrases("amount|montant|betrag|summe|balance|solde|amt")


@dataclass(slots=True)
class Sums:
    """What was chosen, and what speaks for it."""

    subtotal: Candidate | None = None
    tax: Candidate | None = None
    total: Candidate | None = None
    closes: bool = False  #: subtotal and tax, both printed, make the total
    proofs: list[str] = field(default_factory=list)
    labelled: dict[str, Candidate] = field(default_factory=dict)  #: the best of each role by its label alone
    rivals: int = 0  #: other values that were nearly as good for the total
    margin: float = 0.0
    weighed: dict[str, list[Candidate]] = field(default_factory=dict)  #: all that each might have been, the best first


def money_parser(sheet: Sheet) -> Parser:
    """Finds amounts that look like money in this document's notation."""

    def parse(text: str) -> Iterator[Amount]:
        for one in amounts(text, sheet.mark):
            if not one.percent and (one.decimals == 2 or (one.currency and one.decimals in (0, 1))):
                yield one

    return parse


def read_sums(sheet: Sheet, items: Sequence[LineItem] = ()) -> Sums:
    """The best subtotal, tax and total of a document; `items` are its line items, if any were found."""
    parse = money_parser(sheet)
    roles: dict[str, list[Candidate]] = {}
    for one in find_labelled(sheet, ("subtotal", "tax", "total", *ROLES), parse, strangers=True):
        if one.how == "below" and _heads_items(sheet, one):
            continue
        one.field = _role(one)
        one.score *= _weight(one)
        roles.setdefault(one.field, []).append(one)
        if one.label and one.label.phrase in _EITHER and one.label.taxed is None:
            other = "subtotal" if one.field == "total" else "total"
            roles.setdefault(other, []).append(_as(other, one, 0.85))
    totals, subtotals, taxes = (_best(roles.get(name, ())) for name in ("total", "subtotal", "tax"))
    by_label = {name: part[0] for name, part in zip(SUMS, (subtotals, taxes, totals), strict=True) if part}
    taxes += _sums_of(taxes)
    _add(totals, _best(_due(roles), 2))
    makeshift = [_as("total", one, 0.5) for one in subtotals]  # on some receipts the subtotal is all there is
    _add(totals, makeshift)
    for part, made in zip(
        (subtotals, taxes, totals), _closures(sheet, parse, items, (subtotals, taxes, totals)), strict=True
    ):
        _add(part, made)
    if not totals:
        totals = _best(_find_unlabelled(sheet, parse), 3)
    totals = [total for total in totals if total.value] or totals
    largest = max((abs(one.value) for one in totals if one not in makeshift), default=Decimal()) or Decimal(1)
    chosen, best, second = Sums(), float("-inf"), float("-inf")
    for total in totals:
        proofs, worth = _proofs(total, roles, items)
        top = max(
            (_weigh(total, subtotal, tax, roles) for subtotal in [None, *subtotals] for tax in [None, *taxes]),
            key=lambda weighed: weighed[0],
        )
        size = 0.0 if total in makeshift else float(min(abs(total.value) / largest, Decimal(1)))
        score = total.score + worth + top[0] + size
        if score > best:
            second = best if chosen.total is None or chosen.total.value != total.value else second
            best = score
            chosen = Sums(top[1], top[2], total, top[3], proofs)
        elif chosen.total is not None and total.value != chosen.total.value:
            second = max(second, score)
    chosen.labelled = by_label
    chosen.weighed = dict(zip(SUMS, (subtotals, taxes, totals), strict=True))
    chosen.rivals = len({total.value for total in totals} - {chosen.total.value if chosen.total else None})
    chosen.margin = best - second if second > float("-inf") else 2.0
    return _drop_impossible(chosen)


def _role(one: Candidate) -> str:
    """What a sum's label means with the words around it: a total without tax is a subtotal, a total of pieces is "
    "none."""
    label = one.label
    if label is None or one.field not in ("total", "subtotal", "tax"):
        return one.field
    if label.taxed is not None and one.field in ("total", "subtotal"):
        return "total" if label.taxed else "subtotal"
    around = fold_in_place(label.line.text)
    if one.field == "total" and (after := _AFTER_TOTAL.match(around, label.end)):
        return "tax" if after["tax"] else ""
    if one.field == "total" and _TAX_BEFORE.search(around[: label.start]):
        return "tax"
    if one.field in ("total", "subtotal") and _WITHOUT.search(around[: label.start]):
        return "subtotal"
    return one.field


def _heads_items(sheet: Sheet, one: Candidate) -> bool:
    """Whether the label heads a column of items or of a tax summary: what stands below is no sum."""
    if one.label is None:
        return False
    kinds = {column.kind for column in columns_of(sheet.layout.row(one.label.line))}
    return len(kinds - {"tax_rate"}) >= 2 or (one.label.phrase in _WEAK and len(kinds) >= 1)


def _as(name: str, one: Candidate, worth: float) -> Candidate:
    """The same value in another role."""
    return Candidate(name, one.value, one.line, one.start, one.end, one.score * worth, one.label, one.how, one.found)


def _weight(one: Candidate) -> float:
    """How much a label's own words promise, and how late on the paper the value stands."""
    phrase = one.label.phrase if one.label else ""
    words = 1.1 if phrase in _FINAL else 0.6 if phrase in _WEAK else 0.85
    if one.label and not one.label.leads:
        words *= 0.8
    if one.field == "total" and one.value <= 0:
        words *= 0.3
    return words


def _best(found: Iterable[Candidate], most: int = MOST) -> list[Candidate]:
    """The best of each value; a value that is said more often is worth a little more."""
    best: dict[Decimal, Candidate] = {}
    for one in found:
        known = best.get(one.value)
        if known is None:
            best[one.value] = one
        elif known.key != one.key:
            winner = one if one.score > known.score else known
            winner.score = max(one.score, known.score) + 0.08
            best[one.value] = winner
    return sorted(best.values(), key=lambda one: -one.score)[:most]


def _due(roles: dict[str, list[Candidate]]) -> list[Candidate]:
    """What is left to pay is the total where nothing was paid before."""
    return [_as("total", one, 0.9) for one in roles.get("due", ()) if one.value > 0]


def _find_unlabelled(sheet: Sheet, parse: Parser) -> Iterator[Candidate]:
    """Where no label speaks, a large amount far down is the likeliest total."""
    for line in sheet.layout.lines:
        for one in parse(line.text):
            if one.value > 0 and not any(
                label.field in ("tendered", "change", "tax") for label in sheet.on_line.get(line.number, ())
            ):
                size = float(min(one.value, Decimal(10_000))) / 100_000
                yield Candidate("total", one.value, line, one.start, one.end, ALONE + size, None, "unlabelled", one)


def _closures(
    sheet: Sheet,
    parse: Parser,
    items: Sequence[LineItem],
    known: tuple[list[Candidate], list[Candidate], list[Candidate]],
) -> tuple[list[Candidate], list[Candidate], list[Candidate]]:
    """Amounts without a label that close the arithmetic with those that have one: a base, a tax of it, their sum.

    Two of the three must have a label, or the tax: any two goods may look like a sum and its tax.
    """
    goods = {line.number for item in items for line in item.lines}
    places: dict[Decimal, Candidate] = {}
    for line in sheet.layout.lines:
        for one in parse(line.text) if line.number not in goods else ():
            places.setdefault(
                one.value, Candidate("", one.value, line, one.start, one.end, ALONE, None, "unlabelled", one)
            )
    bases, taxes, sums = ({one.value for one in part} for part in known)
    found: tuple[dict[Decimal, Candidate], ...] = ({}, {}, {})
    values = sorted(places, key=abs)[-MANY:]
    for base in values:
        for tax in values if base else ():
            total = base + tax
            if not tax or tax / base > HIGHEST or tax / base < LOWEST or total not in places:
                continue
            if tax in taxes or (base in bases) + (total in sums) == 2:
                for part, value in zip(found, (base, tax, total), strict=True):
                    part[value] = places[value]
    made = [
        [_as(name, one, 1.0) for one in part.values()]
        for name, part in zip(("subtotal", "tax", "total"), found, strict=True)
    ]
    return made[0], made[1], made[2]


def _add(known: list[Candidate], more: Iterable[Candidate]) -> None:
    """Adds those whose value is not there yet."""
    values = {one.value for one in known}
    known += [one for one in more if one.value not in values]


def _sums_of(taxes: Sequence[Candidate]) -> list[Candidate]:
    """Several taxes that are printed one by one make the tax together."""
    made = []
    distinct = [tax for tax in taxes if tax.value > 0][:5]
    for size in (2, 3):
        for some in combinations(distinct, size):
            if len({tax.key for tax in some}) == size:
                score = min(tax.score for tax in some) - 0.1 * size
                one = some[0]
                value = sum((tax.value for tax in some), Decimal())
                joined = Candidate(
                    "tax",
                    value,
                    one.line,
                    one.start,
                    one.end,
                    score,
                    one.label,
                    "sum_of_taxes",
                    one.found,
                )
                joined.reasons.append(
                    Message("reason.sum_of", text=", ".join(str(tax.value) for tax in some[:-1]), amount=some[-1].value)
                )
                made.append(joined)
    return made


def _weigh(
    total: Candidate, subtotal: Candidate | None, tax: Candidate | None, roles: dict[str, list[Candidate]]
) -> tuple[float, Candidate | None, Candidate | None, bool]:
    places = {one.key for one in (total, subtotal, tax) if one is not None}
    if len(places) < 1 + (subtotal is not None) + (tax is not None):
        return float("-inf"), None, None, False  # one amount cannot be two of them
    score = (subtotal.score if subtotal else 0.0) + (tax.score if tax else 0.0)
    if subtotal is None and tax is None:
        return 0.0, None, None, False
    if subtotal is None or tax is None:
        known = subtotal or tax
        rest = total.value - known.value if known else Decimal()
        sane = rest > 0 or (known is subtotal and rest == 0)
        if tax is not None and sane and rest > 0:
            score += 0.3 if _rate(tax.value, rest) else -0.3
        return (score * 0.5 if sane else score * 0.5 - 0.8), subtotal, tax, False
    gap = total.value - subtotal.value - tax.value
    if abs(gap) <= CENT:
        bonus = 1.5 if tax.value > 0 else 0.5
        if tax.value > 0 and _rate(tax.value, subtotal.value):
            bonus += 0.3
        return score + bonus, subtotal, tax, True
    extras = [one.value for name in ("rounding", "discount", "charge", "paid") for one in roles.get(name, ())]
    if any(abs(gap - extra) <= CENT or abs(gap + extra) <= CENT for extra in extras if extra):
        return score + 0.9, subtotal, tax, True
    if abs(total.value - subtotal.value) <= CENT and 0 < tax.value < total.value:
        return score + 0.2, subtotal, tax, False  # prices with tax: the subtotal has it inside
    return score - 1.2, subtotal, tax, False


def _rate(tax: Decimal, base: Decimal) -> bool:
    """Whether the tax is a known rate of the base."""
    if base <= 0:
        return False
    return any(abs(base * rate / 100 - tax) <= CENT for rate in RATES)


def _proofs(total: Candidate, roles: dict[str, list[Candidate]], items: Sequence[LineItem]) -> tuple[list[str], float]:
    """What else on the paper says that this is the total."""
    proofs: list[str] = []
    worth = 0.0
    tendered = {one.value for one in roles.get("tendered", ())}
    change = {one.value for one in roles.get("change", ())}
    if any(abs(given - back - total.value) <= CENT for given in tendered for back in change if given > 0):
        proofs.append(Message("reason.cash_less_change"))
        worth += 0.8
    elif total.value in tendered:
        proofs.append(Message("reason.paid_in_full"))
        worth += 0.25
    earlier = [
        one.value for one in roles.get("total", ()) if one.line.number < total.line.number and one.value != total.value
    ]
    if any(
        abs(one + part.value - total.value) < CENT / 2
        for one in earlier
        for part in roles.get("rounding", ())
        if part.value
    ):
        proofs.append(Message("reason.rounded"))
        worth += 0.6
    if items and abs(sum((item.amount for item in items), Decimal()) - total.value) <= CENT:
        proofs.append(Message("reason.items_add_up"))
        worth += 0.4
    return proofs, worth


def _drop_impossible(sums: Sums) -> Sums:
    """Drops what cannot be: a subtotal above the total, a tax that is no part of it."""
    total = sums.total
    if total is None:
        return sums
    if sums.subtotal and sums.subtotal.value > total.value > 0 and not sums.closes:
        sums.subtotal = None
    if sums.tax and not sums.closes and sums.tax.value >= total.value > 0:
        sums.tax = None
    return sums
