"""What people type, as their fields keep it: dates and amounts in one form, or a sentence that says why not."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Mapping
from typing import Any

from tabellion.engine.job import storable
from tabellion.messages import Message
from tabellion.models.normalise import normalise_value
from tabellion.reading.types import rules
from tabellion.reading.types.doctype import DocumentType, FieldSpec
from tabellion.reading.types.kinds import KINDS, NUMERIC

LONGEST = 2000  #: characters of a value
MOST_ROWS = 1000  #: rows of a list
YES_NO = {"yes": True, "no": False, "oui": True, "non": False, "ja": True, "nein": False, "1": True, "0": False}
NOTHING: tuple[Any, ...] = (None, "", [], ())
#: One mark before three digits, and no zero before it: thousands in one country, decimals in the next.
TWO_WAYS = re.compile(r"[^\d.,]*([1-9]\d{0,2})[.,](\d{3})[^\d.,]*")


def parse_value(
    doctype: DocumentType, spec: FieldSpec, value: Any, known: Collection[Any] = ()
) -> tuple[Any, str | None]:  # fmt: skip
    """A value in the form of its field, and no error; or as it is, and a sentence that names the field and the fix.

    `known` are values that the field has, had or could have, in its form: whoever sends one of them back means it.
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
    if value not in known and (said := _two_ways(spec, text, path)):
        return value, said
    if spec.kind == "bool" and isinstance(text, str) and text.strip().lower() in YES_NO:
        return YES_NO[text.strip().lower()], None
    found = normalise_value(spec, text, doctype.locale.dates)
    if found is None:
        # "n/a" and the like are words that people write on paper, too.
        found = " ".join(str(text).split())
    try:
        rules.convert_value(spec, found)
    except ValueError:
        return found, Message(
            "issue.not_of_kind", field=path, value=rules.format_value(value), detail=_form_with_example(spec)
        )
    if spec.kind == "choice" and found not in spec.options:
        return found, Message(
            "issue.not_an_option", field=path, value=rules.format_value(value), text=list(spec.options)
        )
    return found, None


def _two_ways(spec: FieldSpec, text: Any, path: str) -> str | None:
    """What to write instead of an amount that is a thousand times as much in another country, a percentage never."""
    if spec.kind not in NUMERIC or spec.kind == "percent" or not isinstance(text, str):
        return None
    match = TWO_WAYS.fullmatch(unicodedata.normalize("NFKC", text).strip())
    if match is None:
        return None
    one, other = f"{match[1]}{match[2]}", f"{match[1]}.{match[2]}0"
    return Message("edit.ambiguous", field=path, value=rules.format_value(text), one=one, other=other)


def _rows(
    doctype: DocumentType, spec: FieldSpec, value: Any, known: Collection[Any]
) -> tuple[Any, str | None]:  # fmt: skip
    if value in NOTHING:
        return None, None
    if not isinstance(value, list) or not all(isinstance(row, Mapping) for row in value):
        return None, Message("edit.rows_expected", field=spec.name, fields=list(spec.columns))
    if len(value) > MOST_ROWS:
        return None, Message("edit.too_many_rows", field=spec.name, n=MOST_ROWS)
    made = []
    for number, row in enumerate(value):
        # What a reading gave beside the type's columns is not the person's mistake: it is left out.
        read = [one for one in known if isinstance(one, Mapping)]
        strange = sorted(name for name in row.keys() - spec.columns.keys() if row[name] not in NOTHING)
        unknown = [name for name in strange if not any(name in one and one[name] == row[name] for one in read)]
        if unknown:
            path, column_ = f"{spec.name}[{number}]", rules.format_value(unknown[0])
            return value, Message("edit.unknown_column", field=path, value=column_, fields=list(spec.columns))
        cells = {}
        for name, column in spec.columns.items():
            cells[name], problem = _cell(
                doctype, column, row.get(name), f"{spec.name}[{number}].{name}", [one.get(name) for one in read]
            )
            if problem:
                return value, problem
        if any(cell is not None for cell in cells.values()):
            made.append(cells)
    return made or None, None


def form(spec: FieldSpec) -> str:
    """How a field's value is written."""
    return Message("kind.date_form_short") if spec.kind == "date" else KINDS[spec.kind]


def _form_with_example(spec: FieldSpec) -> str:
    if spec.kind == "date":
        return Message("kind.date_form_ambiguous")
    return Message("kind.currency_form") if spec.kind == "currency" else form(spec)
