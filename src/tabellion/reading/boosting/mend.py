"""Digits that contradict the arithmetic: the one misread sign that makes a sum close is proposed, never just put in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal

from tabellion.messages import Message
from tabellion.reading.grounding.variants import CONFUSED, decimal_of

#: Digits that OCR takes for each other.
LOOKALIKES = {
    "0": "689", "1": "74", "2": "7", "3": "8", "4": "19", "5": "68", "6": "058", "7": "12", "8": "03569", "9": "048",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Mend:
    """A proposed correction of one amount."""

    position: int  #: which of the amounts; the total comes after its parts
    before: str
    after: str
    reason: str


def mend_amounts(parts: Sequence[str], total: str) -> Mend | None:
    """The one reading of one sign that makes the parts add up to the total.

    None when they add up already, when no single sign explains the difference, and when several would: a guess among
    several is none.
    """
    amounts = [*parts, total]
    values = [decimal_of(text) for text in amounts]
    if len(parts) < 2 or sum(value is None for value in values) > 1 or (None not in values and _closes(values)):
        return None
    found = []
    for position, text in enumerate(amounts):
        if None in values and values[position] is not None:
            continue  # the one that is no number is the one to mend
        for other, what in _readings(text):
            value = decimal_of(other)
            if value is not None and _closes([*values[:position], value, *values[position + 1 :]]):
                found.append((position, other, what))
    if len(found) != 1:
        return None
    position, after, what = found[0]
    sum_ = " + ".join(after if number == position else text for number, text in enumerate(parts))
    closing = after if position == len(parts) else total
    return Mend(position, amounts[position], after, Message("reason.misread", detail=what, text=f"{sum_} = {closing}"))


def _closes(values: Sequence[Decimal | None]) -> bool:
    known = [value for value in values if value is not None]
    return len(known) == len(values) and sum(known[:-1]) == known[-1]


def _readings(text: str) -> Iterator[tuple[str, str]]:
    """The text with one kind of sign read otherwise: every letter that stands for a digit, or one digit."""
    mended = text.translate(CONFUSED)
    wrong = [sign for sign in text if sign.translate(CONFUSED) != sign]
    if wrong:
        meant = "".join(wrong).translate(CONFUSED)
        yield (
            mended,
            Message("reason.read_for", sign=" ".join(dict.fromkeys(wrong)), other=" ".join(dict.fromkeys(meant))),
        )
        return
    for at, sign in enumerate(text):
        for other in LOOKALIKES.get(sign, ""):
            yield text[:at] + other + text[at + 1 :], Message("reason.read_for", sign=sign, other=other)
