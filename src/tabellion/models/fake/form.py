"""Fills a JSON Schema, or Gemini's dialect of it, from a text; missing values are generated from its hash."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import date, timedelta
from hashlib import sha256
from typing import Any, Final

from tabellion.models.base import Schema
from tabellion.models.fake import typed
from tabellion.models.fake.lines import LabelledLines, lines_of, words

DEEPEST = 8
MOST_ITEMS = 200
LONGEST_MADE = 10_000  # characters
NOTHING: Final = object()  #: not found, which is not the same as null


class FormFiller:
    """One schema and the text it is filled from."""

    def __init__(self, schema: Schema, text: str, digest: str) -> None:
        self._root, self._text, self._digest = schema, text, digest
        self._lines: LabelledLines = lines_of(text)

    def fill(self) -> Any:
        """The object, always the same for the same text."""
        value = self._find_value(self._root, ("",), 0, 0)
        return self._make_value(self._root, "", 0) if value is NOTHING else value

    # Values from the text

    def _find_value(self, schema: Schema, names: tuple[str, ...], which: int, depth: int) -> Any:
        """The value of a field with these names in the text; its `which`-th mention, for items of a list."""
        schema = self._resolve_refs(schema)
        options = [option for option in _options(schema) if _type(self._resolve_refs(option)) != "null"]
        if depth > DEEPEST:
            return NOTHING
        if options:
            values = (self._find_value(option, names, which, depth + 1) for option in options)
            return next((value for value in values if value is not NOTHING), NOTHING)
        kind = _type(schema)
        if kind == "object":
            return self._object(schema, names, which, depth)
        if kind == "array":
            return self._array(schema, names, depth)
        if "const" in schema:
            return schema["const"]
        if schema.get("enum"):
            return self._choice(schema["enum"], names, str(schema.get("description") or ""), which)
        found = self._values(schema, kind, names)
        return next((value for number, value in enumerate(found) if number == which), NOTHING)

    def _values(self, schema: Schema, kind: str, names: tuple[str, ...]) -> Iterator[Any]:
        tried = set()
        for phrase in (*names, words(str(schema.get("description") or ""))):
            if phrase in tried:
                continue
            tried.add(phrase)
            found = False
            for text in self._lines.behind(phrase):
                value = _convert_text(text, kind, str(schema.get("format") or ""))
                if value is not None:
                    found = True
                    yield _clamp_value(value, schema)
            if found:
                return

    def _choice(self, values: list[Any], names: tuple[str, ...], description: str, which: int) -> Any:
        for phrase in (*names, words(description)):
            for number, text in enumerate(self._lines.behind(phrase)):
                if number == which:
                    for value in values:
                        if value is not None and typed.position(str(value), text) >= 0:
                            return value
        for value in values:
            if value is not None and typed.position(str(value), self._text) >= 0:
                return value
        return NOTHING

    def _object(self, schema: Schema, names: tuple[str, ...], which: int, depth: int) -> Any:
        found: dict[str, Any] = {}
        if names[0] and _is_evidence(schema):
            # `total: {value, quote, page}` is about "Total", and no label in a document is "Value".
            value = self._find_value(schema["properties"]["value"], names, which, depth + 1)
            found = {"value": value, "quote": NOTHING if value is NOTHING else str(value)}
            return NOTHING if value is NOTHING else self._complete_object(schema, found, names[0], depth)
        for name, property_ in _properties(schema):
            label = words(name)
            # For `vendor.name`, "Vendor name" comes before any "Name".
            outer_labels = tuple(f"{outer} {label}" for outer in names[:1] if outer)
            found[name] = self._find_value(property_, (*outer_labels, label), which, depth + 1)
        if all(value is NOTHING for value in found.values()):
            return NOTHING
        return self._complete_object(schema, found, names[0], depth)

    def _array(self, schema: Schema, names: tuple[str, ...], depth: int) -> Any:
        items = self._resolve_refs(schema.get("items") or {})
        most = min(int(_get(schema, "maxItems") or MOST_ITEMS), MOST_ITEMS)
        values: list[Any] = []
        if _type(items) == "object":
            while len(values) < most:
                item = self._item(items, len(values), depth)
                if item is NOTHING:
                    break
                values.append(item)
        else:
            listed = next((text for phrase in names for text in self._lines.behind(phrase)), "")
            pieces = (piece.strip() for piece in listed.replace(";", ",").split(","))
            for piece in filter(None, pieces):
                value = _convert_text(piece, _type(items), str(items.get("format") or ""))
                choices = items.get("enum")
                if value is not None and (not choices or value in choices):
                    values.append(value)
        return values[:most] if values else NOTHING

    def _item(self, items: Schema, which: int, depth: int) -> Any:
        """The object of the n-th mention of each property; lists inside lists are not filled."""
        found = {}
        for name, property_ in _properties(items):
            resolved = self._resolve_refs(property_)
            nested = _type(resolved) in ("object", "array") or "const" in resolved or resolved.get("enum")
            found[name] = NOTHING if nested else self._find_value(property_, (words(name),), which, depth + 1)
        if all(value is NOTHING for value in found.values()):
            return NOTHING
        return self._complete_object(items, found, f"item {which}", depth)

    def _complete_object(self, schema: Schema, found: Mapping[str, Any], path: str, depth: int) -> dict[str, Any]:
        required = set(schema.get("required") or ())
        values: dict[str, Any] = {}
        for name, property_ in _properties(schema):
            value = found.get(name, NOTHING)
            if value is NOTHING:
                if self._nullable(property_):
                    value = None
                elif name in required:
                    value = self._make_value(property_, f"{path}.{name}", depth + 1)
                else:
                    continue
            values[name] = value
        return values

    # Values that are not in the text

    def _make_value(self, schema: Schema, path: str, depth: int) -> Any:
        """A value of the right type, generated from the content's hash."""
        schema = self._resolve_refs(schema)
        if depth > DEEPEST:
            return None
        options = _options(schema)
        if options:
            return self._make_value(options[0], path, depth + 1)
        seed = int.from_bytes(sha256(f"{self._digest}/{path}".encode()).digest()[:8], "big")
        kind = _type(schema)
        if "const" in schema:
            return schema["const"]
        if schema.get("enum"):
            return schema["enum"][seed % len(schema["enum"])]
        if kind == "object":
            return self._complete_object(schema, {}, path, depth)
        if kind == "array":
            least = min(int(_get(schema, "minItems") or 0), MOST_ITEMS)
            return [self._make_value(schema.get("items") or {}, f"{path}[{n}]", depth + 1) for n in range(least)]
        if kind == "boolean":
            return bool(seed & 1)
        if kind in ("number", "integer"):
            return _clamp_value(seed % 10_000 if kind == "integer" else seed % 1_000_000 / 100, schema)
        if kind == "null":
            return None
        return _clamp_value(_make_text(path, seed, str(schema.get("format") or "")), schema)

    # The schema itself

    def _resolve_refs(self, schema: Any) -> Schema:
        """The schema with references resolved; where that fails, anything is valid."""
        for _ in range(DEEPEST):
            if not isinstance(schema, Mapping):
                return {}
            if isinstance(schema.get("$ref"), str):
                target: Any = self._root
                for step in schema["$ref"].removeprefix("#").strip("/").split("/"):
                    target = target.get(step, {}) if step and isinstance(target, Mapping) else target
                schema = target
            elif isinstance(schema.get("allOf"), list) and len(schema["allOf"]) == 1:
                schema = {**schema["allOf"][0], **{key: value for key, value in schema.items() if key != "allOf"}}
            else:
                return schema
        return {}

    def _nullable(self, schema: Any) -> bool:
        schema = self._resolve_refs(schema)
        kinds = schema.get("type")
        return (
            bool(schema.get("nullable"))
            or (isinstance(kinds, list) and any(str(kind).lower() == "null" for kind in kinds))
            or any(_type(self._resolve_refs(option)) == "null" for option in _options(schema))
            or (None in (schema.get("enum") or ()))
        )


def _get(schema: Schema, camel: str) -> Any:
    snake = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in camel)
    return schema.get(camel, schema.get(snake))


def _options(schema: Schema) -> list[Any]:
    for name in ("anyOf", "any_of", "oneOf"):
        if isinstance(schema.get(name), list) and schema[name]:
            return list(schema[name])
    return []


def _type(schema: Schema) -> str:
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = next((name for name in kind if str(name).lower() != "null"), "null")
    if kind and str(kind) != "TYPE_UNSPECIFIED":
        return str(kind).lower()
    if schema.get("properties"):
        return "object"
    return "array" if "items" in schema else "string"


def _is_evidence(schema: Schema) -> bool:
    properties = schema.get("properties")
    return isinstance(properties, Mapping) and {"value", "quote"} <= properties.keys() <= {"value", "quote", "page"}


def _properties(schema: Schema) -> list[tuple[str, Any]]:
    properties = schema.get("properties")
    if not isinstance(properties, Mapping):
        return []
    order = _get(schema, "propertyOrdering") or ()
    names = [name for name in order if name in properties]
    return [(name, properties[name]) for name in (*names, *(name for name in properties if name not in names))]


def _convert_text(text: str, kind: str, form: str) -> Any:
    if kind in ("number", "integer"):
        number = typed.number(text)
        return int(number) if number is not None and kind == "integer" else number
    if kind == "boolean":
        return typed.parse_boolean(text)
    if form == "date":
        return typed.day(text)
    if form == "date-time":
        day = typed.day(text)
        return f"{day}T00:00:00Z" if day else None
    return text or None


def _clamp_value(value: Any, schema: Schema) -> Any:
    """The value limited to the bounds of the schema."""
    if isinstance(value, str):
        longest, shortest = _get(schema, "maxLength"), _get(schema, "minLength")
        value = value.ljust(min(int(shortest), LONGEST_MADE), "x") if shortest is not None else value
        return value[: int(longest)] if longest is not None else value
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    low, high = schema.get("minimum"), schema.get("maximum")
    value = max(value, low) if isinstance(low, int | float) else value
    return min(value, high) if isinstance(high, int | float) else value


def _make_text(path: str, seed: int, form: str) -> str:
    day = (date(2000, 1, 1) + timedelta(days=seed % 9000)).isoformat()
    if form == "date":
        return day
    if form == "date-time":
        return f"{day}T00:00:00Z"
    return f"{words(path.rpartition('.')[2]) or 'value'} {seed % 0x1000000:06x}"
