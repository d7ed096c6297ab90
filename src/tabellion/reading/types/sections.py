"""Reads the sections of a type file: fields with their labels, and how documents of the type are processed."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date
from pathlib import PurePosixPath
from string import Formatter
from typing import Any

from tabellion.reading.types import pattern
from tabellion.reading.types.doctype import ANY, Idempotency, Locale, Output, ProcessingOptions
from tabellion.reading.types.expression import RESERVED
from tabellion.reading.types.field_spec import FieldSpec, Phrases
from tabellion.reading.types.kinds import KINDS, NUMERIC
from tabellion.reading.types.yamlnode import Mistakes, YamlNode

NAME = re.compile(r"[a-z][a-z0-9_]{0,59}")
LANGUAGE = re.compile(r"[a-z]{2}")
PLACEHOLDERS = ("yyyy", "mm", "dd", "id", "type", "version", "sha256")
FIELD_KEYS = (
    "type", "title", "description", "required", "pattern", "enum", "range", "labels", "not_labels", "threshold",
    "severity", "items",
)  # fmt: skip
#: Other words that people write for kinds.
SYNONYMS = {
    "string": "text", "str": "text", "int": "number", "integer": "number", "float": "number", "decimal": "number",
    "amount": "money", "datetime": "date", "boolean": "bool", "enum": "choice", "array": "list", "table": "list",
    "percentage": "percent", "identifier": "id", "object": "list",
}  # fmt: skip
ROW_WORDS = ("quote", "page")  # a model returns these for a row, beside its columns
MOST_FIELDS = 200


def base_of(kind: str) -> str:
    """The kind that rules use for a field of this kind."""
    if kind in NUMERIC:
        return "number"
    return kind if kind in ("date", "bool") else "text"


def read_fields(
    node: YamlNode, mistakes: Mistakes, threshold: float, *, columns: bool = False
) -> tuple[FieldSpec, ...]:
    """The fields of a type, or the columns of a list."""
    entries = mistakes.map(node, "fields")
    if node.kind == "map" and not entries:
        mistakes.add(node, "there are no fields", "total: {type: money}")
    if len(entries) > MOST_FIELDS:
        mistakes.add(node, f"more than {MOST_FIELDS} fields")
    specs = []
    for name, (key, value) in entries.items():
        reserved = (*RESERVED, *(ROW_WORDS if columns else ()))
        if not NAME.fullmatch(name):
            mistakes.add(key, f"{name!r} is not a valid field name: use a-z, digits and _, starting with a letter",
                         f"write {re.sub('[^a-z0-9]+', '_', name.lower()).strip('_') or 'a_name'}")  # fmt: skip
        elif name in reserved:
            mistakes.add(key, f"{name!r} is a reserved word and cannot be a field name", f"write {name}_")
        specs.append(_field(name, value, mistakes, threshold, columns))
    return tuple(specs)


def _field(name: str, node: YamlNode, mistakes: Mistakes, threshold: float, column: bool) -> FieldSpec:
    if node.kind == "scalar":  # total: money
        node = YamlNode("map", node.line, node.column, entries={"type": (node, node)})
    entries = {key: value for key, (_, value) in mistakes.map(node, f"field {name!r}", FIELD_KEYS).items()}
    kind = _kind(name, node, entries.get("type"), mistakes)
    spec: dict[str, Any] = {"title": name.replace("_", " ").capitalize(), "threshold": threshold}
    for key in ("title", "description"):
        if key in entries:
            spec[key] = mistakes.text(entries[key], key) or ""
    if "required" in entries:
        spec["required"] = mistakes.boolean(entries["required"], "required")
    if "threshold" in entries:
        spec["threshold"] = float(mistakes.number(entries["threshold"], "threshold", 0, 1) or 0)
    if "severity" in entries:
        spec["severity"] = mistakes.one_of(entries["severity"], "severity", ("error", "warning")) or "error"
    for key in ("labels", "not_labels"):
        if key in entries:
            spec[key] = read_phrases(entries[key], mistakes, key)
    if "pattern" in entries:
        spec["pattern"] = _pattern(kind, entries["pattern"], mistakes)
    if "enum" in entries:
        spec["options"] = mistakes.texts(entries["enum"], "enum")
        if kind not in ("choice", "text", "id", "currency", "name"):
            mistakes.add(entries["enum"], f"a {kind} has no enum", "use type: choice")
    elif kind == "choice":
        mistakes.add(node, f"the choice {name!r} has no options", "enum: [first, second]")
    if "range" in entries:
        spec["least"], spec["most"] = _range(kind, entries["range"], mistakes)
    spec["items"] = _items(name, kind, node, entries.get("items"), mistakes, threshold, column)
    return FieldSpec(name, kind, **spec)


def _kind(name: str, node: YamlNode, type_node: YamlNode | None, mistakes: Mistakes) -> str:
    if type_node is None:
        if node.kind == "map":
            mistakes.add(node, f"field {name!r} has no type", f"type: one of {', '.join(KINDS)}")
        return "text"
    if type_node.kind == "scalar" and type_node.text in SYNONYMS:
        instead = SYNONYMS[type_node.text]
        mistakes.add(type_node, f"unknown type {type_node.text!r}", f"write {instead}: {KINDS[instead]}")
        return instead
    return mistakes.one_of(type_node, "type", KINDS) or "text"


def _items(
    name: str, kind: str, node: YamlNode, items: YamlNode | None, mistakes: Mistakes, threshold: float, column: bool
) -> tuple[FieldSpec, ...]:
    if kind != "list":
        if items is not None:
            mistakes.add(items, f"only a list has items; {name!r} is a {kind}", "type: list")
        return ()
    if column:
        mistakes.add(node, f"{name!r}: a list within a list is not supported", "make it a separate field")
        return ()
    if items is None:
        mistakes.add(node, f"the list {name!r} has no items", "items: {description: text, amount: money}")
        return ()
    if items.kind == "map" and list(items.entries) == ["fields"]:
        items = items.entries["fields"][1]
    return read_fields(items, mistakes, threshold, columns=True)


def _pattern(kind: str, node: YamlNode, mistakes: Mistakes) -> str | None:
    text = mistakes.text(node, "pattern")
    if text is None:
        return None
    if kind not in ("text", "name", "address", "id", "currency", "choice"):
        mistakes.add(node, f"a {kind} has no pattern: its value is normalised", "use range")
    if fault := pattern.fault(text):
        mistakes.add(node, fault, "the whole value must match, so neither ^ nor $ is needed")
    return text


def _range(kind: str, node: YamlNode, mistakes: Mistakes) -> tuple[Any, Any]:
    entries = mistakes.map(node, "range", ("min", "max"))
    bounds: list[Any] = [None, None]
    for index, key in enumerate(("min", "max")):
        if key not in entries:
            continue
        bound = entries[key][1]
        if kind == "date":
            try:
                bounds[index] = date.fromisoformat(bound.text)
            except ValueError:
                mistakes.add(bound, f"{key} of a date must be written as 2000-01-31; found {bound.text!r}")
        elif kind in NUMERIC:
            bounds[index] = mistakes.number(bound, key)
        elif kind == "list":
            bounds[index] = mistakes.number(bound, key, 0, whole=True)
        else:
            mistakes.add(bound, f"a {kind} has no range", "range is for numbers, dates and lists (their rows)")
    least, most = bounds
    if least is not None and most is not None and least > most:
        mistakes.add(node, f"the range is empty: {least} is greater than {most}")
    return least, most


def read_phrases(node: YamlNode, mistakes: Mistakes, name: str) -> Phrases:
    """Phrases by language; a plain list is for any language."""
    if node.kind != "map":
        return {ANY: mistakes.texts(node, name)}
    by_language = {}
    for language, (key, value) in node.entries.items():
        if language != ANY and not LANGUAGE.fullmatch(language):
            mistakes.add(key, f"{language!r} is not a language code: use two lower-case letters such as en, fr, de")
        by_language[language] = mistakes.texts(value, name)
    return by_language


#: Reads the value of a key from its node and records mistakes.
ReadSection = Callable[[YamlNode, Mistakes, str], Any]


def _read(node: YamlNode, mistakes: Mistakes, name: str, readers: dict[str, ReadSection]) -> dict[str, Any]:
    values = {}
    for key, (_, value) in mistakes.map(node, name, readers).items():
        result = readers[key](value, mistakes, key)
        if result is not MISSING:
            values[key] = result
    return values


MISSING = object()


def _one_of(*options: str) -> ReadSection:
    return lambda node, mistakes, name: mistakes.one_of(node, name, options) or MISSING


def _amount(least: float, most: float | None = None, *, whole: bool = False, nullable: bool = False) -> ReadSection:
    def read(node: YamlNode, mistakes: Mistakes, name: str) -> Any:
        if nullable and node.is_null:
            return None
        number = mistakes.number(node, name, least, most, whole=whole)
        return MISSING if number is None else int(number) if whole else float(number)

    return read


def _boolean(node: YamlNode, mistakes: Mistakes, name: str) -> Any:
    return mistakes.boolean(node, name)


def read_idempotency(node: YamlNode, mistakes: Mistakes) -> Idempotency:
    """The section on what happens when the same file is uploaded again."""
    return Idempotency(**_read(node, mistakes, "idempotency", {
        "policy": _one_of("link", "reject", "keep"), "hash": _one_of("sha256"),
        "cache_ttl": _amount(0, nullable=True), "preserve_locked": _boolean,
    }))  # fmt: skip


def read_output(node: YamlNode, mistakes: Mistakes) -> Output:
    """The section on where results are written."""
    values = _read(node, mistakes, "output", {
        "json": _template(".json"), "parquet": _template(".parquet"),
        "compression": _one_of("zstd", "snappy", "gzip", "none"), "atomic": _require_true,
    })  # fmt: skip
    values.pop("atomic", None)
    return Output(**values)


def _require_true(node: YamlNode, mistakes: Mistakes, name: str) -> Any:
    if not mistakes.boolean(node, name):
        mistakes.add(node, "files are always written atomically", "remove the key")
    return MISSING


def _template(ending: str) -> ReadSection:
    def read(node: YamlNode, mistakes: Mistakes, name: str) -> Any:
        if node.is_null:
            return None
        text = mistakes.text(node, name, longest=200)
        if text is None:
            return MISSING
        example = f"{ending[1:]}/{{yyyy}}/{{mm}}/{{dd}}/{{id}}{ending}"
        try:
            fields = [
                (placeholder, spec, conversion)
                for _, placeholder, spec, conversion in Formatter().parse(text)
                if placeholder is not None
            ]
        except ValueError as error:
            mistakes.add(node, f"{name}: {error}", f"as in {example}")
            return MISSING
        for placeholder, spec, conversion in fields:
            if placeholder not in PLACEHOLDERS or spec or conversion:
                known = ", ".join(f"{{{placeholder}}}" for placeholder in PLACEHOLDERS)
                mistakes.add(node, f"{name}: unknown placeholder {{{placeholder}}}", f"known: {known}")
        if not any(placeholder in ("id", "sha256") for placeholder, _, _ in fields):
            mistakes.add(node, f"{name} names the same file for every document", f"put {{id}} in, as in {example}")
        path = PurePosixPath(text)
        if path.is_absolute() or ".." in path.parts or "\\" in text or ":" in text or text.startswith("~"):
            mistakes.add(node, f"{name} must be a path below the data folder, without .. and \\", f"as in {example}")
        if not text.endswith(ending):
            mistakes.add(node, f"{name} must end in {ending}", f"as in {example}")
        return text

    return read


def read_processing(node: YamlNode, mistakes: Mistakes) -> ProcessingOptions:
    """The section on how documents of the type are processed."""
    values = _read(node, mistakes, "processing", {
        "model": lambda node, mistakes, name: None if node.is_null else mistakes.text(node, name, longest=100),
        "retries": _amount(0, 20, whole=True), "retry_base": _amount(0, 3600),
        "concurrency": _amount(1, 10_000, whole=True, nullable=True),
        "circuit_breaker": lambda node, mistakes, name: _read(node, mistakes, name, {
            "failure_threshold": _amount(1, 1000, whole=True), "recovery_timeout": _amount(1, 86_400),
            "recovery_timeout_seconds": _amount(1, 86_400),
        }),
        "sla": _amount(1, 366 * 86_400, nullable=True),
        "review": _one_of("never", "doubtful", "always"), "sampling": _amount(0, 100), "threshold": _amount(0, 1),
    })  # fmt: skip
    breaker = values.pop("circuit_breaker", {})
    if "recovery_timeout_seconds" in breaker:  # accepted as a synonym
        breaker["recovery_timeout"] = breaker.pop("recovery_timeout_seconds")
    return ProcessingOptions(**breaker, **values)


def read_locale(node: YamlNode, mistakes: Mistakes) -> Locale:
    """The section that resolves ambiguous dates, languages and currencies."""
    values = _read(node, mistakes, "locale", {
        "dates": _one_of("dmy", "mdy", "ymd"),
        "languages": lambda node, mistakes, name: mistakes.texts(node, name, longest=2),
        "currency": lambda node, mistakes, name: mistakes.text(node, name, longest=3),
    })  # fmt: skip
    if values.get("currency") and not re.fullmatch("[A-Z]{3}", values["currency"]):
        mistakes.add(node.entries["currency"][1], "a currency must be three capital letters such as EUR")
    return Locale(**values)
