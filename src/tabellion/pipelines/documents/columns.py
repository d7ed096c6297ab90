"""Documents as typed columns: the Arrow schema of a document type, and a document's row in it."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from functools import cached_property
from typing import Any

from tabellion import extras
from tabellion.pipelines.documents.review.queue import REVIEWED
from tabellion.reading.types import rules
from tabellion.reading.types.doctype import DocumentType
from tabellion.reading.types.field_spec import FieldSpec
from tabellion.reading.types.kinds import NUMERIC

PRECISION, SCALE = 18, 4  #: of every amount, number and percentage
_STEP = Decimal(1).scaleb(-SCALE)
_LIMIT = Decimal(10) ** (PRECISION - SCALE)
LONGEST_UNFIT = 1000  #: characters kept of a value that fits no column
FIRST = (
    "id",
    "name",
    "sha256",
    "type",
    "type_version",
    "model",
    "verdict",
    "created_at",
    "version",
    "review",
    "reviewed",
    "locked",
)
TEXTS = ("id", "name", "sha256", "model", "verdict", "review")
LAST = ("confidence", "unfit")
OWN = (*FIRST, *LAST)  #: the columns that every type has
PREFIX = "field_"  #: of a field that has the name of one of our columns
_MISFIT = object()


def arrow() -> Any:
    """PyArrow, loaded where it is first needed."""
    with extras.explain_missing():
        import pyarrow  # type: ignore[import-untyped]
    return pyarrow


@dataclass(frozen=True)
class Columns:
    """The columns of one document type, or of several together."""

    type: str  #: of documents without one
    specs: tuple[FieldSpec, ...]

    @cached_property
    def fields(self) -> tuple[tuple[str, FieldSpec], ...]:
        """Each field with the name of its column."""
        return name_columns(self.specs, OWN)

    @cached_property
    def schema(self) -> Any:
        """The Arrow schema."""
        pa = arrow()
        own = {
            "created_at": pa.timestamp("us", tz="UTC"), "version": pa.int32(), "reviewed": pa.bool_(),
            "locked": pa.list_(pa.string()),
            "confidence": pa.struct([(spec.name, pa.float64()) for spec in self.specs]),
            "unfit": pa.list_(pa.struct([("field", pa.string()), ("value", pa.string())])),
        }  # fmt: skip
        return pa.schema(
            [(name, own.get(name, pa.string())) for name in FIRST]
            + [(column, _arrow_type(spec)) for column, spec in self.fields]
            + [(name, own[name]) for name in LAST if self.specs or name != "confidence"]  # Parquet has no empty structs
        )

    def row(self, document: Mapping[str, Any]) -> dict[str, Any]:
        """The document's row: typed values, nulls where none was read, and the values that fit no column."""
        fields: Mapping[str, Any] = document["fields"]
        unfit: list[dict[str, str]] = []
        row: dict[str, Any] = {name: text(document.get(name)) for name in TEXTS}
        row |= {
            "type": text(document.get("type")) or self.type, "type_version": text(document.get("type_version")),
            "created_at": moment(document["created_at"]), "version": int(document.get("version") or 1),
            "reviewed": document.get("review") in REVIEWED,
            "locked": [name for name, field in fields.items() if field.get("locked")],
        }  # fmt: skip
        confidences: dict[str, float | None] = {}
        for column, spec in self.fields:
            field = fields.get(spec.name) or {}
            confidences[spec.name] = _finite(field.get("confidence")) if field else None
            row[column] = _value(spec, field.get("value"), spec.name, unfit)
        known = {spec.name for _, spec in self.fields}
        unfit += [_misfit(name, field.get("value")) for name, field in fields.items() if name not in known]
        return row | {"confidence": confidences, "unfit": unfit}

    def table(self, documents: Iterable[Mapping[str, Any]]) -> Any:
        """The documents as an Arrow table."""
        rows = [self.row(document) for document in documents]
        pa = arrow()
        arrays = [pa.array([row[field.name] for row in rows], field.type) for field in self.schema]
        return pa.Table.from_arrays(arrays, schema=self.schema)


def columns_of(doctype: DocumentType) -> Columns:
    """The columns of a document type; cached by its version."""
    key = (doctype.name, doctype.version, doctype.digest)
    if not doctype.digest:  # built in code: two may differ and have the same version
        return Columns(doctype.name, doctype.fields)
    if key not in _cache:
        if len(_cache) > 1000:
            _cache.clear()
        _cache[key] = Columns(doctype.name, doctype.fields)
    return _cache[key]


_cache: dict[tuple[str, str, str], Columns] = {}


def merge_columns(doctypes: Sequence[DocumentType], names: Iterable[str] = ()) -> Columns:
    """The columns of several types, and of fields that no type has; if two types disagree, a column is text."""
    if len(doctypes) == 1 and not set(names) - {spec.name for spec in doctypes[0].fields}:
        return columns_of(doctypes[0])
    merged: dict[str, FieldSpec] = {}
    for spec in (spec for doctype in doctypes for spec in doctype.fields):
        first = merged.setdefault(spec.name, spec)
        if _shape(first) != _shape(spec):
            merged[spec.name] = _loose(spec.name)
    for name in names:
        merged.setdefault(name, _loose(name))
    return Columns("", tuple(merged.values()))


def name_columns(specs: Sequence[FieldSpec], own: Sequence[str]) -> tuple[tuple[str, FieldSpec], ...]:
    """Each field with the name of its column: its own, unless one of our columns has that name."""
    taken = {*own, *(spec.name for spec in specs)}
    fields = []
    for spec in specs:
        column = spec.name
        while column in own or (column != spec.name and column in taken):
            column = PREFIX + column
        taken.add(column)
        fields.append((column, spec))
    return tuple(fields)


def moment(value: Any) -> datetime:
    """A time from the database or from JSON, in UTC."""
    if isinstance(value, datetime):
        return value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)
    if isinstance(value, str):
        return moment(datetime.fromisoformat(value))
    return datetime.fromtimestamp(float(value), UTC)


def text(value: Any) -> str | None:
    """A text that can be written as UTF-8, or None."""
    if value is None:
        return None
    string = value if isinstance(value, str) else str(value)
    return string if string.isascii() else string.encode("utf-8", "replace").decode()


LOOSE = "loose"  #: the kind of a field whose type is unknown or disputed: text, or JSON if the value is not text


def _loose(name: str) -> FieldSpec:
    return FieldSpec(name, LOOSE, name)


def _shape(spec: FieldSpec) -> Any:
    kind = "number" if spec.kind in NUMERIC else spec.kind if spec.kind in ("date", "bool", "list", LOOSE) else "text"
    return kind, tuple((column.name, _shape(column)) for column in spec.items)


def _arrow_type(spec: FieldSpec) -> Any:
    pa = arrow()
    if spec.kind in NUMERIC:
        return pa.decimal128(PRECISION, SCALE)
    if spec.kind == "list":
        return pa.list_(pa.struct([(column.name, _arrow_type(column)) for column in spec.items]))
    return {"date": pa.date32(), "bool": pa.bool_()}.get(spec.kind, pa.string())


def _value(spec: FieldSpec, value: Any, path: str, unfit: list[dict[str, str]]) -> Any:
    """The value in its column's type; None, with an entry in `unfit`, if it does not fit."""
    if value is None or value == "":
        return None
    if spec.kind == "list":
        if not isinstance(value, list):
            unfit.append(_misfit(path, value))
            return None
        rows = []
        for number, row in enumerate(value):
            if not isinstance(row, Mapping):
                unfit.append(_misfit(f"{path}[{number}]", row))
                continue
            place = f"{path}[{number}]"
            rows.append(
                {cell.name: _value(cell, row.get(cell.name), f"{place}.{cell.name}", unfit) for cell in spec.items}
            )
        return rows
    converted = _convert_value(spec, value)
    if converted is _MISFIT:
        unfit.append(_misfit(path, value))
        return None
    return converted


def _convert_value(spec: FieldSpec, value: Any) -> Any:
    if spec.kind == LOOSE:
        return text(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
    if spec.kind in NUMERIC or spec.kind in ("date", "bool"):
        try:
            converted = rules.convert_value(spec, value)
        except ValueError:
            return _MISFIT
        if isinstance(converted, Decimal) and (abs(converted) >= _LIMIT or converted != converted.quantize(_STEP)):
            return _MISFIT
        return converted
    return text(value) if isinstance(value, str) else _MISFIT


def _misfit(path: str, value: Any) -> dict[str, str]:
    shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return {"field": path, "value": (text(shown) or "")[:LONGEST_UNFIT]}


def _finite(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None
