"""The table `tabellion_extracted_fields`: its columns, and every statement that changes it.

A field has the current value, what the last reading found, and what a person decided about it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypedDict

from tabellion.engine import sql
from tabellion.engine.moves import Numbered
from tabellion.engine.sql import NOW, Dialect
from tabellion.messages import restore_text
from tabellion.pipelines.documents.states import Change
from tabellion.reading.alternative import Candidate
from tabellion.reading.field import FieldJson, serialize_reasons

PERSON = "person"  #: the source of a field that a person has corrected


class FieldRow(TypedDict):
    """The public columns of a field."""

    name: str
    value: str | None  #: JSON, as are box and reasons
    confidence: float
    page: int | None
    box: str | None
    quote: str | None
    source: str
    reasons: str | None
    locked: bool
    state: str | None


#: Every column but `document_id`.
COLUMNS = (
    *FieldRow.__annotations__, "place", "manually_corrected", "corrected_by", "corrected_at", "read_value", "old_value",
    "candidates",
)  # fmt: skip
#: $1 document -> its fields.
FIELDS = f"""SELECT {", ".join(FieldRow.__annotations__)} FROM tabellion_extracted_fields
WHERE document_id = $1 ORDER BY place, name"""

_VALUE = ("value", "confidence", "page", "box", "quote", "source", "reasons")
_READ = ("name", "place", *_VALUE, "read_value", "candidates")
_KINDS = {"place": "integer", "confidence": "double precision", "page": "integer"}
_NEWEST = "place = excluded.place, read_value = excluded.read_value, candidates = excluded.candidates"
#: Values that a person has locked stay; the newest reading is stored beside them.
_UNLESS_LOCKED = ", ".join(
    f"{name} = CASE WHEN tabellion_extracted_fields.locked THEN tabellion_extracted_fields.{name} "
    f"ELSE excluded.{name} END"
    for name in _VALUE
)
_KEEP_LOCKED = f"""ON CONFLICT (document_id, name) DO UPDATE SET {_NEWEST}, {_UNLESS_LOCKED},
  state = CASE WHEN tabellion_extracted_fields.locked OR tabellion_extracted_fields.value = excluded.value
    THEN tabellion_extracted_fields.state END"""
_OVERWRITE = f"""ON CONFLICT (document_id, name) DO UPDATE SET {_NEWEST},
  {", ".join(f"{name} = excluded.{name}" for name in _VALUE)}, locked = FALSE, manually_corrected = FALSE,
  state = NULL, old_value = NULL, corrected_by = NULL, corrected_at = NULL"""
_DECISION = "value, page, box, quote, reasons, state, locked, corrected_by, old_value"


@dataclass(frozen=True, slots=True)
class Found:
    """What a reading has found."""

    fields: Mapping[str, FieldJson]  #: the current values, with those of people in place of what was read
    read: Mapping[str, Any]  #: the values that were read
    offers: Mapping[str, list[Candidate]]  #: alternative values


def parse_values(rows: Iterable[FieldRow]) -> list[dict[str, Any]]:
    """The rows with their values parsed."""
    return [{**row, "value": json.loads(row["value"] or "null")} for row in rows]


def select(dialect: Dialect) -> str:
    """$1 document -> every column of its fields; times are seconds since 1970."""
    columns = (sql.epoch(name, dialect) + f" AS {name}" if name == "corrected_at" else name for name in COLUMNS)
    return f"SELECT {', '.join(columns)} FROM tabellion_extracted_fields WHERE document_id = $1 ORDER BY place, name"


def store_reading(dialect: Dialect, document: str, found: Found, *, keep_locked: bool) -> Change:
    """Stores what a reading has found; `keep_locked`: values that people have locked stay."""
    rows = [
        {
            "name": name, "place": place, "value": json.dumps(field["value"], ensure_ascii=False),
            "confidence": field["confidence"], "page": field["page"],
            "box": json.dumps(field["box"]) if field["box"] else None, "quote": field["quote"],
            "source": field["source"],
            "reasons": json.dumps(serialize_reasons(restore_text(field, "reasons")), ensure_ascii=False),
            "read_value": json.dumps(found.read.get(name), ensure_ascii=False),
            "candidates": json.dumps(found.offers[name], ensure_ascii=False) if name in found.offers else None,
        }
        for place, (name, field) in enumerate(found.fields.items())
    ]  # fmt: skip
    if dialect == "postgresql":
        kinds = ", ".join(f"{name} {_KINDS.get(name, 'text')}" for name in _READ)
        values = ", ".join(f"f.{name}" for name in _READ)
        source = f"json_to_recordset(CAST(:fields AS json)) AS f ({kinds})"
    else:
        values = ", ".join(f"json_extract(f.value, '$.{name}')" for name in _READ)
        source = "json_each(:fields) AS f WHERE 1"
    text = f"""INSERT INTO tabellion_extracted_fields (document_id, {", ".join(_READ)})
SELECT CAST(:id AS text), {values} FROM {source} {_KEEP_LOCKED if keep_locked else _OVERWRITE}"""
    return text, {"id": document, "fields": json.dumps(rows, ensure_ascii=False)}


def copy_decisions(dialect: Dialect, document: str, sha256: str, type_name: str, names: Iterable[str]) -> Change:
    """Makes decisions on the same file as another document fields of this one; decisions on this one stay."""
    text = f"""INSERT INTO tabellion_extracted_fields
  (document_id, name, place, confidence, source, manually_corrected, corrected_at, {_DECISION})
SELECT CAST(:id AS text), name, 0, 1.0, '{PERSON}', TRUE, decided_at, {_DECISION} FROM tabellion_field_decisions
WHERE sha256 = :sha256 AND type = :type AND locked AND name IN ({_select_names(dialect)})
ON CONFLICT (document_id, name) DO UPDATE SET confidence = excluded.confidence, source = excluded.source,
  manually_corrected = TRUE, corrected_at = excluded.corrected_at,
  {", ".join(f"{name} = excluded.{name}" for name in _DECISION.split(", "))}
WHERE NOT tabellion_extracted_fields.locked"""
    return text, {"id": document, "sha256": sha256, "type": type_name, "names": json.dumps(sorted(names))}


def confirm(document: str, sha256: str, type_name: str) -> Change:
    """Confirms values that were confirmed on another document with the same file."""
    text = """UPDATE tabellion_extracted_fields SET state = 'confirmed'
WHERE document_id = :id AND state IS NULL AND NOT locked AND EXISTS (
  SELECT 1 FROM tabellion_field_decisions AS s WHERE s.sha256 = :sha256 AND s.type = :type
    AND s.name = tabellion_extracted_fields.name AND s.value = tabellion_extracted_fields.value
    AND s.state = 'confirmed')"""
    return text, {"id": document, "sha256": sha256, "type": type_name}


def remove_others(dialect: Dialect, document: str, names: Iterable[str], *, keep_locked: bool) -> list[Change]:
    """Deletes the fields that the last reading did not find; locked ones stay, without an earlier reading."""
    others = f"document_id = :id AND name NOT IN ({_select_names(dialect)})"
    values = {"id": document, "names": json.dumps(sorted(names))}
    if not keep_locked:
        return [(f"DELETE FROM tabellion_extracted_fields WHERE {others}", values)]
    unread = "UPDATE tabellion_extracted_fields SET read_value = 'null', candidates = NULL"
    return [
        (f"DELETE FROM tabellion_extracted_fields WHERE {others} AND NOT locked", values),
        (f"{unread} WHERE {others}", values),
    ]


def has_other_locks(dialect: Dialect, count: int, latest: float) -> str:
    """The condition that the document `:id` has not exactly this many locked fields, the latest of them then."""
    newest = f"coalesce(max({sql.epoch('corrected_at', dialect)}), 0)"
    return f"""SELECT count(*) <> {count} OR {newest} > {float(latest)!r}
  FROM tabellion_extracted_fields WHERE document_id = :id AND locked"""


def write(document: str, name: str, place: int, columns: Mapping[str, Any]) -> Numbered:
    """Writes a person's decision on a field."""
    marks = ", ".join(f"${number}" for number in range(4, len(columns) + 4))
    at = NOW if columns["corrected_by"] is not None else "NULL"
    updates = ", ".join(f"{column} = excluded.{column}" for column in (*columns, "corrected_at"))
    text = f"""INSERT INTO tabellion_extracted_fields (document_id, name, place, {", ".join(columns)}, corrected_at)
VALUES ($1, $2, $3, {marks}, {at}) ON CONFLICT (document_id, name) DO UPDATE SET {updates}"""
    return text, [document, name, place, *columns.values()]


def copy_locked(document: str, heir: str) -> Change:
    """Gives the locked fields of a document to another too."""
    columns = ", ".join(COLUMNS)
    text = f"""INSERT INTO tabellion_extracted_fields (document_id, {columns})
SELECT CAST(:heir AS text), {columns} FROM tabellion_extracted_fields WHERE document_id = :id AND locked
ON CONFLICT (document_id, name) DO NOTHING"""
    return text, {"id": document, "heir": heir}


def hand_over_locked(document: str, heir: str) -> Change:
    """Gives the locked fields of a document to another."""
    text = "UPDATE tabellion_extracted_fields SET document_id = :heir WHERE document_id = :id AND locked"
    return text, {"id": document, "heir": heir}


def delete(document: str) -> Change:
    """Deletes the fields of a document."""
    return "DELETE FROM tabellion_extracted_fields WHERE document_id = :id", {"id": document}


def _select_names(dialect: Dialect) -> str:
    """A SELECT of the names in `:names`."""
    if dialect == "postgresql":
        return "SELECT json_array_elements_text(CAST(:names AS json))"
    return "SELECT value FROM json_each(:names)"
