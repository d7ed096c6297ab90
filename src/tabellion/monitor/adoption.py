"""Guesses from a table what its queue is: status column, states, mirrors; and writes the declaration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tabellion.engine import declaration, sql
from tabellion.engine.errors import ConfigurationError, DeclarationError, Problem
from tabellion.engine.queue import STATES, Queue
from tabellion.engine.sql import Scalar
from tabellion.engine.store import Store
from tabellion.engine.table import Table

VALUES_SEEN = 50
STATUS_NAMES = ("status", "state", "status_id", "statut", "etat", "job_status", "processing_status", "stage")
WORDS: dict[str, tuple[str, ...]] = {
    "ready": ("ready", "pending", "queued", "new", "todo", "waiting", "not-started", "en_attente", "created", "open"),
    "running": ("running", "processing", "in_progress", "in-progress", "working", "doing", "started", "en_traitement"),
    "done": ("done", "completed", "complete", "finished", "success", "succeeded", "processed", "termine", "ok"),
    "failed": ("failed", "error", "errored", "failure", "erreur", "broken", "dead"),
}
MIRROR_NAMES: dict[str, tuple[str, ...]] = {
    "worker": ("worker_id", "worker", "locked_by", "claimed_by", "owner"),
    "started_at": ("processing_started_at", "started_at", "locked_at", "claimed_at"),
    "finished_at": ("finished_at", "completed_at", "processed_at"),
    "error": ("error_message", "error", "last_error"),
    "attempts": ("attempts", "attempt_count", "retry_count", "tries"),
}


@dataclass(frozen=True, slots=True)
class Adoption:
    """A declaration for a table, and the SQL that goes with it."""

    table: str
    status: str
    states: dict[str, Scalar]
    seen: dict[str, int]  #: the values in the status column now, with their counts
    declaration: str
    index: str
    indexed: bool
    trigger: str


async def adopt(
    store: Store, table_name: str, *, status: str | None, states: Mapping[str, str | None], name: str | None
) -> Adoption:
    """Looks the table over; what cannot be guessed is asked for, all at once."""
    await store.database.open()
    table = await store.table(table_name)
    if table is None:
        raise ConfigurationError(f"there is no table {table_name!r} in this database")
    column = _status_column(table, status)
    counts = await _values(store, table, column)
    labels = await _labels(store, table, column, list(counts))
    chosen: dict[str, Scalar] = {}
    problems = []
    for state in STATES:
        given = states.get(state)
        value = _typed(given, table, column) if given is not None else _guess(state, counts, labels, table, column)
        if value is None:
            problems.append(Problem(f"no value of {column} is obviously {state!r}", f"say --{state} VALUE"))
        else:
            chosen[state] = value
    if problems:
        seen = ", ".join(
            f"{value!r}{f' ({labels[value]})' if value in labels else ''}: {n}" for value, n in counts.items()
        )
        problems.append(Problem(f"the column holds {seen or 'nothing yet'}"))
        raise DeclarationError(f"table {table_name!r}", problems)
    mirrors = {
        mirror: named for mirror, names in MIRROR_NAMES.items() for named in names[::-1] if named in table.columns
    }
    queue = Queue(table_name, name=name, status=column, **chosen, **mirrors)  # type: ignore[arg-type]
    bound = declaration.bind(queue, table, store.dialect)
    return Adoption(
        table_name,
        column,
        chosen,
        {str(value): n for value, n in counts.items()},
        _declaration(table_name, name, column, chosen, mirrors),
        bound.index_ddl(),
        bound.has_index(),
        _trigger(table_name) if store.dialect == "postgresql" else "",
    )


def _status_column(table: Table, given: str | None) -> str:
    if given is not None:
        if given not in table.columns:
            raise ConfigurationError(f"table {table.name!r} has no column {given!r}; it has {', '.join(table.columns)}")
        return given
    for name in STATUS_NAMES:
        if name in table.columns:
            return name
    enums = [column.name for column in table.columns.values() if column.labels]
    if len(enums) == 1:
        return enums[0]
    raise ConfigurationError(
        f"which column of {table.name!r} is the status? Say --status; it has {', '.join(table.columns)}"
    )


async def _values(store: Store, table: Table, column: str) -> dict[Any, int]:
    rows = await store.database.fetch(
        f"""SELECT {sql.column(column)} AS value, count(*) AS n FROM {sql.name(table.name)}
GROUP BY {sql.column(column)} ORDER BY count(*) DESC LIMIT {VALUES_SEEN}"""
    )
    counts = {row["value"]: int(row["n"]) for row in rows if row["value"] is not None}
    return counts | {label: 0 for label in table.columns[column].labels if label not in counts}


async def _labels(store: Store, table: Table, column: str, values: list[Any]) -> dict[Any, str]:
    """What the values are called, where the column points to a table of names."""
    reference = table.references.get(column)
    if reference is None:
        return {}
    target = await store.table(reference[0])
    if target is None:
        return {}
    texts = [named.name for named in target.columns.values() if named.family == "text"]
    if not texts:
        return {}
    rows = await store.database.fetch(
        f"""SELECT {sql.column(reference[1])} AS value, {sql.column(texts[0])} AS label
FROM {sql.name(target.name)} LIMIT {VALUES_SEEN}"""
    )
    return {row["value"]: str(row["label"]) for row in rows}


def _guess(
    state: str, counts: Mapping[Any, int], labels: Mapping[Any, str], table: Table, column: str
) -> Scalar | None:
    spelled = {str(labels.get(value, value)).lower().replace(" ", "_"): value for value in [*counts, *labels]}
    for word in WORDS[state]:
        if word in spelled:
            value: Scalar = spelled[word]
            return value
    # A text column without such a value yet: the plain word does, when the column takes any text.
    plain = {"ready": "pending", "running": "processing", "done": "completed", "failed": "failed"}[state]
    known = {value for words in WORDS.values() for value in words}
    free = table.columns[column].family == "text" and not table.columns[column].labels
    return plain if free and set(map(str.lower, map(str, counts))) & known and plain not in counts else None


def _typed(text: str, table: Table, column: str) -> Scalar:
    family = table.columns[column].family
    if family == "integer":
        try:
            return int(text)
        except ValueError:
            raise ConfigurationError(
                f"{column} is {table.columns[column].type}: {text!r} is not a whole number"
            ) from None
    if family == "boolean":
        return text.lower() in ("true", "1", "yes")
    return text


def _declaration(
    table: str, name: str | None, status: str, states: Mapping[str, Scalar], mirrors: Mapping[str, str]
) -> str:
    variable = "".join(char if char.isalnum() else "_" for char in (name or table).rpartition(".")[2]).lower()
    first = (
        [repr(table)] + ([f"name={name!r}"] if name else []) + ([f"status={status!r}"] if status != "status" else [])
    )
    lines = [
        '"""The queues of this project: `tabellion --queues THIS_FILE worker` works them."""',
        "",
        "from tabellion import Job, Queue  # noqa: F401",
        "",
        f"{variable} = Queue(",
        f"    {', '.join(first)},",
        f"    {', '.join(f'{state}={value!r}' for state, value in states.items())},",
        *([f"    {', '.join(f'{mirror}={column!r}' for mirror, column in mirrors.items())},"] if mirrors else []),
        ")",
        "",
        "",
        "# Write the handler, then take the marks away: job['column'] is the row's value,",
        "# and the columns you return are written together with `done`.",
        f"# @{variable}.handler",
        "# async def work(job: Job) -> dict:",
        "#     return {}",
        "",
    ]
    return "\n".join(lines)


def _trigger(table: str) -> str:
    bare = table.rpartition(".")[2]
    return f"""CREATE OR REPLACE FUNCTION tabellion_wake() RETURNS trigger LANGUAGE plpgsql AS
  $$ BEGIN PERFORM pg_notify('tabellion', ''); RETURN NULL; END $$;
CREATE TRIGGER {sql.column(f"{bare}_tabellion_wake")} AFTER INSERT ON {sql.name(table)}
  FOR EACH STATEMENT EXECUTE FUNCTION tabellion_wake();"""
