"""A JSON Schema as OpenAI's strict mode wants it: every field required, optional ones nullable, nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tabellion.models.base import Schema

#: Keywords that strict mode refuses and that lose nothing on the wire: the answer is checked against the original.
DROPPED = {
    "$schema", "$id", "default", "examples", "minLength", "maxLength", "uniqueItems", "minProperties", "maxProperties",
    "readOnly", "writeOnly", "deprecated", "propertyOrdering",
}  # fmt: skip
#: Keywords that change what fits, and that strict mode does not know.
BEYOND = {"allOf", "oneOf", "not", "if", "dependentRequired", "dependentSchemas", "patternProperties", "prefixItems"}
FORMATS = {"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}


class _TooLoose(Exception):  # noqa: N818 - a verdict
    """The schema cannot be said in strict mode."""


def strict(schema: Schema) -> dict[str, Any] | None:
    """The strict form, or None where there is none (free maps, allOf, …): then send it without `strict`."""
    try:
        made: dict[str, Any] = _strict(schema)
    except _TooLoose:
        return None
    return made


def _strict(schema: Any) -> Any:
    if not isinstance(schema, Mapping) or BEYOND & schema.keys():
        raise _TooLoose
    made: dict[str, Any] = {}
    for key, value in schema.items():
        if key in DROPPED or (key == "format" and value not in FORMATS):
            continue
        if key in ("properties", "$defs", "definitions"):
            made[key] = {name: _strict(inner) for name, inner in value.items()}
        elif key == "items":
            made[key] = _strict(value)
        elif key == "anyOf":
            made[key] = [_strict(choice) for choice in value]
        else:
            made[key] = value
    if _is_object(schema):
        if not schema.get("properties") or schema.get("additionalProperties", False) not in (False, True):
            raise _TooLoose  # a map with keys of its own
        required = schema.get("required") or ()
        for name, inner in made["properties"].items():
            if name not in required:
                made["properties"][name] = nullable(inner)
        made["required"] = list(made["properties"])
        made["additionalProperties"] = False
    return made


def _is_object(schema: Mapping[str, Any]) -> bool:
    kind = schema.get("type")
    return kind == "object" or "properties" in schema or (isinstance(kind, list) and "object" in kind)


def nullable(schema: dict[str, Any]) -> dict[str, Any]:
    """The same or null."""
    kind = schema.get("type")
    if kind is None or "const" in schema or "$ref" in schema or "anyOf" in schema:
        return {"anyOf": [schema, {"type": "null"}]}
    kinds = [kind] if isinstance(kind, str) else list(kind)
    made = schema if "null" in kinds else {**schema, "type": [*kinds, "null"]}
    if "enum" in made and None not in made["enum"]:
        made = {**made, "enum": [*made["enum"], None]}
    return made
