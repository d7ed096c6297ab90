"""Finds the status column of a table, its values, and the values it allows."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from tabellion.engine import sql
from tabellion.engine.sql import Scalar
from tabellion.engine.store import Store
from tabellion.engine.tables.table import Column, Table
from tabellion.errors import ConfigurationError

VALUES_SEEN = 50
STATUS_NAMES = ("status", "state", "status_id", "statut", "etat", "job_status", "processing_status", "stage")
WORDS: dict[str, tuple[str, ...]] = {
    "ready": ("ready", "pending", "queued", "new", "todo", "to_do", "waiting", "not_started", "unprocessed",
              "scheduled", "en_attente", "created", "open"),
    "running": ("running", "processing", "in_progress", "working", "doing", "started", "busy", "en_traitement",
                "en_cours"),
    "done": ("done", "completed", "complete", "finished", "success", "succeeded", "successful", "processed", "sent",
             "termine", "ok"),
    "failed": ("failed", "error", "errored", "failure", "erreur", "echec", "broken", "dead"),
}  # fmt: skip
_LITERAL = r"'(?:[^']|'')*'|-?\d+(?:\.\d+)?"
_CAST = r"::[\w\". ]+(?:\(\d+\))?(?:\[\])?"


@dataclass(frozen=True, slots=True)
class StatusColumn:
    """A status column, with what is known about its values."""

    column: Column
    why: str  #: why it is this one; empty if the caller chose it
    seen: dict[Any, int]  #: the current values, with their counts
    labels: dict[Any, str] = field(default_factory=dict)  #: the names of the values, from the table they refer to
    allowed: tuple[Scalar, ...] | None = None  #: the only values it accepts; None: unknown, or any
    default: Scalar = None
    nulls: int = 0  #: rows with NULL

    def candidates(self) -> list[Scalar]:
        """Every value that may be a state, the most frequent first."""
        known = [*self.seen, *self.labels, *([] if self.default is None else [self.default])]
        if self.allowed is not None:
            known = [*(value for value in known if value in self.allowed), *self.allowed]
        return list(dict.fromkeys(known))

    def word(self, value: Scalar) -> str:
        """The value's name in plain spelling."""
        return plain(str(self.labels.get(value, value)))


def plain(text: str) -> str:
    """Lower case with underscores, no accents: `inProgress`, `In Progress` and `IN-PROGRESS` are one word."""
    bare = "".join(char for char in unicodedata.normalize("NFKD", text) if not unicodedata.combining(char))
    parted = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", bare)
    return re.sub(r"\W+|_+", "_", parted).strip("_").lower()


def find_states(words: Iterable[str]) -> set[str]:
    """The states that these words mean."""
    known_words = set(words)
    return {state for state, names in WORDS.items() if known_words & set(names)}


async def find_status_column(store: Store, table: Table, chosen: str | None) -> StatusColumn | None:
    """The status column with its values; None if no column could be it."""
    column, why = _choose(table, await _find_allowed_values(store, table), chosen)
    if column is None:
        return None
    allowed = (await _find_allowed_values(store, table)).get(column.name)
    seen = await _values(store, table, column)
    nulls = seen.pop(None, 0)
    labels = await _labels(store, table, column.name)
    if labels and allowed is None:
        allowed = tuple(labels)
    return StatusColumn(column, why, seen, labels, allowed, default_value(column), nulls)


def _choose(table: Table, allowed: dict[str, tuple[Scalar, ...]], chosen: str | None) -> tuple[Column | None, str]:
    if chosen is not None:
        if chosen not in table.columns:
            raise ConfigurationError(
                f"table {table.name!r} has no column {chosen!r}; it has {', '.join(table.columns)}"
            )
        if table.columns[chosen].generated:
            raise refuse_computed(table, chosen)
        return table.columns[chosen], ""
    # A column that the database computes cannot be set to a state.
    allowed = {name: words for name, words in allowed.items() if not table.columns[name].generated}
    writable = [name for name, column in table.columns.items() if not column.generated]
    spelled = {plain(name): name for name in reversed(writable)}
    for name in STATUS_NAMES:
        if name in spelled:
            return table.columns[spelled[name]], "its name"
    by_values = [name for name, words in allowed.items() if len(find_states(plain(str(word)) for word in words)) > 1]
    by_ending = [name for word, name in spelled.items() if word.endswith(("_status", "_state"))]
    for found, why in ((by_values, "the values that it allows"), (by_ending, "its name")):
        if len(found) == 1:
            return table.columns[found[0]], why
    if by_values or by_ending:
        names = ", ".join(sorted({*by_values, *by_ending}))
        raise ConfigurationError(f"which column of {table.name!r} is the status? Use --status with one of: {names}")
    return None, ""


def find_computed_status(table: Table) -> str:
    """A computed column with the name of a status; empty if there is none."""
    generated = {plain(column.name): column.name for column in table.columns.values() if column.generated}
    return next((generated[name] for name in STATUS_NAMES if name in generated), "")


def refuse_computed(table: Table, name: str) -> ConfigurationError:
    """The error for a status column that cannot be written."""
    written = ", ".join(column.name for column in table.columns.values() if not column.generated)
    return ConfigurationError(
        f"{name} of {table.name!r} is computed by the database and cannot be written: use --status with the column "
        f"that it is computed from, one of {written}; and --ready, --running, --done and --failed with its values"
    )


async def _values(store: Store, table: Table, column: Column) -> dict[Any, int]:
    name = sql.column(column.name)
    rows = await store.database.fetch(
        f"""SELECT {name} AS value, count(*) AS n FROM {sql.name(table.name)}
GROUP BY {name} ORDER BY count(*) DESC LIMIT {VALUES_SEEN}"""
    )
    # PostgreSQL pads char(n) with spaces, which it ignores in comparisons.
    filled = store.dialect == "postgresql" and column.plain_type.startswith("character(")
    return {row["value"].rstrip() if filled and row["value"] else row["value"]: int(row["n"]) for row in rows}


async def _labels(store: Store, table: Table, column: str) -> dict[Any, str]:
    """The names of the values, if the column refers to a table of names."""
    reference = table.references.get(column)
    target = None if reference is None else await store.table(_bare_name(reference[0]))
    texts = [] if target is None else [named.name for named in target.columns.values() if named.family == "text"]
    if reference is None or target is None or not texts:
        return {}
    rows = await store.database.fetch(
        f"""SELECT {sql.column(reference[1])} AS value, {sql.column(texts[0])} AS label
FROM {sql.name(target.name)} LIMIT {VALUES_SEEN}"""
    )
    return {row["value"]: str(row["label"]) for row in rows}


def _bare_name(spelled: str) -> str:
    return ".".join(part.strip('"').replace('""', '"') for part in spelled.split("."))


async def _find_allowed_values(store: Store, table: Table) -> dict[str, tuple[Scalar, ...]]:
    """The allowed values of each column that its type, domain or CHECKs restrict to a list."""
    found: dict[str, tuple[Scalar, ...]] = {}
    for column in table.columns.values():
        if column.labels:
            found[column.name] = column.labels
            continue
        rules = [check.expression for check in table.checks if check.columns == {column.name}]
        lists = [parse_listed_values(rule, column.name) for rule in rules]
        if column.base:
            lists += [parse_listed_values(rule, "VALUE") for rule in await _domain_rules(store, column.type)]
        known = [values for values in lists if values is not None]
        if known:
            found[column.name] = tuple(value for value in known[0] if all(value in other for other in known))
    return found


async def _domain_rules(store: Store, domain: str) -> list[str]:
    rows = await store.database.fetch(
        """SELECT pg_get_expr(c.conbin, 0) AS rule FROM pg_constraint AS c
WHERE c.contype = 'c' AND c.contypid = to_regtype($1)""",
        domain,
    )
    return [row["rule"] for row in rows]


def parse_listed_values(expression: str, column: str) -> tuple[Scalar, ...] | None:
    """The values that a rule lists for a column (`IN`, `= ANY`, `=` with `OR`); None if it is another kind of rule."""
    values = [_value(found) for found in re.findall(_LITERAL, expression)]
    rest = re.sub(_LITERAL, " ", expression)
    rest = re.sub(_CAST, " ", rest)
    rest = re.sub(rf'(?i)["`\[]?\b{re.escape(column)}\b["`\]]?\s+IS\s+NULL', " ", rest)
    rest = re.sub(rf'(?i)["`\[]?\b{re.escape(column)}\b["`\]]?', " ", rest)
    rest = re.sub(r"(?i)\b(IN|ANY|ARRAY|OR)\b", " ", rest)
    if not values or re.search(r"(?i)[^\s()\[\],=]", rest):
        return None
    return tuple(dict.fromkeys(values))


def _value(text: str) -> Scalar:
    if text.startswith("'"):
        return text[1:-1].replace("''", "'")
    return float(text) if "." in text else int(text)


def default_value(column: Column) -> Scalar:
    """The column's DEFAULT, if it is a constant."""
    text = re.sub(_CAST, "", column.default or "").strip().strip("()").strip()
    if re.fullmatch(_LITERAL, text):
        value = _value(text)
        return str(value) if column.family in ("text", "other") and not isinstance(value, str) else value
    if re.fullmatch(r'"[^"]*"', text):
        return text.strip('"')  # SQLite treats this as a text
    if column.family == "boolean" and text.lower() in ("true", "false"):
        return text.lower() == "true"
    return None
