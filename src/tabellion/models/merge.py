"""Merges two sources of fields: the local reading of the words, and a model's answer about the same pages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from decimal import Decimal
from difflib import SequenceMatcher
from itertools import product
from typing import Any

from tabellion.messages import Message
from tabellion.models.normalise import is_well_formed, same
from tabellion.reading.field import Field
from tabellion.reading.field_extraction import NOT_BESIDE_XML
from tabellion.reading.fields.values import fold
from tabellion.reading.types import rules
from tabellion.reading.types.doctype import DocumentType
from tabellion.reading.types.field_spec import FieldSpec

#: Priors, like those of `evidence`: the value of arithmetic proof beside both sources.
CLOSES = 0.6  #: subtotal plus tax is the total
ADD_UP = 0.6  #: the rows add up to their sum
MOST = 0.99
ALIKE = 0.85  #: of the letters: the same name or address, written a little differently
CENT = Decimal("0.02")
ROUNDING = Decimal("0.05")  #: accepted difference between rows and their sum
SUMS = ("subtotal", "tax", "total")
#: The fields that the amounts of a table add up to.
TARGETS = {"line_items": ("subtotal", "total"), "taxes": ("tax",)}

Fields = Mapping[str, Field]


def merge_fields(words: Fields, model: Fields, doctype: DocumentType) -> dict[str, Field]:
    """The fields of both: XML wins, agreement raises the confidence, a contradiction is decided by confidence."""
    exact = any(field.source == "xml" for field in words.values())
    by_model = {
        name: field for name, field in model.items() if not (exact and name in NOT_BESIDE_XML and name not in words)
    }
    found: dict[str, Field] = {}
    for spec in doctype.fields:
        if spec.kind != "list" and (field := _merge_field(spec, words.get(spec.name), by_model.get(spec.name))):
            found[spec.name] = field
    found |= _sums(words, by_model, found, doctype)
    for spec in doctype.fields:
        if spec.kind == "list" and (rows := _table(spec, words.get(spec.name), by_model.get(spec.name), found)):
            found[spec.name] = rows
    return {spec.name: found[spec.name] for spec in doctype.fields if spec.name in found}


def _merge_field(spec: FieldSpec, words: Field | None, model: Field | None) -> Field | None:
    if words is None or model is None:
        return words or model
    if words.source == "xml":
        return words if same(spec, words.value, model.value) else _note_other_value(words, model)
    if same(spec, words.value, model.value):
        return _confirm_field(
            words, model, confidence_of_both(words.confidence, model.confidence), Message("reason.model_agrees")
        )
    if _alike(spec, words.value, model.value):
        surest = max(words.confidence, model.confidence)
        return replace(
            _confirm_field(words, model, surest, Message("reason.model_nearly_agrees")),
            value=_likelier(words, model)[0].value,
        )
    return _contest_field(*_likelier(words, model))


def confidence_of_both(first: float, second: float) -> float:
    """The probability that a value from two sources is right: that not both are wrong."""
    return min(1 - (1 - first) * (1 - second), MOST)


def confidence_against(first: float, second: float) -> float:
    """The probability that the first is right where the second contradicts it: at most one of them is."""
    first_only, second_only, neither = first * (1 - second), second * (1 - first), (1 - first) * (1 - second)
    return first_only / (first_only + second_only + neither) if first_only else 0.0


def _confirm_field(words: Field, model: Field, confidence: float, reason: str) -> Field:
    """The field of the words, with the model's box where they have none."""
    place = words if words.box is not None else model
    return replace(
        words, confidence=confidence, page=place.page, box=place.box, quote=place.quote or words.quote,
        reasons=(*words.reasons, reason),
    )  # fmt: skip


def _contest_field(winner: Field, loser: Field) -> Field:
    return _note_other_value(replace(winner, confidence=confidence_against(winner.confidence, loser.confidence)), loser)


def _note_other_value(winner: Field, loser: Field) -> Field:
    code = "reason.model_says" if loser.source == "model" else "reason.words_say"
    shown = rules.format_value(loser.value)
    return replace(winner, reasons=(*winner.reasons, Message(code, text=shown.params.get("text", shown))))


def _likelier(words: Field, model: Field) -> tuple[Field, Field]:
    return (words, model) if words.confidence >= model.confidence else (model, words)


def _alike(spec: FieldSpec, first: Any, second: Any) -> bool:
    if spec.kind not in ("name", "address", "text") or not isinstance(first, str) or not isinstance(second, str):
        return False
    return SequenceMatcher(None, fold(first), fold(second), autojunk=False).ratio() >= ALIKE


# --- sums -------------------------------------------------------------------------------------------------------


def _sums(words: Fields, model: Fields, found: Fields, doctype: DocumentType) -> dict[str, Field]:
    """Subtotal, tax and total: the combination of both sources that makes a sum."""
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
    """Each source's field as it would be if chosen, and its confidence before."""
    if words is None or model is None or words.source == "xml" or same(spec, words.value, model.value):
        if settled := _merge_field(spec, words, model):
            yield settled, settled.confidence
        return
    for field, other in ((words, model), (model, words)):
        yield _contest_field(field, other), field.confidence


def _closes(sums: list[Field]) -> bool:
    try:
        subtotal, tax, total = (Decimal(str(field.value)) for field in sums)
        return abs(subtotal + tax - total) <= CENT
    except ArithmeticError:
        return False


def _raise_confidence(field: Field, proof: float, reason: str) -> Field:
    if field.source == "xml" or reason in field.reasons:
        return field
    return replace(field, confidence=confidence_of_both(field.confidence, proof), reasons=(*field.reasons, reason))


# --- tables -----------------------------------------------------------------------------------------------------


def _table(spec: FieldSpec, words: Field | None, model: Field | None, found: Fields) -> Field | None:
    """The model's rows if they add up, else the words' if those do, else the model's; other tables like any field.

    The model's rows are not considered where cells have the wrong kind.
    """
    if words is not None and words.source == "xml":
        return words
    sums = [found[name].value for name in TARGETS.get(spec.name, ()) if name in found]
    merged = _merge_field(spec, words, model)
    usable = model is not None and is_well_formed(spec, model.value)
    if words is not None and model is not None and sums and usable and not same(spec, words.value, model.value):
        chosen, other = (words, model) if _adds_up(words, sums) and not _adds_up(model, sums) else (model, words)
        merged = _note_other_value(chosen, other) if _adds_up(chosen, sums) else _contest_field(chosen, other)
    if merged is not None and sums and _adds_up(merged, sums):
        return _raise_confidence(merged, ADD_UP, Message("reason.items_add_up"))
    return merged


def _adds_up(table: Field, sums: list[Any]) -> bool:
    try:
        amounts = [Decimal(str(row["amount"])) for row in table.value]
        total = sum(amounts, Decimal())
        return bool(amounts) and any(abs(total - Decimal(str(expected))) <= ROUNDING for expected in sums)
    except (ArithmeticError, KeyError, TypeError):
        return False
