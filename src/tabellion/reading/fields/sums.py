"""Subtotal, tax and total, chosen together: the best labelled three whose arithmetic closes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import combinations

from tabellion.messages import Message
from tabellion.reading.fields.candidates import ALONE, FieldCandidate, Parser, find_labelled
from tabellion.reading.fields.labelled_text import LabelledText
from tabellion.reading.fields.table import LineItem, columns_of
from tabellion.reading.fields.values import Amount, amounts, fold_in_place

CENT = Decimal("0.02")  # sums of rounded amounts are off by a cent or two
LOWEST, HIGHEST = Decimal("0.015"), Decimal("0.28")  # existing tax rates, as a share of the base
MANY = 160  # amounts that are combined with each other
MOST = 7  # candidates per role that are combined with those of the other roles
SUMS = ("subtotal", "tax", "total")
#: Other amounts on a bill; recognising them keeps them from being taken for the total, and helps to prove it.
ROLES = ("tendered", "change", "rounding", "discount", "charge", "paid", "due")


def _phrases(text: str) -> frozenset[str]:
    return frozenset(text.split("|"))


_RATES = "5 5.5 6 7 7.7 8 8.1 8.875 9.975 10 12 13 14.975 15 16 17 19 20 21 22 23 24 25"
RATES = frozenset(map(Decimal, _RATES.split()))
#: Phrases that mean the amount to pay without the ambiguity of "total".
_FINAL = _phrases(
    "grand total|total ttc|montant ttc|net a payer|montant total|gesamtbetrag|rechnungsbetrag|bruttosumme|gesamtsumme|"
    "endbetrag|rechnungssumme brutto|total amount|amount due|total due|total payable|net total|nett total|invoice "
    "total|"
    "total after rounding|rounded total|net total rounded|total amount due|montant du|bruttobetrag|total toutes taxes"
)
#: Phrases that mean the total on one document and the sum before tax on another.
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
    """The chosen sums and the evidence for them."""

    subtotal: FieldCandidate | None = None
    tax: FieldCandidate | None = None
    total: FieldCandidate | None = None
    closes: bool = False  #: subtotal and tax, both printed, make the total
    proofs: list[str] = field(default_factory=list)
    labelled: dict[str, FieldCandidate] = field(
        default_factory=dict
    )  #: the best candidate of each role by its label alone
    rivals: int = 0  #: other values that were nearly as good for the total
    margin: float = 0.0
    weighed: dict[str, list[FieldCandidate]] = field(
        default_factory=dict
    )  #: all candidates of each role, the best first


def money_parser(doc: LabelledText) -> Parser:
    """A parser that finds amounts that look like money in this document's notation."""

    def parse(text: str) -> Iterator[Amount]:
        for amount in amounts(text, doc.mark):
            if not amount.percent and (amount.decimals == 2 or (amount.currency and amount.decimals in (0, 1))):
                yield amount

    return parse


def read_sums(doc: LabelledText, items: Sequence[LineItem] = ()) -> Sums:
    """The best subtotal, tax and total of a document; `items` are its line items, if any were found."""
    parse = money_parser(doc)
    roles: dict[str, list[FieldCandidate]] = {}
    for candidate in find_labelled(doc, ("subtotal", "tax", "total", *ROLES), parse, strangers=True):
        if candidate.how == "below" and _heads_items(doc, candidate):
            continue
        candidate.field = _role(candidate)
        candidate.score *= _weight(candidate)
        roles.setdefault(candidate.field, []).append(candidate)
        if candidate.label and candidate.label.phrase in _EITHER and candidate.label.taxed is None:
            other = "subtotal" if candidate.field == "total" else "total"
            roles.setdefault(other, []).append(_as(other, candidate, 0.85))
    totals, subtotals, taxes = (_best(roles.get(name, ())) for name in ("total", "subtotal", "tax"))
    by_label = {
        name: candidates[0] for name, candidates in zip(SUMS, (subtotals, taxes, totals), strict=True) if candidates
    }
    taxes += _sums_of(taxes)
    _add(totals, _best(_due(roles), 2))
    makeshift = [_as("total", subtotal, 0.5) for subtotal in subtotals]  # some receipts print only a subtotal
    _add(totals, makeshift)
    for candidates, closing in zip(
        (subtotals, taxes, totals), _closures(doc, parse, items, (subtotals, taxes, totals)), strict=True
    ):
        _add(candidates, closing)
    if not totals:
        totals = _best(_find_unlabelled(doc, parse), 3)
    totals = [total for total in totals if total.value] or totals
    largest = max((abs(total.value) for total in totals if total not in makeshift), default=Decimal()) or Decimal(1)
    chosen, best, second = Sums(), float("-inf"), float("-inf")
    for total in totals:
        proofs, evidence = _proofs(total, roles, items)
        top = max(
            (_weigh(total, subtotal, tax, roles) for subtotal in [None, *subtotals] for tax in [None, *taxes]),
            key=lambda weighed: weighed[0],
        )
        size = 0.0 if total in makeshift else float(min(abs(total.value) / largest, Decimal(1)))
        score = total.score + evidence + top[0] + size
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


def _role(candidate: FieldCandidate) -> str:
    """The role of a sum by its label and the words around it; empty where it counts pieces.

    A total without tax is a subtotal.
    """
    label = candidate.label
    if label is None or candidate.field not in ("total", "subtotal", "tax"):
        return candidate.field
    if label.taxed is not None and candidate.field in ("total", "subtotal"):
        return "total" if label.taxed else "subtotal"
    around = fold_in_place(label.line.text)
    if candidate.field == "total" and (after := _AFTER_TOTAL.match(around, label.end)):
        return "tax" if after["tax"] else ""
    if candidate.field == "total" and _TAX_BEFORE.search(around[: label.start]):
        return "tax"
    if candidate.field in ("total", "subtotal") and _WITHOUT.search(around[: label.start]):
        return "subtotal"
    return candidate.field


def _heads_items(doc: LabelledText, candidate: FieldCandidate) -> bool:
    """Whether the label heads a column of items or of a tax summary: the value below it is not a sum."""
    if candidate.label is None:
        return False
    kinds = {column.kind for column in columns_of(doc.layout.row(candidate.label.line))}
    return len(kinds - {"tax_rate"}) >= 2 or (candidate.label.phrase in _WEAK and len(kinds) >= 1)


def _as(name: str, candidate: FieldCandidate, factor: float) -> FieldCandidate:
    """A copy of the candidate in another role."""
    return FieldCandidate(
        name,
        candidate.value,
        candidate.line,
        candidate.start,
        candidate.end,
        candidate.score * factor,
        candidate.label,
        candidate.how,
        candidate.found,
    )


def _weight(candidate: FieldCandidate) -> float:
    """The factor for a candidate's score by the words of its label."""
    phrase = candidate.label.phrase if candidate.label else ""
    factor = 1.1 if phrase in _FINAL else 0.6 if phrase in _WEAK else 0.85
    if candidate.label and not candidate.label.leads:
        factor *= 0.8
    if candidate.field == "total" and candidate.value <= 0:
        factor *= 0.3
    return factor


def _best(found: Iterable[FieldCandidate], most: int = MOST) -> list[FieldCandidate]:
    """The best candidate of each value; a value that is printed several times scores a little more."""
    best: dict[Decimal, FieldCandidate] = {}
    for candidate in found:
        known = best.get(candidate.value)
        if known is None:
            best[candidate.value] = candidate
        elif known.key != candidate.key:
            winner = candidate if candidate.score > known.score else known
            winner.score = max(candidate.score, known.score) + 0.08
            best[candidate.value] = winner
    return sorted(best.values(), key=lambda candidate: -candidate.score)[:most]


def _due(roles: dict[str, list[FieldCandidate]]) -> list[FieldCandidate]:
    """The amounts due as totals: they are equal where nothing was paid before."""
    return [_as("total", candidate, 0.9) for candidate in roles.get("due", ()) if candidate.value > 0]


def _find_unlabelled(doc: LabelledText, parse: Parser) -> Iterator[FieldCandidate]:
    """Amounts without a label as totals: the larger, the likelier."""
    for line in doc.layout.lines:
        for amount in parse(line.text):
            if amount.value > 0 and not any(
                label.field in ("tendered", "change", "tax") for label in doc.on_line.get(line.number, ())
            ):
                size = float(min(amount.value, Decimal(10_000))) / 100_000
                yield FieldCandidate(
                    "total", amount.value, line, amount.start, amount.end, ALONE + size, None, "unlabelled", amount
                )


def _closures(
    doc: LabelledText,
    parse: Parser,
    items: Sequence[LineItem],
    known: tuple[list[FieldCandidate], list[FieldCandidate], list[FieldCandidate]],
) -> tuple[list[FieldCandidate], list[FieldCandidate], list[FieldCandidate]]:
    """Unlabelled amounts that complete a base, its tax and their sum, where labelled amounts are the rest.

    The tax or the other two must have a label: any two prices may look like a sum and its tax.
    """
    goods = {line.number for item in items for line in item.lines}
    places: dict[Decimal, FieldCandidate] = {}
    for line in doc.layout.lines:
        for amount in parse(line.text) if line.number not in goods else ():
            places.setdefault(
                amount.value,
                FieldCandidate("", amount.value, line, amount.start, amount.end, ALONE, None, "unlabelled", amount),
            )
    bases, taxes, sums = ({candidate.value for candidate in candidates} for candidates in known)
    found: tuple[dict[Decimal, FieldCandidate], ...] = ({}, {}, {})
    values = sorted(places, key=abs)[-MANY:]
    for base in values:
        for tax in values if base else ():
            total = base + tax
            if not tax or tax / base > HIGHEST or tax / base < LOWEST or total not in places:
                continue
            if tax in taxes or (base in bases) + (total in sums) == 2:
                for by_value, value in zip(found, (base, tax, total), strict=True):
                    by_value[value] = places[value]
    closing = [
        [_as(name, candidate, 1.0) for candidate in by_value.values()]
        for name, by_value in zip(("subtotal", "tax", "total"), found, strict=True)
    ]
    return closing[0], closing[1], closing[2]


def _add(known: list[FieldCandidate], more: Iterable[FieldCandidate]) -> None:
    """Adds the candidates with new values."""
    values = {candidate.value for candidate in known}
    known += [candidate for candidate in more if candidate.value not in values]


def _sums_of(taxes: Sequence[FieldCandidate]) -> list[FieldCandidate]:
    """Sums of taxes that are printed separately."""
    sums = []
    distinct = [tax for tax in taxes if tax.value > 0][:5]
    for size in (2, 3):
        for group in combinations(distinct, size):
            if len({tax.key for tax in group}) == size:
                score = min(tax.score for tax in group) - 0.1 * size
                first = group[0]
                value = sum((tax.value for tax in group), Decimal())
                joined = FieldCandidate(
                    "tax",
                    value,
                    first.line,
                    first.start,
                    first.end,
                    score,
                    first.label,
                    "sum_of_taxes",
                    first.found,
                )
                joined.reasons.append(
                    Message(
                        "reason.sum_of", text=", ".join(str(tax.value) for tax in group[:-1]), amount=group[-1].value
                    )
                )
                sums.append(joined)
    return sums


def _weigh(
    total: FieldCandidate,
    subtotal: FieldCandidate | None,
    tax: FieldCandidate | None,
    roles: dict[str, list[FieldCandidate]],
) -> tuple[float, FieldCandidate | None, FieldCandidate | None, bool]:
    places = {candidate.key for candidate in (total, subtotal, tax) if candidate is not None}
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
    extras = [
        candidate.value for name in ("rounding", "discount", "charge", "paid") for candidate in roles.get(name, ())
    ]
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


def _proofs(
    total: FieldCandidate, roles: dict[str, list[FieldCandidate]], items: Sequence[LineItem]
) -> tuple[list[str], float]:
    """What else in the document confirms the total, and how much that is worth."""
    proofs: list[str] = []
    score = 0.0
    tendered = {candidate.value for candidate in roles.get("tendered", ())}
    change = {candidate.value for candidate in roles.get("change", ())}
    if any(abs(paid - back - total.value) <= CENT for paid in tendered for back in change if paid > 0):
        proofs.append(Message("reason.cash_less_change"))
        score += 0.8
    elif total.value in tendered:
        proofs.append(Message("reason.paid_in_full"))
        score += 0.25
    earlier = [
        candidate.value
        for candidate in roles.get("total", ())
        if candidate.line.number < total.line.number and candidate.value != total.value
    ]
    if any(
        abs(value + part.value - total.value) < CENT / 2
        for value in earlier
        for part in roles.get("rounding", ())
        if part.value
    ):
        proofs.append(Message("reason.rounded"))
        score += 0.6
    if items and abs(sum((item.amount for item in items), Decimal()) - total.value) <= CENT:
        proofs.append(Message("reason.items_add_up"))
        score += 0.4
    return proofs, score


def _drop_impossible(sums: Sums) -> Sums:
    """Drops a subtotal above the total and a tax that is not a part of it."""
    total = sums.total
    if total is None:
        return sums
    if sums.subtotal and sums.subtotal.value > total.value > 0 and not sums.closes:
        sums.subtotal = None
    if sums.tax and not sums.closes and sums.tax.value >= total.value > 0:
        sums.tax = None
    return sums
