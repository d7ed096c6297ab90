"""Document types as YAML files: finds and reads them, and reports every mistake with its line."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from tabellion.errors import ConfigurationError
from tabellion.messages import LANGUAGES
from tabellion.reading.types import evaluation, expression
from tabellion.reading.types.doctype import DocumentType, ProcessingOptions, Rule
from tabellion.reading.types.field_spec import FieldSpec
from tabellion.reading.types.sections import (
    NAME,
    base_of,
    read_fields,
    read_idempotency,
    read_locale,
    read_output,
    read_phrases,
    read_processing,
)
from tabellion.reading.types.yamlnode import ENDINGS, Mistakes, TypeFileError, YamlNode, find_files, parse

SHIPPED = Path(__file__).parent / "shipped"
FOLDER = Path("types")  #: the default folder of people's own types
SECTIONS = (
    "name", "version", "title", "description", "recognise", "locale", "fields", "validation", "idempotency", "output",
    "processing", "instructions",
)  # fmt: skip
INSTRUCTIONS = "instructions"  #: for reviewers; changing them does not change the type's digest
MOST_RULES = 100


def load(name: str | Path, folders: Sequence[str | Path] = (FOLDER,)) -> DocumentType:
    """Loads a type by its name, from the folders or else from the shipped types, or by the path of its file."""
    text = str(name)
    if isinstance(name, Path) or text.endswith(ENDINGS) or "/" in text:
        return read(Path(name))
    found = available(folders)
    if text in found:
        return _load_shipped(text) if found[text].parent == SHIPPED else read(found[text])
    raise ConfigurationError(
        f"unknown document type {text!r}; known: {', '.join(found)} "
        f"(looked for {text}.yaml in {', '.join(str(folder) for folder in folders) or 'no folder'})"
    )


def available(folders: Sequence[str | Path] = (FOLDER,)) -> dict[str, Path]:
    """The files of all types by name: an earlier folder wins, the shipped types come last."""
    return find_files(folders, SHIPPED)


@functools.cache
def _load_shipped(name: str) -> DocumentType:
    return read(SHIPPED / f"{name}.yaml")


def read(path: Path) -> DocumentType:
    """Reads the type from a file."""
    try:
        source = path.read_bytes()
    except OSError as error:
        raise ConfigurationError(f"{path}: {error.strerror}") from None
    return compile_type(source, str(path), expected=path.stem)


def read_cached(path: Path) -> DocumentType:
    """Reads the type from a file, again only if the file has changed."""
    try:
        status = path.stat()
    except OSError:
        return read(path)  # raises the error with its reason
    return _read_version(path, status.st_mtime_ns, status.st_size)


@functools.lru_cache(maxsize=64)
def _read_version(path: Path, _changed: int, _size: int) -> DocumentType:
    return read(path)


def compile_type(source: bytes | str, file: str = "<text>", expected: str | None = None) -> DocumentType:
    """Compiles a type from its source; raises `TypeFileError` with every mistake in it."""
    root = parse(source, file)
    mistakes = Mistakes()
    doctype = _document_type(root, mistakes, file, expected)
    if mistakes.found:
        raise TypeFileError(file, mistakes.found)
    return doctype


def _document_type(root: YamlNode, mistakes: Mistakes, file: str, expected: str | None) -> DocumentType:
    sections = {key: value for key, (_, value) in mistakes.map(root, "the file", SECTIONS).items()}
    name = mistakes.text(sections["name"], "name") if "name" in sections else ""
    if "name" not in sections:
        mistakes.add(root, "name is missing", f"name: {expected or 'invoice'}")
    elif name and not NAME.fullmatch(name):
        mistakes.add(sections["name"], f"{name!r} is not a valid name: use a-z, digits and _, starting with a letter")
    elif name and expected and name != expected:
        mistakes.add(
            sections["name"], f"the file is named {expected!r} and the type {name!r}", "use the same name: types are "
            "found by their file names",
        )  # fmt: skip
    version = mistakes.text(sections["version"], "version", longest=40) if "version" in sections else ""
    if "version" not in sections:
        mistakes.add(root, "version is missing; cached results depend on it", 'version: "1"')
    processing = read_processing(sections["processing"], mistakes) if "processing" in sections else ProcessingOptions()
    fields: tuple[FieldSpec, ...] = ()
    if "fields" in sections:
        fields = read_fields(sections["fields"], mistakes, processing.threshold)
    else:
        mistakes.add(root, "fields is missing", "fields:\n     total: {type: money, required: true}")
    attributes: dict[str, Any] = {
        key: mistakes.text(sections[key], key) or ""
        for key in ("title", "description", INSTRUCTIONS)
        if key in sections
    }
    for key, reader in (("idempotency", read_idempotency), ("output", read_output), ("locale", read_locale)):
        if key in sections:
            attributes[key] = reader(sections[key], mistakes)
    if "recognise" in sections:
        attributes["recognise"] = read_phrases(sections["recognise"], mistakes, "recognise")
    if "validation" in sections:
        attributes["rules"] = _rules(sections["validation"], mistakes, fields)
    contents = root.plain()
    if isinstance(contents, dict):
        contents.pop(INSTRUCTIONS, None)
    digest = hashlib.sha256(json.dumps(contents, ensure_ascii=False).encode()).hexdigest()
    attributes["title"] = attributes.get("title") or (name or "").replace("_", " ").capitalize()
    return DocumentType(
        name or "", version or "", fields, processing=processing, digest=digest, file=file, **attributes
    )


def _rules(node: YamlNode, mistakes: Mistakes, fields: Sequence[FieldSpec]) -> tuple[Rule, ...]:
    if node.kind != "list":
        mistakes.add(node, "validation is a list of rules", 'validation:\n     - rule: "total == subtotal + tax"')
        return ()
    if len(node.items) > MOST_RULES:
        mistakes.add(node, f"more than {MOST_RULES} rules")
        return ()
    kinds = kinds_of(fields)
    rules: dict[str, Rule] = {}
    for item in node.items:
        rule = _rule(item, mistakes, kinds)
        if rule is None:
            continue
        if rule.name in rules:
            mistakes.add(item, f"two rules are named {rule.name!r}", "give each its own name")
        rules[rule.name] = rule
    return tuple(rules.values())


def _rule(node: YamlNode, mistakes: Mistakes, kinds: evaluation.Kinds) -> Rule | None:
    keys = ("name", "rule", "tolerance", "severity", "message")
    entries = {key: value for key, (_, value) in mistakes.map(node, "a rule", keys).items()}
    if "rule" not in entries:
        if node.kind == "map":
            mistakes.add(node, "the rule itself is missing", 'rule: "total == subtotal + tax"')
        return None
    tolerance = mistakes.number(entries["tolerance"], "tolerance", 0) if "tolerance" in entries else None
    severity = mistakes.one_of(entries["severity"], "severity", ("error", "warning")) if "severity" in entries else None
    text = mistakes.text(entries["rule"], "rule")
    if text is None:
        return None
    try:
        tree = expression.parse(text)
        evaluation.check(tree, kinds, tolerance="tolerance" in entries)
    except expression.ExpressionError as error:
        mistakes.add(entries["rule"], error.what, _mark_position(text, error.at), offset=error.at)
        return None
    return Rule(
        name=(mistakes.text(entries["name"], "name", longest=100) if "name" in entries else None) or text,
        text=text, expression=tree, tolerance=tolerance,
        severity="warning" if severity == "warning" else "error",
        messages=_messages(entries["message"], mistakes) if "message" in entries else {},
    )  # fmt: skip


def _messages(node: YamlNode, mistakes: Mistakes) -> dict[str, str]:
    """The messages of a rule by language; a single text is English."""
    if node.kind != "map":
        text = mistakes.text(node, "message")
        return {"en": text} if text else {}
    entries = mistakes.map(node, "message", tuple(LANGUAGES))
    return {key: text for key, (_, value) in entries.items() if (text := mistakes.text(value, f"message.{key}"))}


def _mark_position(text: str, at: int) -> str:
    """The rule with a mark before the wrong character."""
    line = " ".join(text[max(0, at - 40) : at].split()) + " ▶" + " ".join(text[at : at + 40].split())
    return f"see: {line.strip()}"


def kinds_of(fields: Iterable[FieldSpec]) -> dict[str, Any]:
    """The kinds of the fields, as rules see them."""
    return {
        spec.name: kinds_of(spec.items) if spec.kind == "list" else evaluation.ValueKind(base_of(spec.kind))
        for spec in fields
    }
