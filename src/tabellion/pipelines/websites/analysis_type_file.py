"""Reads analysis types from YAML; every mistake is reported with its line."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

from tabellion.errors import ConfigurationError
from tabellion.messages import LANGUAGES
from tabellion.pipelines.websites.analysis_type import ANSWER, BUDGET, KINDS, AnalysisField, AnalysisType, Kind
from tabellion.pipelines.websites.rules.apply import RULES
from tabellion.reading.types import yamlnode
from tabellion.reading.types.yamlnode import ENDINGS, Mistakes, TypeFileError, YamlNode, parse

SHIPPED = Path(__file__).parent / "types"
FOLDER = Path("analyses")  #: the default folder of people's own types
NAME = re.compile(r"[a-z][a-z0-9-]{0,39}")
FIELD = re.compile(r"[a-z][a-z0-9_]{0,39}")
KEYS = (
    "name", "version", "title", "description", "rules", "models", "budget", "answer", "relevance", "prompt", "fields",
)  # fmt: skip
FIELD_KEYS = ("type", "title", "description", "options", "least", "most", "required")
#: What a prompt may contain, with what it becomes.
PLACEHOLDERS = {
    "url": "the URL after redirects",
    "language": "the language of the answer",
    "facts": "title, description, headings, contacts and other facts",
    "text": "the passages of the pages that fit the budget, the most relevant ones",
}
PLACEHOLDER = re.compile(r"\{(\w+)\}")
LONGEST_PROMPT = 20_000
MOST_FIELDS = 40
Entries = Mapping[str, tuple[YamlNode, YamlNode]]


def load(name: str | Path, folders: Sequence[str | Path] = (FOLDER,)) -> AnalysisType:
    """A type by its name, from these folders or those that ship, or by the path of its file."""
    if isinstance(name, Path) or str(name).endswith(ENDINGS):
        return read_file(Path(name))
    found = find_files(folders)
    if name not in found:
        raise ConfigurationError(f"unknown analysis type {name!r}; known: {', '.join(found)}")
    return read_file(found[str(name)])


def find_files(folders: Sequence[str | Path] = (FOLDER,)) -> dict[str, Path]:
    """The files of all types by name; those in the folders take precedence over those that ship."""
    return yamlnode.find_files(folders, SHIPPED)


def read_file(path: Path) -> AnalysisType:
    """The type of a file."""
    try:
        source = path.read_bytes()
    except OSError as error:
        raise ConfigurationError(f"{path}: {error.strerror}") from None
    return read(source, str(path), expected=path.stem)


def read(source: bytes | str, file: str = "<text>", expected: str | None = None) -> AnalysisType:
    """Parses a type; raises a TypeFileError that lists every mistake."""
    root = parse(source, file)
    mistakes = Mistakes()
    found = _TypeReader(mistakes, file).read(root, expected)
    if mistakes.found:
        raise TypeFileError(file, mistakes.found)
    return found


class _TypeReader:
    """Reads the parts of a file."""

    def __init__(self, mistakes: Mistakes, file: str) -> None:
        self._mistakes, self._file = mistakes, file

    def read(self, root: YamlNode, expected: str | None) -> AnalysisType:
        mistakes = self._mistakes
        entries = mistakes.map(root, "the file", KEYS)
        for key, fix in (("name", f"name: {expected or 'profile'}"), ("version", 'version: "1"'),
                         ("prompt", "prompt:\n     system: …\n     user: …"),
                         ("fields", "fields:\n     summary: {type: text}")):  # fmt: skip
            if key not in entries and root.kind == "map":
                mistakes.add(root, f"{key} is missing", fix)
        name = self._text(entries, "name", 40)
        if name and not NAME.fullmatch(name):
            mistakes.add(entries["name"][1], f"{name!r} is not a valid name: use a-z, digits and hyphens")
        elif name and expected and name != expected:
            mistakes.add(entries["name"][1], f"the file is named {expected!r} and the type {name!r}",
                         "use the same name: types are found by their file names")  # fmt: skip
        system, user = self._prompts(entries["prompt"][1]) if "prompt" in entries else ("", "")
        rules = mistakes.one_of(entries["rules"][1], "rules", list(RULES)) if "rules" in entries else None
        digest = hashlib.sha256(json.dumps(root.plain(), ensure_ascii=False).encode()).hexdigest()[:16]
        return AnalysisType(
            name=name, version=self._text(entries, "version", 40), system=system, user=user, rules=rules,
            fields=self._fields(entries["fields"][1]) if "fields" in entries else (),
            titles=self._by_language(entries, "title"), descriptions=self._by_language(entries, "description"),
            models=mistakes.texts(entries["models"][1], "models") if "models" in entries else (),
            relevance=mistakes.texts(entries["relevance"][1], "relevance") if "relevance" in entries else (),
            budget=self._whole(entries, "budget", BUDGET, 500, 1_000_000),
            answer=self._whole(entries, "answer", ANSWER, 100, 65_536), digest=digest, file=self._file,
        )  # fmt: skip

    def _text(self, entries: Entries, key: str, longest: int) -> str:
        return (self._mistakes.text(entries[key][1], key, longest=longest) or "") if key in entries else ""

    def _whole(self, entries: Entries, key: str, default: int, least: int, most: int) -> int:
        if key not in entries:
            return default
        value = self._mistakes.number(entries[key][1], key, least, most, whole=True)
        return default if value is None else int(value)

    def _by_language(self, entries: Entries, key: str) -> dict[str, str]:
        """A text by language; a single text is English."""
        if key not in entries:
            return {}
        node = entries[key][1]
        if node.kind != "map":
            text = self._mistakes.text(node, key, longest=500)
            return {"en": text} if text else {}
        found = self._mistakes.map(node, key, tuple(LANGUAGES))
        texts = {name: self._mistakes.text(value, f"{key}.{name}", longest=500) for name, (_, value) in found.items()}
        return {name: text for name, text in texts.items() if text}

    def _prompts(self, node: YamlNode) -> tuple[str, str]:
        entries = self._mistakes.map(node, "prompt", ("system", "user"))
        texts = {}
        for key, (_, value) in entries.items():
            text = self._mistakes.text(value, f"prompt.{key}", longest=LONGEST_PROMPT) or ""
            texts[key] = text
            for found in PLACEHOLDER.finditer(text):
                if found[1] not in PLACEHOLDERS:
                    self._mistakes.add(value, f"unknown placeholder {{{found[1]}}} in prompt.{key}",
                                       f"known: {', '.join(f'{{{known}}}' for known in PLACEHOLDERS)}")  # fmt: skip
        if node.kind == "map" and "user" not in entries:
            self._mistakes.add(node, "prompt has no user", "user: |\n       {facts}\n       {text}")
        elif texts.get("user") and "{text}" not in texts["user"]:
            self._mistakes.add(entries["user"][1], "prompt.user does not contain {text}",
                               "without it, models do not see the pages")  # fmt: skip
        return texts.get("system", ""), texts.get("user", "")

    def _fields(self, node: YamlNode) -> tuple[AnalysisField, ...]:
        entries = self._mistakes.map(node, "fields")
        if node.kind == "map" and not entries:
            self._mistakes.add(node, "fields is empty", "fields:\n     summary: {type: text}")
        if len(entries) > MOST_FIELDS:
            self._mistakes.add(node, f"more than {MOST_FIELDS} fields")
        found = []
        for name, (at, body) in entries.items():
            if not FIELD.fullmatch(name):
                self._mistakes.add(at, f"the field {name!r} must be small letters, digits and underscores")
            found.append(self._field(name, body))
        return tuple(found)

    def _field(self, name: str, node: YamlNode) -> AnalysisField:
        mistakes = self._mistakes
        if node.kind == "scalar":
            kind = mistakes.one_of(node, f"fields.{name}", KINDS)
            return AnalysisField(name, cast(Kind, kind or "text"))
        entries = mistakes.map(node, f"fields.{name}", FIELD_KEYS)
        if "type" not in entries and node.kind == "map":
            mistakes.add(node, f"fields.{name} has no type", f"type: one of {', '.join(KINDS)}")
        kind = cast(Kind, (mistakes.one_of(entries["type"][1], "type", KINDS) if "type" in entries else None) or "text")
        options, option_titles = self._options(entries["options"][1]) if "options" in entries else ((), {})
        if kind == "choice" and not options and "type" in entries:
            mistakes.add(node, f"fields.{name} is a choice without options", "options: [formal, friendly]")
        if options and kind != "choice":
            mistakes.add(entries["options"][0], "options are for the type choice")
        bounds = {}
        for key in ("least", "most"):
            if key in entries:
                if kind not in ("number", "texts", "findings"):
                    mistakes.add(entries[key][0], f"{key} is for numbers and lists")
                value = mistakes.number(entries[key][1], key)
                bounds[key] = None if value is None else float(value)
        return AnalysisField(
            name, kind, description=self._text(entries, "description", 1000),
            titles=self._by_language(entries, "title"), options=options, option_titles=option_titles,
            least=bounds.get("least"), most=bounds.get("most"),
            required=mistakes.boolean(entries["required"][1], "required") if "required" in entries else False,
        )  # fmt: skip

    def _options(self, node: YamlNode) -> tuple[tuple[str, ...], dict[str, dict[str, str]]]:
        """The options, as a list or as a mapping to their titles."""
        if node.kind != "map":
            return self._mistakes.texts(node, "options"), {}
        titles = {name: self._by_language({"title": entry}, "title") for name, entry in node.entries.items()}
        return tuple(node.entries), titles
