"""Finds a misread digit in amounts: the only change that makes a sum close is proposed, never applied."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal

from tabellion.messages import Message
from tabellion.reading.grounding.variants import CONFUSED, decimal_of

#: Digits that OCR confuses.
LOOKALIKES = {
    "0": "689", "1": "74", "2": "7", "3": "8", "4": "19", "5": "68", "6": "058", "7": "12", "8": "03569", "9": "048",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class AmountCorrection:
    """A proposed correction of one amount."""

    position: int  #: which of the amounts; the total comes after its parts
    before: str
    after: str
    reason: str


Mend = AmountCorrection  #: the former name


def mend_amounts(parts: Sequence[str], total: str) -> AmountCorrection | None:
    """The only correction of one misread character that makes the parts add up to the total.

    None when they add up already, when no single character explains the difference, and when several would: then the
    choice would be a guess.
    """
    amounts = [*parts, total]
    values = [decimal_of(text) for text in amounts]
    if len(parts) < 2 or sum(value is None for value in values) > 1 or (None not in values and _closes(values)):
        return None
    corrections = []
    for position, text in enumerate(amounts):
        if None in values and values[position] is not None:
            continue  # the amount that is not a number is the one to correct
        for corrected, explanation in _readings(text):
            value = decimal_of(corrected)
            if value is not None and _closes([*values[:position], value, *values[position + 1 :]]):
                corrections.append((position, corrected, explanation))
    if len(corrections) != 1:
        return None
    position, after, explanation = corrections[0]
    sum_ = " + ".join(after if number == position else text for number, text in enumerate(parts))
    closing = after if position == len(parts) else total
    return AmountCorrection(
        position, amounts[position], after, Message("reason.misread", detail=explanation, text=f"{sum_} = {closing}")
    )


def _closes(values: Sequence[Decimal | None]) -> bool:
    known = [value for value in values if value is not None]
    return len(known) == len(values) and sum(known[:-1]) == known[-1]


def _readings(text: str) -> Iterator[tuple[str, str]]:
    """Corrected texts with their explanations: all letters that OCR read for digits, or one digit."""
    corrected = text.translate(CONFUSED)
    letters = [sign for sign in text if sign.translate(CONFUSED) != sign]
    if letters:
        digits = "".join(letters).translate(CONFUSED)
        yield (
            corrected,
            Message("reason.read_for", sign=" ".join(dict.fromkeys(letters)), other=" ".join(dict.fromkeys(digits))),
        )
        return
    for index, letter in enumerate(text):
        for other in LOOKALIKES.get(letter, ""):
            yield text[:index] + other + text[index + 1 :], Message("reason.read_for", sign=letter, other=other)
