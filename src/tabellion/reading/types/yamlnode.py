"""Parses YAML into nodes with line and column, without guessing the types of unquoted words.

Built from the parser's events, so that anchors, tags and bombs are rejected before anything is built from them.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

from tabellion.errors import ConfigurationError

ENDINGS = (".yaml", ".yml")
LARGEST = 256_000  # bytes of a file
DEEPEST = 12
MOST_NODES = 20_000
#: Unquoted, other YAML parsers do not read these as texts.
BOOLEANS = {"true", "false", "yes", "no", "on", "off"}
NULLS = {"", "~", "null"}
NUMBER = re.compile(r"-?\d{1,15}(\.\d{1,10})?")


@dataclass(frozen=True, slots=True)
class Mistake:
    """One thing that is wrong in a file, and what to write instead."""

    line: int
    column: int
    what: str
    fix: str = ""

    def __str__(self) -> str:
        return f"{self.line}:{self.column}: {self.what}" + (f"\n   fix: {self.fix}" if self.fix else "")


class TypeFileError(ConfigurationError):
    """A document type file is invalid; lists every mistake with its position."""

    def __init__(self, file: str, mistakes: Iterable[Mistake]) -> None:
        self.file = file
        self.mistakes = tuple(sorted(mistakes, key=lambda mistake: (mistake.line, mistake.column)))
        count = "1 error" if len(self.mistakes) == 1 else f"{len(self.mistakes)} errors"
        super().__init__("\n".join([f"{file} has {count}:", *(f"{file}:{mistake}" for mistake in self.mistakes)]))


@dataclass(slots=True)
class YamlNode:
    """A scalar, a list or a mapping, with its position."""

    kind: str  #: scalar, list or map
    line: int
    column: int
    text: str = ""
    quoted: bool = False
    single: bool = True  #: the scalar is on one line, so that a mistake can point at its characters
    items: list[YamlNode] = field(default_factory=list)
    entries: dict[str, tuple[YamlNode, YamlNode]] = field(default_factory=dict)  #: key -> its own node and its value

    @property
    def is_null(self) -> bool:
        """Whether the value is empty or null."""
        return self.kind == "scalar" and not self.quoted and self.text.lower() in NULLS

    def plain(self) -> Any:
        """The node as lists, dicts and texts, for the digest."""
        if self.kind == "map":
            return {key: value.plain() for key, (_, value) in self.entries.items()}
        return [item.plain() for item in self.items] if self.kind == "list" else self.text


class Mistakes:
    """Reads values and collects the mistakes in them."""

    def __init__(self) -> None:
        self.found: list[Mistake] = []

    def add(self, at: YamlNode, what: str, fix: str = "", offset: int | None = None) -> None:
        """Records a mistake, at a character of a one-line text when an offset is given."""
        column = at.column
        if offset is not None and at.single:
            column += offset + (1 if at.quoted else 0)
        self.found.append(Mistake(at.line, column, what, fix))

    def map(self, node: YamlNode, name: str, keys: Iterable[str] | None = None) -> dict[str, tuple[YamlNode, YamlNode]]:
        """The entries of a mapping; unknown keys are mistakes."""
        if node.kind != "map":
            self.add(node, f"{name} must be a mapping of keys to values", f"{name}:\n     key: value")
            return {}
        if keys is None:
            return node.entries
        known = list(keys)
        for key, (at, _) in node.entries.items():
            if key not in known:
                near = difflib.get_close_matches(key.lower(), known, n=1)
                hint = f"did you mean {near[0]!r}?" if near else f"known keys: {', '.join(known)}"
                self.add(at, f"unknown key {key!r} in {name}", hint)
        return {key: nodes for key, nodes in node.entries.items() if key in known}

    def text(self, node: YamlNode, name: str, *, longest: int = 2000) -> str | None:
        """A text; words that other parsers read as true, false or null must be quoted."""
        if node.kind != "scalar":
            self.add(node, f"{name} must be a text, not a {_kind_name(node)}")
            return None
        if not node.quoted and (node.text.lower() in BOOLEANS or node.is_null):
            if node.is_null:
                self.add(node, f"{name} is empty", f"write a text, or remove the key {name!r}")
            else:
                self.add(node, f"{node.text} without quotes is a boolean to most YAML parsers",
                         f'write "{node.text}"')  # fmt: skip
            return None
        if len(node.text) > longest:
            self.add(node, f"{name} has {len(node.text):,} characters; at most {longest:,}")
            return None
        if any(not sign.isprintable() and sign not in "\n\t" for sign in node.text):
            self.add(node, f"{name} contains a control character")
            return None
        return node.text

    def texts(self, node: YamlNode, name: str, *, longest: int = 200) -> tuple[str, ...]:
        """A list of texts; a single text counts as a list of one."""
        if node.kind == "map":
            self.add(node, f"{name} must be a list of texts", f"{name}: [first, second]")
            return ()
        nodes = node.items if node.kind == "list" else [node]
        found: dict[str, None] = {}
        for item in nodes:
            text = self.text(item, name, longest=longest)
            if text is None:
                continue
            if not text.strip():
                self.add(item, f"{name} contains an empty text")
            elif text.strip() in found:
                self.add(item, f"{text!r} is in {name} twice", "remove one")
            found[text.strip()] = None
        return tuple(found)

    def one_of(self, node: YamlNode, name: str, options: Iterable[str]) -> str | None:
        """One of the options."""
        known = list(options)
        text = node.text if node.kind == "scalar" else None
        if text in known:
            return text
        near = difflib.get_close_matches(str(text).lower(), known, n=1)
        found = repr(text) if text is not None else f"a {_kind_name(node)}"
        self.add(node, f"{name} is one of {', '.join(known)}; found {found}", f"write {near[0]}" if near else "")
        return None

    def boolean(self, node: YamlNode, name: str) -> bool:
        """A boolean, written as true or false."""
        if node.kind == "scalar" and not node.quoted and node.text in ("true", "false"):
            return node.text == "true"
        instead = {"yes": "true", "on": "true", "no": "false", "off": "false"}.get(node.text.lower(), "true or false")
        found = repr(node.text) if node.kind == "scalar" else f"a {_kind_name(node)}"
        self.add(node, f"{name} is true or false; found {found}", f"write {name}: {instead}")
        return False

    def number(
        self, node: YamlNode, name: str, least: float | None = None, most: float | None = None, *, whole: bool = False
    ) -> Decimal | None:
        """A number within bounds."""
        if node.kind != "scalar" or not NUMBER.fullmatch(node.text):
            found = repr(node.text) if node.kind == "scalar" else f"a {_kind_name(node)}"
            fix = "write 0.02 with a point" if "," in node.text else ""
            self.add(node, f"{name} must be a number; found {found}", fix)
            return None
        value = Decimal(node.text)
        bounds = " and ".join(
            f"{word} {bound}" for word, bound in (("at least", least), ("at most", most)) if bound is not None
        )
        if (least is not None and value < Decimal(str(least))) or (most is not None and value > Decimal(str(most))):
            self.add(node, f"{name} must be {bounds}; found {node.text}")
            return None
        if whole and value != int(value):
            self.add(node, f"{name} must be a whole number; found {node.text}")
            return None
        return value


def parse(source: bytes | str, file: str = "<text>") -> YamlNode:
    """The tree of a file; a YAML syntax error is one mistake with its position."""
    import yaml

    if len(source) > LARGEST:
        raise TypeFileError(file, [Mistake(1, 1, f"the file has more than {LARGEST:,} bytes")])
    try:
        text = source.decode("utf-8-sig") if isinstance(source, bytes) else source
    except UnicodeDecodeError as error:
        line = bytes(source[: error.start]).count(b"\n") + 1  # type: ignore[arg-type]
        raise TypeFileError(file, [Mistake(line, 1, "not UTF-8", "save the file as UTF-8")]) from None
    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        return _Tree(file).build(yaml.parse(text, Loader=loader))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        position = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        raise TypeFileError(file, [_syntax(text, *position, str(error.problem or error.context))]) from None
    except yaml.YAMLError as error:
        offset = getattr(error, "position", 0)
        line = text.count("\n", 0, offset) + 1 if isinstance(offset, int) else 1
        raise TypeFileError(file, [Mistake(line, 1, "a character that YAML does not allow")]) from None


def _syntax(text: str, line: int, column: int, problem: str) -> Mistake:
    lines = text.splitlines()
    source = lines[line - 1] if 0 < line <= len(lines) else ""
    if "\t" in source[: len(source) - len(source.lstrip())] or "'\\t'" in problem:
        return Mistake(line, source.find("\t") + 1 or column, "a tab; YAML indents with spaces", "use two spaces")
    if ": " in source.partition(": ")[2] and "mapping values" in problem:
        return Mistake(line, column, "a second `: ` in an unquoted text", "put the text in quotes")
    if source.lstrip()[:1] in ("%", "@", "`") or ": %" in source or ": @" in source or ": `" in source:
        return Mistake(line, column, f"not YAML: {problem}", "put the text in quotes")
    return Mistake(line, column, f"not YAML: {problem}")


class _Tree:
    """Builds nodes from the parser's events."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.mistakes: list[Mistake] = []
        self.nodes = 0

    def build(self, events: Iterable[Any]) -> YamlNode:
        root: YamlNode | None = None
        stack: list[YamlNode] = []
        keys: list[YamlNode | None] = []
        for event in events:
            name = type(event).__name__
            if name in ("SequenceEndEvent", "MappingEndEvent"):
                node = stack.pop()
                keys.pop()
            elif name in ("ScalarEvent", "SequenceStartEvent", "MappingStartEvent", "AliasEvent"):
                node = self.node(event, name)
                if name.endswith("StartEvent"):
                    if len(stack) >= DEEPEST:
                        self.refuse(node, f"nested more than {DEEPEST} levels deep")
                    stack.append(node)
                    keys.append(None)
                    continue
            else:
                if name == "DocumentStartEvent" and root is not None:
                    self.refuse(YamlNode("scalar", event.start_mark.line + 1, 1), "a second document after `---`")
                continue
            if not stack:
                root = node
            elif stack[-1].kind == "list":
                stack[-1].items.append(node)
            elif keys[-1] is None:
                keys[-1] = node
            else:
                self.entry(stack[-1], keys[-1], node)
                keys[-1] = None
        if self.mistakes:
            raise TypeFileError(self.file, self.mistakes)
        return root or YamlNode("map", 1, 1)

    def entry(self, parent: YamlNode, key: YamlNode, value: YamlNode) -> None:
        if key.kind != "scalar":
            self.mistakes.append(Mistake(key.line, key.column, "a key must be a plain text"))
        elif key.text in parent.entries:
            first = parent.entries[key.text][0]
            self.mistakes.append(
                Mistake(key.line, key.column, f"{key.text!r} is repeated; first on line {first.line}", "keep one")
            )
        elif key.text == "<<":
            self.mistakes.append(Mistake(key.line, key.column, "merge keys (<<) are not supported", "write it out"))
        else:
            parent.entries[key.text] = (key, value)

    def node(self, event: Any, name: str) -> YamlNode:
        mark = event.start_mark
        line, column = mark.line + 1, mark.column + 1
        self.nodes += 1
        if self.nodes > MOST_NODES:
            raise TypeFileError(self.file, [*self.mistakes, Mistake(line, column, f"more than {MOST_NODES:,} values")])
        if getattr(event, "anchor", None):
            construct = "an alias (*)" if name == "AliasEvent" else "an anchor (&)"
            self.mistakes.append(
                Mistake(line, column, f"{construct} is not supported", "write it out, or quote the text")
            )
        if getattr(event, "tag", None):
            self.mistakes.append(Mistake(line, column, f"the tag {event.tag!r} is not supported", "remove it"))
        if name != "ScalarEvent":
            return YamlNode("list" if name == "SequenceStartEvent" else "map", line, column)
        single = event.start_mark.line == event.end_mark.line
        return YamlNode("scalar", line, column, event.value, quoted=bool(event.style), single=single)

    def refuse(self, at: YamlNode, what: str) -> None:
        raise TypeFileError(self.file, [*self.mistakes, Mistake(at.line, at.column, what)])


def find_files(folders: Sequence[str | Path], shipped: Path) -> dict[str, Path]:
    """The type files by name: an earlier folder wins, the shipped ones come last."""
    found: dict[str, Path] = {}
    for folder in (*map(Path, folders), shipped):
        for path in sorted(folder.iterdir()) if folder.is_dir() else ():
            if path.suffix in ENDINGS:
                found.setdefault(path.stem, path)
    return found


def _kind_name(node: YamlNode) -> str:
    return {"map": "mapping", "list": "list"}.get(node.kind, "text")
