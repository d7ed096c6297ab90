"""Every regular expression of the package, found in its source, and the texts on which each is slowest."""

from __future__ import annotations

import ast
import importlib
import re
import re._constants as names  # type: ignore[import-not-found]
import re._parser as parser  # type: ignore[import-not-found]
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tabellion

SOURCE = Path(tabellion.__file__).parent
USES = {"match", "fullmatch", "search", "sub", "subn", "split", "findall", "finditer"}
ANYWHERE = {"search", "sub", "subn", "split", "findall", "finditer"}
MANY = 8  #: repeats that can go on for longer than this are attacked
REPEATS = {names.MAX_REPEAT, names.MIN_REPEAT, names.POSSESSIVE_REPEAT}


@dataclass(frozen=True)
class Pattern:
    """One pattern, where it is written, and whether it may start anywhere in a text."""

    file: str
    line: int
    written: str  #: the expression in the source
    flags: str
    module: str
    anywhere: bool

    @property
    def name(self) -> str:
        """Its name in the lists of the test."""
        return f"{self.file}: {self.written}"

    def compile(self) -> re.Pattern[Any] | None:
        """Compile it as its module does; None if it depends on run-time values."""
        scope = vars(importlib.import_module(self.module))
        try:
            return re.compile(eval(self.written, scope), eval(self.flags, scope))
        except NameError:
            return None


def find_patterns() -> list[Pattern]:
    """Return all patterns, in the order of their files."""
    trees = {path: ast.parse(path.read_text()) for path in sorted(SOURCE.rglob("*.py"))}
    public: dict[str, set[str]] = {}
    private: dict[Path, dict[str, set[str]]] = {path: {} for path in trees}  # other modules may have the same names
    for path, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and node.attr in USES:
                name = _last_name(node.value)
                (private[path] if name.startswith("_") else public).setdefault(name, set()).add(node.attr)
    found = []
    for path, tree in trees.items():
        methods = public | private[path]
        module = ".".join(("tabellion", *path.relative_to(SOURCE).with_suffix("").parts))
        found += [
            _pattern(path, module, tree, node, methods) for node in ast.walk(tree)
            if isinstance(node, ast.Call) and _of_re(node.func)
        ]  # fmt: skip
    return sorted(found, key=lambda one: (one.file, one.line))


def _of_re(node: ast.expr) -> bool:
    return (
        isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "re"
        and node.attr in USES | {"compile"}
    )


def _last_name(node: ast.expr) -> str:
    if isinstance(node, ast.Subscript):
        return _last_name(node.value)
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _pattern(path: Path, module: str, tree: ast.Module, call: ast.Call, methods: dict[str, set[str]]) -> Pattern:
    method = call.func.attr  # type: ignore[attr-defined]
    flags = [one for one in call.args[1 if method == "compile" else 2 :] if "re." in ast.unparse(one)]
    flags += [one.value for one in call.keywords if one.arg == "flags"]
    used = {method}
    if method == "compile":
        owner = next(
            (one for one in ast.walk(tree) if isinstance(one, ast.Assign | ast.AnnAssign) and call in ast.walk(one)),
            None,
        )
        targets = owner.targets if isinstance(owner, ast.Assign) else [owner.target] if owner else []
        used = set().union(*(methods.get(_last_name(one), set()) for one in targets)) or {"search"}
    written, flag = ast.unparse(call.args[0]), ast.unparse(flags[0]) if flags else "0"
    return Pattern(str(path.relative_to(SOURCE)), call.lineno, written, flag, module, bool(used & ANYWHERE))


def worst_texts(pattern: re.Pattern[Any], length: int) -> Iterator[Any]:
    """Return texts that make each repeat of a pattern run long and then fail, in every way this file knows."""
    seen = set()
    for before, pumps in _repeats(list(parser.parse(pattern.pattern, pattern.flags & ~re.DEBUG)), [""], {}):
        for pump in pumps:
            for start in before:
                for unit in (pump, start + pump):
                    if unit and (start, unit) not in seen:
                        seen.add((start, unit))
                        many = unit * (length // len(unit))
                        text = start + many + "\x00"
                        yield text.encode("latin-1", "replace") if isinstance(pattern.pattern, bytes) else text


def _repeats(items: list[Any], before: list[str], groups: dict[int, str]) -> Iterator[tuple[list[str], list[str]]]:
    """Yield each repeat with texts that lead to it and texts that it matches once."""
    for operation, value in items:
        if operation in REPEATS:
            _, highest, body = value
            if highest is names.MAXREPEAT or highest > MANY:
                yield before, _samples(list(body), groups)
            yield from _repeats(list(body), before, groups)
        elif operation is names.SUBPATTERN:
            yield from _repeats(list(value[3]), before, groups)
        elif operation is names.ATOMIC_GROUP:
            yield from _repeats(list(value), before, groups)
        elif operation is names.BRANCH:
            for branch in value[1]:
                yield from _repeats(list(branch), before, groups)
        elif operation in (names.ASSERT, names.ASSERT_NOT):
            yield from _repeats(list(value[1]), before, groups)
        after = _samples([(operation, value)], groups)[:2]
        before = [start + end for start in before for end in after][:3]


def _samples(items: list[Any], groups: dict[int, str]) -> list[str]:
    """Return some texts that the items match, at least one."""
    texts = [""]
    for operation, value in items:
        if operation is names.LITERAL:
            ends = [chr(value)]
        elif operation is names.NOT_LITERAL:
            ends = ["a" if value != ord("a") else "b"]
        elif operation is names.ANY:
            ends = ["a"]
        elif operation is names.IN:
            ends = _members(value)
        elif operation is names.BRANCH:
            ends = [text for branch in value[1] for text in _samples(list(branch), groups)[:2]]
        elif operation is names.SUBPATTERN:
            ends = _samples(list(value[3]), groups)
            groups[value[0]] = ends[0]
        elif operation is names.ATOMIC_GROUP:
            ends = _samples(list(value), groups)
        elif operation in REPEATS:
            ends = [text * max(value[0], 1) for text in _samples(list(value[2]), groups)] + [""] * (value[0] == 0)
        elif operation is names.GROUPREF:
            ends = [groups.get(value, "")]
        else:
            ends = [""]
        texts = [start + end for start in texts for end in ends][:6]
    return list(dict.fromkeys(texts))


_KINDS = {
    names.CATEGORY_DIGIT: "1", names.CATEGORY_NOT_DIGIT: "a", names.CATEGORY_SPACE: " ", names.CATEGORY_NOT_SPACE: "a",
    names.CATEGORY_WORD: "a", names.CATEGORY_NOT_WORD: "-",
}  # fmt: skip


def _members(value: list[Any]) -> list[str]:
    if value[0][0] is names.NEGATE:
        inside = re.compile("[" + "".join(_written(one) for one in value[1:]) + "]")
        return [one for one in "a1 .-\"'<\\\n" if not inside.match(one)][:3] or ["\u4e00"]
    collected = []
    for operation, one in value:
        if operation is names.LITERAL:
            collected.append(chr(one))
        elif operation is names.RANGE:
            collected.append(chr(one[0]))
        elif operation is names.CATEGORY:
            collected.append(_KINDS[one])
    return collected[:3]


def _written(item: Any) -> str:
    operation, value = item
    if operation is names.LITERAL:
        return re.escape(chr(value))
    if operation is names.RANGE:
        return f"{re.escape(chr(value[0]))}-{re.escape(chr(value[1]))}"
    marks = {"DIGIT": r"\d", "NOT_DIGIT": r"\D", "SPACE": r"\s", "NOT_SPACE": r"\S", "WORD": r"\w", "NOT_WORD": r"\W"}
    return marks[str(value).removeprefix("CATEGORY_")]


def run(pattern: re.Pattern[Any], anywhere: bool, length: int) -> None:
    """Try a pattern on its worst texts in the way it is used."""
    for text in worst_texts(pattern, length):
        if anywhere:
            for _ in pattern.finditer(text):
                pass
        else:
            pattern.match(text)
            pattern.fullmatch(text)
