"""Drafts the declaration of a table: guesses what its columns mean and tries the states on a row."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tabellion.engine import sql
from tabellion.engine.queue import STATES, Queue, StateName
from tabellion.engine.sql import Scalar
from tabellion.engine.store import Store
from tabellion.engine.tables import declaration
from tabellion.engine.tables.declaration import Bound
from tabellion.engine.tables.primary_key import not_a_table
from tabellion.engine.tables.table import Table
from tabellion.engine.tables.transitions import Refusal, try_transitions
from tabellion.errors import ConfigurationError, DeclarationError, NotMigrated, StoreError
from tabellion.monitor.adoption import guessing
from tabellion.monitor.adoption.declaration_text import declaration_text
from tabellion.monitor.adoption.status_column import (
    StatusColumn,
    find_computed_status,
    find_status_column,
    refuse_computed,
)
from tabellion.monitor.rights import bound_by_row_security

OTHER_GUESSES = 8  # how often a state that the table refused is guessed again
HOUR = 3600


@dataclass(frozen=True, slots=True)
class Adoption:
    """A declaration for a table, its reasons and problems, and the SQL that goes with it."""

    table: str
    key: str
    status: str | None  #: None if its states are booleans
    states: dict[str, Any]
    seen: dict[str, int]  #: the current values of the status column, with their counts
    allowed: list[Scalar] | None  #: the only values that the status column accepts, if known
    guesses: list[dict[str, Any]]  #: argument, value and reason of everything the caller did not specify
    notes: list[str]
    problems: list[dict[str, str]]  #: state changes that the table refused, and the fix
    leftovers: int  #: rows that are running now, with no claim in the register
    declaration: str
    index: str
    indexed: bool
    trigger: str


@dataclass(slots=True)
class _Draft:
    """The declaration as guessed so far."""

    table: Table
    status: StatusColumn | None
    states: dict[StateName, guessing.Guess]
    others: list[guessing.Guess]  #: arguments besides the states
    notes: list[str] = field(default_factory=list)

    def queue(self, name: str | None) -> Queue:
        arguments = {guess.argument: guess.value for guess in [*self.states.values(), *self.others]}
        return Queue(self.table.name, name=name, **arguments)


async def propose_declaration(
    store: Store,
    table_name: str,
    *,
    status: str | None,
    states: Mapping[str, str | None],
    name: str | None,
    key: str | None = None,
) -> Adoption:
    """Examines the table and changes nothing; raises one error that asks for everything it cannot guess."""
    await store.database.open()
    table = await _table(store, table_name)
    if table.kind in ("view", "foreign"):
        raise DeclarationError(f"queue {name or table.name!r}", [not_a_table(table)])
    column = await find_status_column(store, table, status)
    draft = _draft(table, column, states, key, store)
    bound = declaration.bind(draft.queue(name), table, store.dialect)
    draft, bound, refusals = await _refine_draft(store, draft, bound, states, name)
    leftovers = await _leftovers(store, bound)
    _remark(draft, bound.queue, leftovers)
    draft.notes += [
        f"{refusal.problem.what}; fix: {refusal.problem.fix}" for refusal in refusals if not refusal.stops_work
    ]
    draft.notes += [] if column else await _null_flags(store, draft)
    if role := await bound_by_row_security(store, table):
        draft.notes.append(
            f"row level security binds role {role}: rows hidden from it were not examined and are never claimed; use "
            "the service role, or add a policy for this role"
        )
    return Adoption(
        table.name,
        bound.key.name,
        column.column.name if column else None,
        {state: guess.value for state, guess in draft.states.items()},
        {str(value): n for value, n in column.seen.items()} if column else {},
        list(column.allowed) if column and column.allowed is not None else None,
        [
            {"argument": guess.argument, "value": guess.value, "why": guess.why}
            for guess in [*draft.states.values(), *draft.others]
            if guess.why
        ],
        draft.notes,
        [{"what": refusal.problem.what, "fix": refusal.problem.fix} for refusal in refusals if refusal.stops_work],
        leftovers,
        declaration_text(table.name, name, [*_status_first(draft)], _stale(bound.queue, leftovers)),
        bound.index_ddl(),
        bound.has_index(),
        _trigger(table.name) if store.dialect == "postgresql" else "",
    )


async def _table(store: Store, table_name: str) -> Table:
    name = ".".join(part.strip('"') for part in table_name.split("."))
    table = await store.table(name)
    if table is None:
        near = await _find_similar(store, name)
        hint = f": did you mean {' or '.join(near)}?" if near else ""
        raise ConfigurationError(f"there is no table {name!r} in this database{hint}")
    return table


async def _find_similar(store: Store, name: str) -> list[str]:
    """Tables with similar names, in any schema or case."""
    if store.dialect == "sqlite":
        text = "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite%'"
    else:
        text = """SELECT CASE WHEN pg_table_is_visible(c.oid) THEN '' ELSE n.nspname || '.' END || c.relname AS name
FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND n.nspname NOT IN ('pg_catalog', 'information_schema') ORDER BY 1 LIMIT 10000"""
    names = [str(row["name"]) for row in await store.database.fetch(text)]
    spelled = {full: full.rpartition(".")[2].lower() for full in names}
    alike = difflib.get_close_matches(name.rpartition(".")[2].lower(), set(spelled.values()), n=2, cutoff=0.7)
    return [full for word in alike for full in names if spelled[full] == word][:3]


def _draft(
    table: Table, column: StatusColumn | None, chosen: Mapping[str, str | None], key: str | None, store: Store
) -> _Draft:
    if column is None:
        states, others = _flag_states(table), []
    else:
        states = guessing.guess_states(column, chosen)
        if missing := [state for state in STATES if state not in states]:
            raise ConfigurationError(guessing.ask_for(table.name, column, missing))
        others = [guessing.Guess("status", column.column.name, column.why)]
    used = {name for guess in states.values() if isinstance(guess.value, dict) for name in guess.value}
    used |= {column.column.name} if column else set()
    chosen_key = guessing.Guess("key", key) if key is not None else guessing.guess_key(table)
    others += [
        guess
        for guess in (chosen_key, guessing.guess_condition(table), guessing.guess_order(table))
        if guess is not None
    ]
    return _Draft(table, column, states, [*others, *guessing.guess_mirrors(table, store.dialect, used)])


def _flag_states(table: Table) -> dict[StateName, guessing.Guess]:
    flags = guessing.find_flags(table)
    if len(flags) == len(STATES) - 1:
        return guessing.flag_states(flags)
    alter = f"ALTER TABLE {sql.name(table.name)} ADD COLUMN"
    if flags:
        lacking = [state for state in STATES[1:] if state not in flags]
        columns = " ".join(
            f"{alter} {guessing.USUAL_FLAGS[state]} boolean NOT NULL DEFAULT false;" for state in lacking
        )
        raise ConfigurationError(
            f"{' and '.join(flags.values())} of {table.name!r} cannot say that a row is {' or '.join(lacking)}: "
            f"{columns} then adopt it again; or use --status COLUMN"
        )
    if computed := find_computed_status(table):
        raise refuse_computed(table, computed)
    raise ConfigurationError(
        f"which column of {table.name!r} is the status? Use --status; its columns are {', '.join(table.columns)}. "
        f"If there is none: {alter} status text NOT NULL DEFAULT 'pending'; and set it to 'completed' in finished rows"
    )


async def _refine_draft(
    store: Store, draft: _Draft, bound: Bound, chosen: Mapping[str, str | None], name: str | None
) -> tuple[_Draft, Bound, list[Refusal]]:
    """The draft after trying every state change on a row; guessed values that the table refuses are replaced."""
    last = best = draft, bound, await _try(store, draft, bound)
    refused: dict[str, set[Scalar]] = {}
    for _ in range(OTHER_GUESSES):
        doubted = {refusal.state for refusal in last[2] if refusal.stops_work and last[0].states[refusal.state].why}
        if not doubted or draft.status is None:
            break
        for state in doubted:
            if not isinstance(value := last[0].states[state].value, dict):
                refused.setdefault(state, set()).add(value)
        states = guessing.guess_states(draft.status, chosen, refused)
        if len(states) < len(STATES):
            break
        other = _Draft(draft.table, draft.status, states, draft.others, draft.notes)
        try:
            other_bound = declaration.bind(other.queue(name), draft.table, store.dialect)
        except DeclarationError:
            break
        last = other, other_bound, await _try(store, other, other_bound)
        best = min(best, last, key=lambda attempt: len(attempt[2]))
    return best


async def _try(store: Store, draft: _Draft, bound: Bound) -> list[Refusal]:
    try:
        return await try_transitions(store.database, bound)
    except StoreError as error:
        note = f"its state changes could not be tested: {error}"
        if note not in draft.notes:
            draft.notes.append(note)
        return []


async def _leftovers(store: Store, bound: Bound) -> int:
    """The number of running rows that are not in the register."""
    try:
        return await store.foreign(bound.queue)
    except NotMigrated:
        return (await store.counts(bound.queue))["running"]


def _remark(draft: _Draft, queue: Queue, leftovers: int) -> None:
    status = draft.status
    if status is not None:
        used = [guess.value for guess in draft.states.values()]
        others = [f"{value!r} ({guessing.count_rows(n)})" for value, n in status.seen.items() if value not in used]
        if status.nulls and not isinstance(used[0], dict):
            others.append(f"NULL ({guessing.count_rows(status.nulls)})")
        if others:
            draft.notes.append(f"other values of {status.column.name}, which the queue ignores: {', '.join(others)}")
    if leftovers:
        rest = (
            "with stale_after=, workers take over rows that are old enough"
            if "started_at" in queue.mirrors
            else "no column has the start time: run `tabellion release` once no program works on them"
        )
        draft.notes.append(f"running now and not in the register: {guessing.count_rows(leftovers)}; {rest}")


async def _null_flags(store: Store, draft: _Draft) -> list[str]:
    """Notes about booleans that are NULL: such rows are in no state."""
    table, notes = sql.name(draft.table.name), []
    for name in draft.states["ready"].value:
        column = sql.column(name)
        rows = await store.database.fetch(f"SELECT count(*) AS n FROM {table} WHERE {column} IS NULL")
        if rows[0]["n"]:
            notes.append(
                f"{name} is NULL in {guessing.count_rows(rows[0]['n'])}, and such rows are never claimed: "
                f"UPDATE {table} SET {column} = false WHERE {column} IS NULL; and set it to false in new rows"
            )
    return notes


def _stale(queue: Queue, leftovers: int) -> str | None:
    """The commented-out argument that takes leftovers over; another program may still work on them."""
    if not leftovers or "started_at" not in queue.mirrors:
        return None
    return (
        f"stale_after={HOUR},  # takes over rows that run outside the register ({leftovers} now) an hour after their "
        "start: uncomment it once no other program works on them"
    )


def _status_first(draft: _Draft) -> list[guessing.Guess]:
    first = [guess for guess in draft.others if guess.argument in ("status", "key")]
    rest = [guess for guess in draft.others if guess not in first]
    return [*first, *(draft.states[state] for state in STATES), *rest]


def _trigger(table: str) -> str:
    bare = table.rpartition(".")[2]
    return f"""CREATE OR REPLACE FUNCTION tabellion_wake() RETURNS trigger LANGUAGE plpgsql AS
  $$ BEGIN PERFORM pg_notify('tabellion', ''); RETURN NULL; END $$;
CREATE TRIGGER {sql.column(f"{bare}_tabellion_wake")} AFTER INSERT ON {sql.name(table)}
  FOR EACH STATEMENT EXECUTE FUNCTION tabellion_wake();"""
