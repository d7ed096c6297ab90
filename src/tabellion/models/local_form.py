"""A JSON Schema as the local reader understands it: which fields to look for, and the object that it asks for."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tabellion.models.base import Schema
from tabellion.models.errors import Rejected
from tabellion.models.output import resolve_ref
from tabellion.reading.field import Field
from tabellion.reading.types import typefile
from tabellion.reading.types.doctype import ANY, FieldSpec
from tabellion.reading.types.expression import RESERVED
from tabellion.reading.types.kinds import NUMERIC

SHIPPED = ("invoice", "receipt", "deed")  #: whose fields lend their labels to properties of the same name
LONGEST_LABEL = 4  #: words; a longer description describes, and is not printed
#: The kinds of field that a JSON type can hold.
HOLDS: dict[str, tuple[str, ...]] = {
    "number": NUMERIC, "integer": ("number",), "boolean": ("bool",), "array": ("list",),
    "string": ("text", "name", "address", "id", "date", "money", "number", "percent", "currency", "choice"),
}  # fmt: skip
_EDGE = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[\W_]+")


@dataclass(frozen=True, slots=True)
class SchemaForm:
    """What a schema asks for, as a document type."""

    schema: Schema
    names: Mapping[str, str]  #: the field of each property
    type: Path | None = None  #: the file of a type that has these fields
    text: str = ""  #: else a type of its own, as its file would say it
    name: str = ""

    def fill(self, fields: Mapping[str, Field]) -> dict[str, Any]:
        """The object that the schema asks for; raises Rejected where it demands what was not found."""
        root = resolve_ref(self.schema, self.schema)
        found = {own: fields.get(name) for own, name in self.names.items()}
        made = {}
        for own, inner in root["properties"].items():
            value = _fill_field(inner, found.get(own), self.schema)
            if value is None and not nullable(inner, self.schema):
                if own in (root.get("required") or ()):
                    raise Rejected(f"the local model did not find {own[:60]!r}, but the schema requires it")
                continue
            made[own] = value
        return made


def form_of(schema: Schema, folders: Sequence[str | Path]) -> SchemaForm:
    """The document type that made a schema, by its title; else one made up from the names of its properties."""
    properties = resolve_ref(schema, schema).get("properties")
    if not isinstance(properties, Mapping) or not properties:
        raise Rejected("the local model fills in objects with properties: this schema has none")
    title = schema.get("title")
    if isinstance(title, str) and title in typefile.available(folders):
        known = typefile.load(title, folders)
        if all(name in known for name in properties):
            return SchemaForm(schema, {name: name for name in properties}, Path(known.file))
    return _build_form(schema, properties)


def _build_form(schema: Schema, properties: Mapping[str, Any]) -> SchemaForm:
    names: dict[str, str] = {}
    fields: dict[str, Any] = {}
    lent = {one.name: one for name in reversed(SHIPPED) for one in typefile.load(name, ()).fields}
    for own, inner in properties.items():
        name = _snake(own)
        while name in fields or name in RESERVED:
            name += "_"
        spec = _spec(own, inner, lent.get(name), schema)
        if spec is not None:
            names[own], fields[name] = name, spec
    if not fields:
        raise Rejected("the local model can fill in none of the fields of this schema")
    digest = hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()[:16]
    name = f"asked_{digest}"  # children remember types by their file: the same name must be the same type
    return SchemaForm(schema, names, None, json.dumps({"name": name, "version": "1", "fields": fields}), name)


def _spec(own: str, inner: Any, lent: FieldSpec | None, root: Schema) -> dict[str, Any] | None:
    """A field as a type file says it; None for what the local reader cannot look for."""
    schema = content(inner, root)
    kind = _kind(schema)
    if lent is not None and lent.kind in HOLDS.get(_type(schema), ()) and not (kind == "choice" != lent.kind):
        labels = {language: list(phrases) for language, phrases in lent.labels.items()}
        made: dict[str, Any] = {"type": lent.kind, "labels": labels}
        if lent.options or kind == "choice":
            made["enum"] = _options(schema) or list(lent.options)
        if lent.kind == "list":
            made["items"] = {column.name: {"type": column.kind} for column in lent.items}
        if lent.not_labels:
            made["not_labels"] = {language: list(phrases) for language, phrases in lent.not_labels.items()}
        return made
    if kind is None or kind == "list":
        return None
    made = {"type": kind, "labels": {ANY: _labels(own, schema)}}
    return {**made, "enum": _options(schema)} if kind == "choice" else made


def _kind(schema: Mapping[str, Any]) -> str | None:
    if _options(schema):
        return "choice"
    if schema.get("format") in ("date", "date-time"):
        return "date"
    return {"string": "text", "number": "number", "integer": "number", "boolean": "bool", "array": "list"}.get(
        _type(schema)
    )


def _labels(own: str, schema: Mapping[str, Any]) -> list[str]:
    words = [" ".join(part.lower() for part in _EDGE.split(own) if part)]
    for key in ("title", "description"):
        text = schema.get(key)
        if isinstance(text, str) and 0 < len(text.split()) <= LONGEST_LABEL:
            words.append(text.lower().strip(" .:"))
    return list(dict.fromkeys(filter(None, words)))


def _options(schema: Mapping[str, Any]) -> list[str]:
    return [option for option in schema.get("enum") or () if isinstance(option, str) and option]


def _snake(own: str) -> str:
    plain = "_".join(part.lower() for part in _EDGE.split(own) if part.isascii() and part)[:55]
    return plain if plain[:1].isalpha() else f"f_{plain}"


def choices(schema: Any, root: Schema) -> list[Mapping[str, Any]]:
    """The schemas one of which must fit, references followed."""
    schema = resolve_ref(schema, root)
    some = schema.get("anyOf") or schema.get("oneOf")
    return [resolve_ref(one, root) for one in some] if isinstance(some, list) else [schema]


def nullable(schema: Any, root: Schema) -> bool:
    """Whether null fits."""
    kinds = [one.get("type") for one in choices(schema, root)]
    return any(kind == "null" or (isinstance(kind, list) and "null" in kind) for kind in kinds)


def content(schema: Any, root: Schema) -> Mapping[str, Any]:
    """What is asked for, without the null beside it and the evidence around it."""
    options = choices(schema, root)
    one = next((one for one in options if one.get("type") != "null"), options[0])
    return content(one["properties"]["value"], root) if _is_quoted(one) else one


def _is_quoted(schema: Mapping[str, Any]) -> bool:
    properties = schema.get("properties")
    return isinstance(properties, Mapping) and "value" in properties and properties.keys() <= {"value", "quote", "page"}


def _type(schema: Mapping[str, Any]) -> str:
    kind = schema.get("type")
    kinds = kind if isinstance(kind, list) else [kind]
    return str(next((one for one in kinds if one != "null"), ""))


def _fill_field(schema: Any, field: Field | None, root: Schema) -> Any:
    wanted = content(schema, root)
    value = None if field is None else _cast(field.value, wanted, root)
    if _type(wanted) == "array" and value is None and not nullable(schema, root):
        return []
    outer = next((one for one in choices(schema, root) if _is_quoted(one)), None)
    if outer is None:
        return value
    evidence = {"value": value, "quote": field.quote if field else None, "page": field.page if field else None}
    return {key: evidence[key] for key in outer["properties"]}


def _cast(value: Any, schema: Mapping[str, Any], root: Schema) -> Any:
    """A field's value in the type that is asked for; None where it has none of it."""
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
