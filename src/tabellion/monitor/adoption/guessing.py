"""Guesses what a table's columns mean for its queue; every guess has a reason."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from tabellion.engine import sql
from tabellion.engine.queue import STATES, Queue, StateName
from tabellion.engine.sql import Dialect, Scalar
from tabellion.engine.tables.declaration import empty_value
from tabellion.engine.tables.primary_key import key_column
from tabellion.engine.tables.table import Table
from tabellion.errors import ConfigurationError
from tabellion.monitor.adoption.status_column import WORDS, StatusColumn, plain

#: Words that are in no list, by their form.
PATTERNS: dict[StateName, str] = {
    "ready": r"(^|_)(to_|pending|wait)",
    "running": r"^in_|ing$",
    "done": r"ed$",
    "failed": r"fail|err|dead|abort",
}
#: Words that look like a state but are not one.
NEITHER = re.compile(r"cancel|archiv|delet|paus|skip|block|reject|expir|approv|refus|hold|draft|retr")
USUAL: dict[StateName, str] = {"ready": "pending", "running": "processing", "done": "completed", "failed": "failed"}
MIRROR_NAMES: dict[str, tuple[str, ...]] = {
    "worker": ("worker_id", "worker", "locked_by", "claimed_by", "owner"),
    "started_at": ("processing_started_at", "started_at", "locked_at", "claimed_at"),
    "finished_at": ("finished_at", "completed_at", "processed_at"),
    "error": ("error_message", "error", "last_error"),
    "attempts": ("attempts", "attempt_count", "retry_count", "tries"),
}
MIRROR_FAMILIES: dict[str, tuple[str, ...]] = {
    "worker": ("text",),
    "started_at": ("time",),
    "finished_at": ("time",),
    "error": ("text",),
    "attempts": ("integer",),
}
CREATED_AT = ("created_at", "inserted_at", "enqueued_at", "created_on", "date_created", "created")
DELETED_AT = ("deleted_at", "archived_at", "discarded_at", "removed_at")
IS_DELETED = ("is_deleted", "deleted", "is_archived", "archived", "is_removed", "discarded")
FLAG_NAMES: dict[StateName, tuple[str, ...]] = {
    "running": ("processing", "is_processing", "running", "is_running", "in_progress", "locked", "is_locked"),
    "done": (
        "processed",
        "is_processed",
        "done",
        "is_done",
        "completed",
        "is_completed",
        "finished",
        "handled",
        "sent",
    ),
    "failed": ("failed", "is_failed", "has_failed", "errored", "has_error"),
}
USUAL_FLAGS: dict[StateName, str] = {state: names[0] for state, names in FLAG_NAMES.items()}


@dataclass(frozen=True, slots=True)
class Guess:
    """One argument of a queue and the reason; without a reason it is the caller's choice."""

    argument: str
    value: Any
    why: str = ""


def guess_states(
    status: StatusColumn, chosen: Mapping[str, str | None], refused: Mapping[str, Collection[Scalar]] | None = None
) -> dict[StateName, Guess]:
    """The states, as far as the column's values and rules show them.

    `refused` are values that the table rejected for a state when they were tried.
    """
    found: dict[StateName, Guess] = {
        state: Guess(state, parse_value(str(text), status))
        for state in STATES
        if (text := chosen.get(state)) is not None
    }
    not_taken = {state: set((refused or {}).get(state, ())) for state in STATES}
    for step in (_by_word, _by_pattern, _by_default, _by_null, _by_elimination, _by_usual_word):
        for state in STATES:
            if state in found:
                continue
            used = [guess.value for guess in found.values()]
            free = [value for value in status.candidates() if value not in used and value not in not_taken[state]]
            guess = step(state, status, free, found, not_taken[state])
            if guess is not None:
                found[state] = guess
    return {state: found[state] for state in STATES if state in found}


EarlierGuesses = Mapping[StateName, Guess]
Values = Collection[Scalar]


def _by_word(state: StateName, status: StatusColumn, free: list[Scalar], _: EarlierGuesses, __: Values) -> Guess | None:
    matching = sorted(
        (value for value in free if status.word(value) in WORDS[state]),
        key=lambda value: (value != status.default, WORDS[state].index(status.word(value))),
    )
    if not matching:
        return None
    value, *others = matching
    reasons = ["the column's default"] if value == status.default else [_explain_guess(status, value)]
    if others:
        reasons.append(f"{' and '.join(map(repr, others))} could also mean it")
    return Guess(state, value, "; ".join(reasons))


def _by_pattern(
    state: StateName, status: StatusColumn, free: list[Scalar], _: EarlierGuesses, __: Values
) -> Guess | None:
    known = {word for words in WORDS.values() for word in words}
    matching = [
        value
        for value in free
        if (word := status.word(value)) not in known
        and re.search(PATTERNS[state], word)
        and not NEITHER.search(word)
        and not (state == "done" and re.search(PATTERNS["failed"], word))
    ]
    return Guess(state, matching[0], _explain_guess(status, matching[0])) if len(matching) == 1 else None


def _by_default(
    state: StateName, status: StatusColumn, free: list[Scalar], _: EarlierGuesses, __: Values
) -> Guess | None:
    value = status.default
    known = status.word(value) in {word for other in STATES if other != "ready" for word in WORDS[other]}
    fits = state == "ready" and value is not None and value in free and not known
    return Guess(state, value, "the column's default") if fits else None


def _by_null(state: StateName, status: StatusColumn, _: list[Scalar], __: EarlierGuesses, ___: Values) -> Guess | None:
    """NULL means ready if new rows have no default and no value means ready."""
    if state != "ready" or not status.nulls or status.default is not None:
        return None
    return Guess(state, {status.column.name: None}, f"NULL in {count_rows(status.nulls)}, and no value means ready")


def _by_elimination(
    state: StateName, status: StatusColumn, free: list[Scalar], found: EarlierGuesses, _: Values
) -> Guess | None:
    remaining = [value for value in free if not NEITHER.search(status.word(value))]
    is_only_one = status.allowed is not None and len(found) == len(STATES) - 1 and len(remaining) == 1
    return Guess(state, remaining[0], "the only remaining value that the column allows") if is_only_one else None


def _by_usual_word(
    state: StateName, status: StatusColumn, _: list[Scalar], found: EarlierGuesses, not_taken: Values
) -> Guess | None:
    """The usual word, in the case of the other values, if the column accepts any text."""
    if status.allowed is not None or status.column.family != "text" or (status.seen and not found):
        return None
    texts = [value for value in status.candidates() if isinstance(value, str)]
    used = [guess.value for guess in found.values()]
    longest = status.column.length
    for word in (USUAL[state], *WORDS[state]):
        value = _match_case(word, texts)
        if value not in used and value not in not_taken and (longest is None or len(value) <= longest):
            empty = not status.seen and not status.nulls and status.default is None
            return Guess(state, value, f"the usual word; {'the table is empty' if empty else 'no row has it yet'}")
    return None


def _match_case(word: str, others: list[str]) -> str:
    letters = [text for text in others if re.search(r"[A-Za-z]", text)]
    if letters and all(text.isupper() for text in letters):
        return word.upper()
    return word.capitalize() if letters and all(text[0].isupper() for text in letters) else word


def _explain_guess(status: StatusColumn, value: Scalar) -> str:
    if value in status.labels:
        return f"it is called {status.labels[value]!r}"
    rows = status.seen.get(value, 0)
    return f"the word means it; {count_rows(rows)} {'has' if rows == 1 else 'have'} it"


def count_rows(n: int) -> str:
    """A count of rows in words."""
    return "no rows" if n == 0 else "1 row" if n == 1 else f"{n:,} rows"


def ask_for(table: str, status: StatusColumn, missing: Collection[StateName]) -> str:
    """The error that asks for the states that could not be guessed."""
    name = status.column.name
    options = _join_words([f"--{state} VALUE" for state in missing])
    present = ", ".join(f"{_format_value(status, value)}: {n}" for value, n in status.seen.items())
    allowed = (
        ""
        if status.allowed is None
        else f"; it allows only {', '.join(_format_value(status, value) for value in status.allowed)}"
    )
    return (
        f"which values of {table}.{name} mean {_join_words(list(missing))}? Use {options}. "
        f"The column contains {present or 'nothing yet'}{allowed}"
    )


def _join_words(words: list[Any]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else str(words[0])


def _format_value(status: StatusColumn, value: Scalar) -> str:
    return f"{value!r} ({status.labels[value]})" if value in status.labels else repr(value)


def parse_value(text: str, status: StatusColumn) -> Scalar:
    """The text of an option as a value of the column."""
    column = status.column
    if column.family == "integer":
        try:
            return int(text)
        except ValueError:
            raise ConfigurationError(f"{column.name} is {column.type}: {text!r} is not a whole number") from None
    if column.family == "boolean":
        return text.lower() in ("true", "1", "yes")
    return text


def find_flags(table: Table) -> dict[StateName, str]:
    """The booleans that say that a row is running, done or failed."""
    spelled = _by_plain_name(table)
    return {
        state: spelled[name]
        for state, names in FLAG_NAMES.items()
        for name in names[::-1]
        if name in spelled and table.columns[spelled[name]].family == "boolean"
    }


def flag_states(flags: Mapping[StateName, str]) -> dict[StateName, Guess]:
    """The four states of a table that has three booleans instead of a status."""
    running, done, failed = flags["running"], flags["done"], flags["failed"]
    values = {
        "ready": {running: False, done: False, failed: False},
        "running": {running: True},
        "done": {running: False, done: True},
        "failed": {running: False, failed: True},
    }
    return {state: Guess(state, values[state], "the names of these booleans") for state in STATES}


def guess_mirrors(table: Table, dialect: Dialect, states: Collection[str]) -> list[Guess]:
    """The mirrors: columns with a known name and type that can be emptied and that nothing else uses."""
    spelled = _by_plain_name(table)
    guesses = []
    for mirror, names in MIRROR_NAMES.items():
        for name in names:
            column = table.columns.get(spelled.get(name, ""))
            if column is None or column.name in table.references or column.name in states or column.generated:
                continue
            families = (*MIRROR_FAMILIES[mirror], *(["text"] if dialect == "sqlite" and mirror.endswith("_at") else []))
            if column.family in families and (mirror == "attempts" or empty_value(column, mirror, dialect) is not None):
                guesses.append(Guess(mirror, column.name, "its name and type"))
                break
    return guesses


def guess_key(table: Table) -> Guess | None:
    """The column that identifies a row, if there is no single-column primary key."""
    if key_column(Queue(table.name, ready=0, running=1, done=2, failed=3), table) is not None:
        return None
    unique = sorted(name for name in table.unique_columns() if not table.columns[name].nullable)
    return Guess("key", unique[0], "the only unique column") if len(unique) == 1 else None


def guess_condition(table: Table) -> Guess | None:
    """The condition that excludes rows marked as deleted."""
    spelled = _by_plain_name(table)
    for name in (*DELETED_AT, *IS_DELETED):
        column = table.columns.get(spelled.get(name, ""))
        if column is None:
            continue
        quoted = column.name if re.fullmatch(r"[a-z_][a-z0-9_]*", column.name) else sql.column(column.name)
        if name in DELETED_AT and column.nullable and column.family in ("time", "text", "integer", "number"):
            condition = f"{quoted} IS NULL"
        elif name in IS_DELETED and column.family == "boolean":
            condition = f"{quoted} IS NOT TRUE"
        elif name in IS_DELETED and column.family == "integer":
            condition = f"coalesce({quoted}, 0) = 0" if column.nullable else f"{quoted} = 0"
        else:
            continue
        return Guess("where", condition, f"{column.name} marks rows as deleted; they are ignored")
    return None


def guess_order(table: Table) -> Guess | None:
    """The column with the creation time; None for `created_at`, which is the default."""
    spelled = _by_plain_name(table)
    for name in CREATED_AT:
        column = table.columns.get(spelled.get(name, ""))
        if column is not None and column.family == "time":
            quoted = column.name if re.fullmatch(r"\w+", column.name) else sql.column(column.name)
            return None if column.name == CREATED_AT[0] else Guess("order", quoted, "its name and type: oldest first")
    return None


def _by_plain_name(table: Table) -> dict[str, str]:
    return {plain(name): name for name in reversed(list(table.columns))}
