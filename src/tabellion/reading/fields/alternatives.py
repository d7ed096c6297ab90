"""Other values for a field: the rejected candidates of the reader, then values of the same kind in the document."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from functools import cached_property
from itertools import chain
from typing import Any

from tabellion.reading.alternative import MOST, Alternative, distinct
from tabellion.reading.fields.answer import FieldAnswer
from tabellion.reading.fields.bill import Bill
from tabellion.reading.fields.candidates import FieldCandidate
from tabellion.reading.fields.codes import read_numbers
from tabellion.reading.fields.labelled_text import LabelledText
from tabellion.reading.fields.layout import Line
from tabellion.reading.fields.sums import money_parser
from tabellion.reading.fields.values import Day, amounts, days, digits, money
from tabellion.reading.types.field_spec import FieldSpec

NAMES = ("vendor", "customer")  #: fields whose names the letterhead offers
MANY = 400  #: values of one kind that are considered; people see only the first few


class AlternativeFinder:
    """Finds alternatives for fields; values that several fields may need are searched once."""

    def __init__(self, doc: LabelledText, bill: Bill) -> None:
        self._doc, self._bill = doc, bill

    def find(self, spec: FieldSpec, answer: FieldAnswer | None) -> list[Alternative]:
        """The other values for a field, the likeliest first."""
        if spec.kind in ("list", "bool"):
            return []
        rejected = answer.others if answer is not None else ()
        pool = self._pools.get(spec.kind, _offer_nothing) if spec.name != "iban" else _offer_nothing
        if spec.name in NAMES:
            pool = self._names
        found = chain(
            _swap_day_month(answer), (_offer(spec, candidate) for candidate in rejected), self._offer_pool(spec, pool)
        )
        return distinct(answer.value if answer is not None else None, found, MOST)

    @cached_property
    def _pools(self) -> dict[str, Callable[[], Iterable[FieldCandidate]]]:
        return {
            "money": lambda: self._amounts, "date": lambda: self._days, "id": lambda: self._codes,
            "number": lambda: self._numbers, "percent": lambda: self._percents,
        }  # fmt: skip

    def _offer_pool(self, spec: FieldSpec, pool: Callable[[], Iterable[FieldCandidate]]) -> Iterator[Alternative]:
        # A generator: where enough candidates were rejected, nothing is searched.
        for candidate in pool():
            yield _offer(spec, candidate)

    @cached_property
    def _amounts(self) -> list[FieldCandidate]:
        """All money, the largest first: people usually look for a sum."""
        found = self._parse_lines(money_parser(self._doc))
        return sorted(
            (candidate for candidate in found if candidate.value), key=lambda candidate: -abs(candidate.value)
        )

    @cached_property
    def _days(self) -> list[FieldCandidate]:
        return self._parse_lines(lambda text: days(text, self._doc.order))

    @cached_property
    def _percents(self) -> list[FieldCandidate]:
        return [candidate for candidate in self._parse_lines(self._any) if candidate.found.percent]

    @cached_property
    def _numbers(self) -> list[FieldCandidate]:
        return [candidate for candidate in self._parse_lines(self._any) if not candidate.found.percent]

    @cached_property
    def _codes(self) -> list[FieldCandidate]:
        return self._parse_lines(read_numbers)

    def _names(self) -> Iterable[FieldCandidate]:
        vendor, customer = self._bill.vendor, self._bill.customer
        for party in (vendor, customer):
            if party.name:
                yield _name_candidate(party.lines[0], party.name)
        for line, name in vendor.rivals:
            yield _name_candidate(line, name)

    def _any(self, text: str) -> Iterable[Any]:
        return amounts(text, self._doc.mark)

    def _parse_lines(self, parse: Callable[[str], Iterable[Any]]) -> list[FieldCandidate]:
        found: list[FieldCandidate] = []
        for line in self._doc.layout.lines:
            if any(map(str.isdigit, line.text)):
                found += [
                    FieldCandidate("", value.value, line, value.start, value.end, 0.0, found=value)
                    for value in parse(line.text)
                ]
            if len(found) >= MANY:
                break
        return found


def _offer_nothing() -> Iterable[FieldCandidate]:
    return ()


def _name_candidate(line: Line, name: str) -> FieldCandidate:
    start = max(line.text.find(name), 0)
    return FieldCandidate("", name, line, start, min(start + len(name), len(line.text)), 0.0)


def _offer(spec: FieldSpec, candidate: FieldCandidate) -> Alternative:
    return Alternative(_format_value(spec, candidate.value), candidate.line.page, candidate.box, candidate.quote)


def _format_value(spec: FieldSpec, value: Any) -> Any:
    """The value in the form of the field's kind."""
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return money(value) if spec.kind == "money" else digits(value)
    return value


def _swap_day_month(answer: FieldAnswer | None) -> Iterator[Alternative]:
    """The answer's date with day and month swapped, where both orders are possible."""
    day = answer.found if answer is not None else None
    if answer is not None and isinstance(day, Day) and not day.sure and day.value.day <= 12:
        swapped = day.value.replace(month=day.value.day, day=day.value.month)
        yield Alternative(swapped.isoformat(), answer.page, answer.box, answer.quote)
