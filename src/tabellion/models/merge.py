"""One answer out of two witnesses: what the words were read to say, and what a model says of the same pages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from decimal import Decimal
from difflib import SequenceMatcher
from itertools import product
from typing import Any

from tabellion.messages import Message
from tabellion.models.normalise import same, well_formed
from tabellion.reading.field import Field
from tabellion.reading.fields.values import fold
from tabellion.reading.types import rules
from tabellion.reading.types.doctype import DocumentType, FieldSpec
from tabellion.reading.work import NOT_BESIDE_XML

#: Priors, as those of `evidence`: what proof by arithmetic is worth beside what both witnesses say.
CLOSES = 0.6  #: subtotal and tax make the total
ADD_UP = 0.6  #: the rows make the sum they should
MOST = 0.99
ALIKE = 0.85  #: of the letters: the same name or address, written a little differently
CENT = Decimal("0.02")
ROUNDING = Decimal("0.05")  #: that rows may miss their sum by
SUMS = ("subtotal", "tax", "total")
#: What the amounts of a table add up to.
TARGETS = {"line_items": ("subtotal", "total"), "taxes": ("tax",)}

Fields = Mapping[str, Field]


def merge_fields(words: Fields, model: Fields, doctype: DocumentType) -> dict[str, Field]:
    """The fields of both: embedded XML wins, agreement makes surer, of a contradiction the likelier side is taken."""
    exact = any(field.source == "xml" for field in words.values())
    said = {name: one for name, one in model.items() if not (exact and name in NOT_BESIDE_XML and name not in words)}
    found: dict[str, Field] = {}
    for spec in doctype.fields:
        if spec.kind != "list" and (one := _merge_field(spec, words.get(spec.name), said.get(spec.name))):
            found[spec.name] = one
    found |= _sums(words, said, found, doctype)
    for spec in doctype.fields:
        if spec.kind == "list" and (rows := _table(spec, words.get(spec.name), said.get(spec.name), found)):
            found[spec.name] = rows
    return {spec.name: found[spec.name] for spec in doctype.fields if spec.name in found}


def _merge_field(spec: FieldSpec, words: Field | None, model: Field | None) -> Field | None:
    if words is None or model is None:
        return words or model
    if words.source == "xml":
        return words if same(spec, words.value, model.value) else _note_other_value(words, model)
    if same(spec, words.value, model.value):
        return _confirm_field(words, model, both(words.confidence, model.confidence), Message("reason.model_agrees"))
    if _alike(spec, words.value, model.value):
        surest = max(words.confidence, model.confidence)
        return replace(
            _confirm_field(words, model, surest, Message("reason.model_nearly_agrees")),
            value=_likelier(words, model)[0].value,
        )
    return _contest_field(*_likelier(words, model))


def both(one: float, other: float) -> float:
    """The chance that a value is right which two witnesses give: that not both are wrong."""
    return min(1 - (1 - one) * (1 - other), MOST)


def against(one: float, other: float) -> float:
    """The chance that the first is right where the second says something else: only one of them can be."""
    alone, second, neither = one * (1 - other), other * (1 - one), (1 - one) * (1 - other)
    return alone / (alone + second + neither) if alone else 0.0


def _confirm_field(words: Field, model: Field, confidence: float, reason: str) -> Field:
    """The field of the words, which have the better box; the model's where they have none."""
    place = words if words.box is not None else model
    return replace(
        words, confidence=confidence, page=place.page, box=place.box, quote=place.quote or words.quote,
        reasons=(*words.reasons, reason),
    )  # fmt: skip


def _contest_field(winner: Field, loser: Field) -> Field:
    return _note_other_value(replace(winner, confidence=against(winner.confidence, loser.confidence)), loser)


def _note_other_value(winner: Field, loser: Field) -> Field:
    code = "reason.model_says" if loser.source == "model" else "reason.words_say"
    shown = rules.format_value(loser.value)
    return replace(winner, reasons=(*winner.reasons, Message(code, text=shown.params.get("text", shown))))


def _likelier(words: Field, model: Field) -> tuple[Field, Field]:
    return (words, model) if words.confidence >= model.confidence else (model, words)


def _alike(spec: FieldSpec, one: Any, other: Any) -> bool:
    if spec.kind not in ("name", "address", "text") or not isinstance(one, str) or not isinstance(other, str):
        return False
    return SequenceMatcher(None, fold(one), fold(other), autojunk=False).ratio() >= ALIKE


# --- sums -------------------------------------------------------------------------------------------------------


def _sums(words: Fields, model: Fields, found: Fields, doctype: DocumentType) -> dict[str, Field]:
    """Subtotal, tax and total: of what the two sides say, the three that make a sum."""
    if not all(name in found and name in doctype for name in SUMS):
        return {}
    chosen = [found[name] for name in SUMS]
    if not _closes(chosen):
        options = [list(_options(doctype.field(name), words.get(name), model.get(name))) for name in SUMS]
        closing = [picks for picks in product(*options) if _closes([field for field, _ in picks])]
        if not closing:
            return {}
        best = max(closing, key=lambda picks: picks[0][1] * picks[1][1] * picks[2][1])
        chosen = [field for field, _ in best]
    return {
        name: _raise_confidence(field, CLOSES, Message("reason.arithmetic_closes"))
        for name, field in zip(SUMS, chosen, strict=True)
    }


def _options(spec: FieldSpec, words: Field | None, model: Field | None) -> Iterator[tuple[Field, float]]:
    """Each side's value as it would stand if it were taken, and how likely it was before."""
    if words is None or model is None or words.source == "xml" or same(spec, words.value, model.value):
        if settled := _merge_field(spec, words, model):
            yield settled, settled.confidence
        return
    for one, other in ((words, model), (model, words)):
        yield _contest_field(one, other), one.confidence


def _closes(sums: list[Field]) -> bool:
    try:
        subtotal, tax, total = (Decimal(str(field.value)) for field in sums)
        return abs(subtotal + tax - total) <= CENT
    except ArithmeticError:
        return False


def _raise_confidence(field: Field, worth: float, reason: str) -> Field:
    if field.source == "xml" or reason in field.reasons:
        return field
    return replace(field, confidence=both(field.confidence, worth), reasons=(*field.reasons, reason))


# --- tables -----------------------------------------------------------------------------------------------------


def _table(spec: FieldSpec, words: Field | None, model: Field | None, found: Fields) -> Field | None:
    """The model's rows if they add up, else the side whose rows do, else the model's; other tables as any field.

    Rows whose cells are not even of their kind are no rival for rows that were read here.
    """
    if words is not None and words.source == "xml":
        return words
    sums = [found[name].value for name in TARGETS.get(spec.name, ()) if name in found]
    settled = _merge_field(spec, words, model)
    usable = model is not None and well_formed(spec, model.value)
    if words is not None and model is not None and sums and usable and not same(spec, words.value, model.value):
        taken, other = (words, model) if _adds_up(words, sums) and not _adds_up(model, sums) else (model, words)
        settled = _note_other_value(taken, other) if _adds_up(taken, sums) else _contest_field(taken, other)
    if settled is not None and sums and _adds_up(settled, sums):
        return _raise_confidence(settled, ADD_UP, Message("reason.items_add_up"))
    return settled


def _adds_up(table: Field, sums: list[Any]) -> bool:
    try:
        amounts = [Decimal(str(row["amount"])) for row in table.value]
        total = sum(amounts, Decimal())
        return bool(amounts) and any(abs(total - Decimal(str(wanted))) <= ROUNDING for wanted in sums)
    except (ArithmeticError, KeyError, TypeError):
        return False
