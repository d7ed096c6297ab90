"""Converts a JSON Schema for OpenAI's strict mode: every field required, optional ones nullable, nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tabellion.models.base import Schema

#: Keywords that strict mode rejects; they can be dropped, because the answer is validated against the original.
DROPPED = {
    "$schema", "$id", "default", "examples", "minLength", "maxLength", "uniqueItems", "minProperties", "maxProperties",
    "readOnly", "writeOnly", "deprecated", "propertyOrdering",
}  # fmt: skip
#: Keywords that change what is valid, and that strict mode does not support.
BEYOND = {"allOf", "oneOf", "not", "if", "dependentRequired", "dependentSchemas", "patternProperties", "prefixItems"}
FORMATS = {"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}


class _TooLoose(Exception):  # noqa: N818 - a verdict
    """The schema cannot be expressed in strict mode."""


def make_strict(schema: Schema) -> dict[str, Any] | None:
    """The strict schema, or None where there is none (free maps, allOf, …): then send it without `strict`."""
    try:
        converted: dict[str, Any] = _strict(schema)
    except _TooLoose:
        return None
    return converted


def _strict(schema: Any) -> Any:
    if not isinstance(schema, Mapping) or BEYOND & schema.keys():
        raise _TooLoose
    converted: dict[str, Any] = {}
    for key, value in schema.items():
        if key in DROPPED or (key == "format" and value not in FORMATS):
            continue
        if key in ("properties", "$defs", "definitions"):
            converted[key] = {name: _strict(inner) for name, inner in value.items()}
        elif key == "items":
            converted[key] = _strict(value)
        elif key == "anyOf":
            converted[key] = [_strict(choice) for choice in value]
        else:
            converted[key] = value
    if _is_object(schema):
        if not schema.get("properties") or schema.get("additionalProperties", False) not in (False, True):
            raise _TooLoose  # a map with arbitrary keys
        required = schema.get("required") or ()
        for name, inner in converted["properties"].items():
            if name not in required:
                converted["properties"][name] = nullable(inner)
        converted["required"] = list(converted["properties"])
        converted["additionalProperties"] = False
    return converted


def _is_object(schema: Mapping[str, Any]) -> bool:
    kind = schema.get("type")
    return kind == "object" or "properties" in schema or (isinstance(kind, list) and "object" in kind)


def nullable(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema with null allowed."""
    kind = schema.get("type")
    if kind is None or "const" in schema or "$ref" in schema or "anyOf" in schema:
        return {"anyOf": [schema, {"type": "null"}]}
    kinds = [kind] if isinstance(kind, str) else list(kind)
    result = schema if "null" in kinds else {**schema, "type": [*kinds, "null"]}
    if "enum" in result and None not in result["enum"]:
        result = {**result, "enum": [*result["enum"], None]}
    return result
