"""Converts what people type to the format of its field, or explains why it is not valid."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Mapping
from typing import Any

from tabellion.engine.job import storable
from tabellion.messages import Message
from tabellion.models.normalise import normalise_value
from tabellion.reading.types import rules
from tabellion.reading.types.doctype import DocumentType
from tabellion.reading.types.field_spec import FieldSpec
from tabellion.reading.types.kinds import KINDS, NUMERIC

LONGEST = 2000  #: characters of a value
MOST_ROWS = 1000  #: rows of a list
YES_NO = {"yes": True, "no": False, "oui": True, "non": False, "ja": True, "nein": False, "1": True, "0": False}
NOTHING: tuple[Any, ...] = (None, "", [], ())
#: One separator before three digits, without a leading zero: thousands in one country, decimals in another.
TWO_WAYS = re.compile(r"[^\d.,]*([1-9]\d{0,2})[.,](\d{3})[^\d.,]*")


def parse_value(
    doctype: DocumentType, spec: FieldSpec, value: Any, known: Collection[Any] = ()
) -> tuple[Any, str | None]:  # fmt: skip
    """A value in the format of its field, and None; or the value as it is, and a message with the field and the fix.

    `known` are values that the field has, had or could have, in its format: sent back unchanged, they are unambiguous.
    """
    if spec.kind == "list":
        return _rows(doctype, spec, value, [row for rows in known if isinstance(rows, list) for row in rows])
    return _cell(doctype, spec, value, spec.name, known)


def _cell(
    doctype: DocumentType, spec: FieldSpec, value: Any, path: str, known: Collection[Any]
) -> tuple[Any, str | None]:  # fmt: skip
    if value in NOTHING or (isinstance(value, str) and not value.strip()):
        return None, None
    if isinstance(value, Mapping | list):
        return None, Message("edit.single_value", field=path, detail=form(spec))
    if isinstance(value, str) and len(value) > LONGEST:
        return value, Message("edit.too_long", field=path, n=LONGEST)
    if isinstance(value, bool) and spec.kind != "bool":
        return value, Message("issue.not_of_kind", field=path, value=rules.format_value(value), detail=form(spec))
    text = storable(value) if isinstance(value, str) else value
    if value not in known and (ambiguity := _two_ways(spec, text, path)):
        return value, ambiguity
    if spec.kind == "bool" and isinstance(text, str) and text.strip().lower() in YES_NO:
        return YES_NO[text.strip().lower()], None
    normalised = normalise_value(spec, text, doctype.locale.dates)
    if normalised is None:
        # Words such as "n/a" may be in the document, too.
        normalised = " ".join(str(text).split())
    try:
        rules.convert_value(spec, normalised)
    except ValueError:
        return normalised, Message(
            "issue.not_of_kind", field=path, value=rules.format_value(value), detail=_form_with_example(spec)
        )
    if spec.kind == "choice" and normalised not in spec.options:
        return normalised, Message(
            "issue.not_an_option", field=path, value=rules.format_value(value), text=list(spec.options)
        )
    return normalised, None


def _two_ways(spec: FieldSpec, text: Any, path: str) -> str | None:
    """The message about an amount that means a thousand times as much in another country; never for percentages."""
    if spec.kind not in NUMERIC or spec.kind == "percent" or not isinstance(text, str):
        return None
    match = TWO_WAYS.fullmatch(unicodedata.normalize("NFKC", text).strip())
    if match is None:
        return None
    thousands, decimals = f"{match[1]}{match[2]}", f"{match[1]}.{match[2]}0"
    return Message("edit.ambiguous", field=path, value=rules.format_value(text), one=thousands, other=decimals)


def _rows(
    doctype: DocumentType, spec: FieldSpec, value: Any, known: Collection[Any]
) -> tuple[Any, str | None]:  # fmt: skip
    if value in NOTHING:
        return None, None
    if not isinstance(value, list) or not all(isinstance(row, Mapping) for row in value):
        return None, Message("edit.rows_expected", field=spec.name, fields=list(spec.columns))
    if len(value) > MOST_ROWS:
        return None, Message("edit.too_many_rows", field=spec.name, n=MOST_ROWS)
    rows = []
    for number, row in enumerate(value):
        # Extra columns that a reading found are not the person's mistake: they are dropped.
        known_rows = [known_row for known_row in known if isinstance(known_row, Mapping)]
        extra = sorted(name for name in row.keys() - spec.columns.keys() if row[name] not in NOTHING)
        unknown = [
            name
            for name in extra
            if not any(name in known_row and known_row[name] == row[name] for known_row in known_rows)
        ]
        if unknown:
            path, column_ = f"{spec.name}[{number}]", rules.format_value(unknown[0])
            return value, Message("edit.unknown_column", field=path, value=column_, fields=list(spec.columns))
        cells = {}
        for name, column in spec.columns.items():
            cells[name], problem = _cell(
                doctype,
                column,
                row.get(name),
                f"{spec.name}[{number}].{name}",
                [known_row.get(name) for known_row in known_rows],
            )
            if problem:
                return value, problem
        if any(cell is not None for cell in cells.values()):
            rows.append(cells)
    return rows or None, None


def form(spec: FieldSpec) -> str:
    """The format of a field's values."""
    return Message("kind.date_form_short") if spec.kind == "date" else KINDS[spec.kind]


def _form_with_example(spec: FieldSpec) -> str:
    if spec.kind == "date":
        return Message("kind.date_form_ambiguous")
    return Message("kind.currency_form") if spec.kind == "currency" else form(spec)
