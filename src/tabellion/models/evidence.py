"""Turns a model's answer about a document into fields: each value normalised, and located on the pages."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tabellion.messages import Message
from tabellion.models.normalise import AMBIGUOUS, is_well_formed, normalise_value
from tabellion.reading.field import Field
from tabellion.reading.fields.values import currency
from tabellion.reading.grounding.ground import Grounding, ground
from tabellion.reading.grounding.index import Index
from tabellion.reading.page import Page, around
from tabellion.reading.types import rules
from tabellion.reading.types.doctype import DocumentType
from tabellion.reading.types.field_spec import FieldSpec

#: The confidence in a model's values before other evidence. These are priors, not measurements of any model.
GROUNDED = 0.9  #: found on the page; times the score of the match
ELSEWHERE = 0.9  #: factor where the value is on a page but not in the model's quote
UNGROUNDED = 0.5  #: not found on the pages
MALFORMED = 0.2  #: not of the field's kind
ROWS = 0.75  #: rows of a table, all of them grounded

LONGEST_QUOTE = 400  #: characters
MOST_ROWS = 1000
KINDS = {"money": "money", "number": "number", "percent": "number", "date": "date", "id": "id"}


@dataclass(frozen=True, slots=True)
class GroundedQuote:
    """The place of a model's value on the pages."""

    grounding: Grounding
    quote: str
    score: float


def evidence(answer: Mapping[str, Any], doctype: DocumentType, index: Index) -> dict[str, Field]:
    """The fields with values in a model's answer. Its page numbers are hints; boxes come only from the words."""
    found: dict[str, Field] = {}
    for spec in doctype.fields:
        entry = answer.get(spec.name)
        field = _rows(spec, entry, index, doctype) if spec.kind == "list" else _one(spec, entry, index, doctype)
        if field is not None:
            found[spec.name] = field
    return found


def _one(spec: FieldSpec, entry: Any, index: Index, doctype: DocumentType) -> Field | None:
    data = entry if isinstance(entry, Mapping) else {"value": entry}
    value = normalise_value(spec, data.get("value"), doctype.locale.dates)
    if value is None:
        return None
    place = locate_value(spec, value, data.get("quote"), data.get("page"), index)
    if place is None:
        field = Field(
            value, UNGROUNDED, source="model", reasons=(Message("source.model"), Message("reason.ungrounded"))
        )
    else:
        field = Field(
            value, GROUNDED * place.score, place.grounding.page, place.grounding.box, place.quote, "model",
            (Message("source.model"), Message("reason.grounded_as", detail=Message(f"match.{place.grounding.how}"))),
        )  # fmt: skip
    if not is_well_formed(spec, value):
        field = replace(
            field, confidence=MALFORMED, reasons=(*field.reasons, Message("reason.not", detail=rules.form(spec)))
        )
    return field


def locate_value(spec: FieldSpec, value: Any, quote: Any, page: Any, index: Index) -> GroundedQuote | None:
    """The place of a value: within its quote, else near it, else anywhere. A quote without the value does not count."""
    quoted = _find_quote(quote, page, index)
    if quoted is not None and _is_implied(spec, value, quoted):
        return GroundedQuote(quoted, quoted.quote, quoted.score)
    kind = KINDS.get(spec.kind, "text")
    if quoted is not None:
        alone = Page(quoted.page, 1, 1, "text", words=quoted.words)
        if inside := ground(value, [alone], kind=kind):
            return GroundedQuote(inside, quoted.quote, min(inside.score, quoted.score))
        if near := ground(value, index, kind=kind, near=quoted.box, page=quoted.page):
            return GroundedQuote(near, near.quote, near.score * ELSEWHERE)
    found = ground(value, index, kind=kind, page=_hint(page)) or ground(value, index, kind=kind)
    return GroundedQuote(found, found.quote, found.score * ELSEWHERE) if found else None


def _find_quote(quote: Any, page: Any, index: Index) -> Grounding | None:
    text = " ".join(quote.split())[:LONGEST_QUOTE] if isinstance(quote, str) else ""
    if not text:
        return None
    return ground(text, index, kind="text", page=_hint(page)) or ground(text, index, kind="text")


def _hint(page: Any) -> int | None:
    return page if isinstance(page, int) and not isinstance(page, bool) else None


def _is_implied(spec: FieldSpec, value: Any, quoted: Grounding) -> bool:
    """Whether the value is not printed as such, so that its quote is the only place to find."""
    if spec.kind == "currency":
        marks = re.findall(r"[^\W\d_]+|[^\w\s.,]+", quoted.quote)
        return any(currency(mark) == value or mark in AMBIGUOUS for mark in marks)
    return spec.kind in ("choice", "bool")


def _rows(spec: FieldSpec, entry: Any, index: Index, doctype: DocumentType) -> Field | None:
    """A table, with a confidence by the share of its rows that are grounded."""
    answered = [row for row in entry if isinstance(row, Mapping)][:MOST_ROWS] if isinstance(entry, list) else []
    pairs = [(row, normalise_value(spec, [row], doctype.locale.dates)) for row in answered]
    rows = [(row, normalised[0]) for row, normalised in pairs if normalised]
    if not rows:
        return None
    places = [place for row, row_values in rows if (place := _row(spec, row, row_values, index))]
    share = len(places) / len(rows)
    grounded = Message("reason.rows_grounded", n=len(places), total=len(rows))
    field = Field(
        [row_values for _, row_values in rows], UNGROUNDED + (ROWS - UNGROUNDED) * share, source="model",
        reasons=(Message("source.model"), grounded if places else Message("reason.ungrounded")),
    )  # fmt: skip
    if not is_well_formed(spec, field.value):
        field = replace(field, confidence=MALFORMED, reasons=(*field.reasons, Message("reason.cells_of_other_kinds")))
    if not places:
        return field
    page = places[0].page
    box = around(place.box for place in places if place.page == page)
    return replace(field, page=page, box=box, quote=places[0].quote)


def _row(spec: FieldSpec, answered: Mapping[str, Any], row: Mapping[str, Any], index: Index) -> Grounding | None:
    """The place of a row: its quote, or its longest text, on a page that has each of its amounts too."""
    texts = [value for value in row.values() if isinstance(value, str)]
    place = _find_quote(answered.get("quote"), answered.get("page"), index) or ground(
        max(texts, key=len, default=""), index
    )
    if place is None:
        return None
    amounts = [row[column.name] for column in spec.items if column.kind == "money" and row[column.name] is not None]
    found = (ground(amount, index, kind="money", near=place.box, page=place.page) for amount in amounts)
    return place if all(location is not None for location in found) else None
