"""Turns a JSON Schema into a document type for the local reader, and the fields into an object of the schema."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tabellion.messages import Message, quote_value
from tabellion.models.base import Schema
from tabellion.models.errors import Rejected
from tabellion.models.output import resolve_ref
from tabellion.reading.field import Field
from tabellion.reading.types import typefile
from tabellion.reading.types.doctype import ANY
from tabellion.reading.types.expression import RESERVED
from tabellion.reading.types.field_spec import FieldSpec
from tabellion.reading.types.kinds import NUMERIC

SHIPPED = ("invoice", "receipt", "deed")  #: types whose labels are used for properties with the same names
LONGEST_LABEL = 4  #: words; a longer description is not a printed label
#: The kinds of field that fit a JSON type.
HOLDS: dict[str, tuple[str, ...]] = {
    "number": NUMERIC, "integer": ("number",), "boolean": ("bool",), "array": ("list",),
    "string": ("text", "name", "address", "id", "date", "money", "number", "percent", "currency", "choice"),
}  # fmt: skip
_EDGE = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[\W_]+")


@dataclass(frozen=True, slots=True)
class SchemaForm:
    """A schema as a document type."""

    schema: Schema
    names: Mapping[str, str]  #: the field of each property
    type: Path | None = None  #: the file of a type that has these fields
    text: str = ""  #: else the contents of a type file for it
    name: str = ""

    def fill(self, fields: Mapping[str, Field]) -> dict[str, Any]:
        """The object of the schema; raises Rejected where a required value was not found."""
        root = resolve_ref(self.schema, self.schema)
        by_property = {property_name: fields.get(name) for property_name, name in self.names.items()}
        filled = {}
        for property_name, inner in root["properties"].items():
            value = _fill_field(inner, by_property.get(property_name), self.schema)
            if value is None and not nullable(inner, self.schema):
                if property_name in (root.get("required") or ()):
                    raise Rejected(Message("model.local_missing", value=quote_value(property_name[:60])))
                continue
            filled[property_name] = value
        return filled


def form_of(schema: Schema, folders: Sequence[str | Path]) -> SchemaForm:
    """The document type of a schema, by its title; else one built from the names of its properties."""
    properties = resolve_ref(schema, schema).get("properties")
    if not isinstance(properties, Mapping) or not properties:
        raise Rejected(Message("model.local_no_properties"))
    title = schema.get("title")
    if isinstance(title, str) and title in typefile.available(folders):
        doctype = typefile.load(title, folders)
        if all(name in doctype for name in properties):
            return SchemaForm(schema, {name: name for name in properties}, Path(doctype.file))
    return _build_form(schema, properties)


def _build_form(schema: Schema, properties: Mapping[str, Any]) -> SchemaForm:
    names: dict[str, str] = {}
    fields: dict[str, Any] = {}
    shipped = {spec.name: spec for name in reversed(SHIPPED) for spec in typefile.load(name, ()).fields}
    for property_name, inner in properties.items():
        name = _snake(property_name)
        while name in fields or name in RESERVED:
            name += "_"
        spec = _spec(property_name, inner, shipped.get(name), schema)
        if spec is not None:
            names[property_name], fields[name] = name, spec
    if not fields:
        raise Rejected(Message("model.local_no_fields"))
    digest = hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()[:16]
    name = f"asked_{digest}"  # children cache types by their file: the same name must be the same type
    return SchemaForm(schema, names, None, json.dumps({"name": name, "version": "1", "fields": fields}), name)


def _spec(property_name: str, inner: Any, shipped: FieldSpec | None, root: Schema) -> dict[str, Any] | None:
    """A field for a type file; None where the local reader cannot read it."""
    schema = content(inner, root)
    kind = _kind(schema)
    if shipped is not None and shipped.kind in HOLDS.get(_type(schema), ()) and not (kind == "choice" != shipped.kind):
        labels = {language: list(phrases) for language, phrases in shipped.labels.items()}
        spec: dict[str, Any] = {"type": shipped.kind, "labels": labels}
        if shipped.options or kind == "choice":
            spec["enum"] = _options(schema) or list(shipped.options)
        if shipped.kind == "list":
            spec["items"] = {column.name: {"type": column.kind} for column in shipped.items}
        if shipped.not_labels:
            spec["not_labels"] = {language: list(phrases) for language, phrases in shipped.not_labels.items()}
        return spec
    if kind is None or kind == "list":
        return None
    spec = {"type": kind, "labels": {ANY: _labels(property_name, schema)}}
    return {**spec, "enum": _options(schema)} if kind == "choice" else spec


def _kind(schema: Mapping[str, Any]) -> str | None:
    if _options(schema):
        return "choice"
    if schema.get("format") in ("date", "date-time"):
        return "date"
    return {"string": "text", "number": "number", "integer": "number", "boolean": "bool", "array": "list"}.get(
        _type(schema)
    )


def _labels(property_name: str, schema: Mapping[str, Any]) -> list[str]:
    words = [" ".join(part.lower() for part in _EDGE.split(property_name) if part)]
    for key in ("title", "description"):
        text = schema.get(key)
        if isinstance(text, str) and 0 < len(text.split()) <= LONGEST_LABEL:
            words.append(text.lower().strip(" .:"))
    return list(dict.fromkeys(filter(None, words)))


def _options(schema: Mapping[str, Any]) -> list[str]:
    return [option for option in schema.get("enum") or () if isinstance(option, str) and option]


def _snake(property_name: str) -> str:
    plain = "_".join(part.lower() for part in _EDGE.split(property_name) if part.isascii() and part)[:55]
    return plain if plain[:1].isalpha() else f"f_{plain}"


def choices(schema: Any, root: Schema) -> list[Mapping[str, Any]]:
    """The alternative schemas, with references resolved."""
    schema = resolve_ref(schema, root)
    alternatives = schema.get("anyOf") or schema.get("oneOf")
    return (
        [resolve_ref(alternative, root) for alternative in alternatives] if isinstance(alternatives, list) else [schema]
    )


def nullable(schema: Any, root: Schema) -> bool:
    """Whether the schema allows null."""
    kinds = [choice.get("type") for choice in choices(schema, root)]
    return any(kind == "null" or (isinstance(kind, list) and "null" in kind) for kind in kinds)


def content(schema: Any, root: Schema) -> Mapping[str, Any]:
    """The schema of the value itself, without a null alternative and the evidence around it."""
    options = choices(schema, root)
    option = next((choice for choice in options if choice.get("type") != "null"), options[0])
    return content(option["properties"]["value"], root) if _is_quoted(option) else option


def _is_quoted(schema: Mapping[str, Any]) -> bool:
    properties = schema.get("properties")
    return isinstance(properties, Mapping) and "value" in properties and properties.keys() <= {"value", "quote", "page"}


def _type(schema: Mapping[str, Any]) -> str:
    kind = schema.get("type")
    kinds = kind if isinstance(kind, list) else [kind]
    return str(next((name for name in kinds if name != "null"), ""))


def _fill_field(schema: Any, field: Field | None, root: Schema) -> Any:
    value_schema = content(schema, root)
    value = None if field is None else _cast(field.value, value_schema, root)
    if _type(value_schema) == "array" and value is None and not nullable(schema, root):
        return []
    outer = next((choice for choice in choices(schema, root) if _is_quoted(choice)), None)
    if outer is None:
        return value
    evidence = {"value": value, "quote": field.quote if field else None, "page": field.page if field else None}
    return {key: evidence[key] for key in outer["properties"]}


def _cast(value: Any, schema: Mapping[str, Any], root: Schema) -> Any:
    """A field's value in the type of the schema; None where it does not fit."""
    kind = _type(schema)
    if value is None or ((options := _options(schema)) and value not in options):
        return None
    if kind == "array":
        return [_row(row, content(schema.get("items") or {}, root), root) for row in value]
    if kind == "boolean":
        return value if isinstance(value, bool) else None
    if kind in ("number", "integer"):
        try:
            number = float(value)
        except (TypeError, ValueError):
            return None
        return int(number) if kind == "integer" and number.is_integer() else number if kind == "number" else None
    return value if isinstance(value, str) else None


def _row(row: Mapping[str, Any], schema: Mapping[str, Any], root: Schema) -> dict[str, Any]:
    properties = schema.get("properties") or {}
    cells = {name: _cast(row.get(_snake(name)), content(inner, root), root) for name, inner in properties.items()}
    required = schema.get("required") or ()
    return {name: cell for name, cell in cells.items() if cell is not None or name in required}
