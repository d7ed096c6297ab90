"""Which modules change which tables, read from the SQL in their sources."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import tabellion

SOURCE = Path(tabellion.__file__).parent
CHANGE = re.compile(r"(?:\bINSERT(?: OR [A-Z]+)? INTO|(?<!DO )(?<!FOR )\bUPDATE|\bDELETE FROM)\s+\"?([a-z_]\w*)")
#: Functions that change the table named by their second argument.
CHANGING = ("prune_window",)


def module_names() -> dict[str, Path]:
    """Every module of tabellion by its dotted name."""
    return {
        ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts).removesuffix(".__init__"): path
        for path in sorted(SOURCE.rglob("*.py"))
    }


@cache
def parse(path: Path) -> ast.Module:
    """The syntax tree of a module."""
    return ast.parse(path.read_text())


@cache
def constants() -> Mapping[str, str]:
    """The texts that modules assign to names, by module and name."""
    found: dict[str, str] = {}
    for module, path in module_names().items():
        for node in parse(path).body:
            if not isinstance(node, ast.Assign) or len(node.targets) != 1:
                continue
            target, value = node.targets[0], node.value
            pairs = zip(target.elts, value.elts, strict=False) if _are_tuples(target, value) else [(target, value)]  # type: ignore[attr-defined]
            for name, given in pairs:
                if isinstance(name, ast.Name) and isinstance(given, ast.Constant) and isinstance(given.value, str):
                    found[f"{module}.{name.id}"] = given.value
    return found


def _are_tuples(*nodes: ast.AST) -> bool:
    return all(isinstance(node, ast.Tuple) for node in nodes)


def changed_tables(module: str, path: Path) -> set[str]:
    """The tables that a module changes: those in its texts and f-strings, and those that it passes to CHANGING."""
    aliases = {
        alias.asname or alias.name: f"{node.module}.{alias.name}"
        for node in ast.walk(parse(path))
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }

    def resolve(node: ast.expr) -> str:
        """The text of an expression; what is only known at run time is a space."""
        if isinstance(node, ast.Constant):
            return str(node.value)
        if isinstance(node, ast.JoinedStr):
            return "".join(map(resolve, node.values))
        if isinstance(node, ast.FormattedValue):
            return resolve(node.value)
        name = ast.unparse(node)
        first, _, rest = name.partition(".")
        full = f"{aliases[first]}{'.' if rest else ''}{rest}" if first in aliases else f"{module}.{name}"
        return constants().get(full, " ")

    def texts() -> Iterator[str]:
        for node in ast.walk(parse(path)):
            if isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str)):
                yield resolve(node)
            elif isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in CHANGING:
                yield f"DELETE FROM {resolve(node.args[1])}"

    return {table for text in texts() for table in CHANGE.findall(text)}
