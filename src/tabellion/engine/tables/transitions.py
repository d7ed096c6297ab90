"""Tries every change of state on a real row, rolls it back, and reports what the table refuses."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from tabellion.engine import moves, sql
from tabellion.engine.database import Answers, Database, TrialStatements
from tabellion.engine.queue import STATES, StateName, format_state
from tabellion.engine.settlement import Outcome
from tabellion.engine.tables.declaration import Bound
from tabellion.errors import Busy, DeclarationProblem, Forbidden, StoreError, Unreachable

ROWS_TRIED = 3  # a trigger may refuse one row and accept the next
ROWS_SEEN = 1000  # if no row is ready, one in another state is looked for among this many
TRIED = "'a trial of tabellion, rolled back'"

CLAIM, CANCEL, DONE, FAIL, RETRY, RESTART, RENEW = (
    "ready → running", "ready → failed", "running → done", "running → failed", "running → ready", "failed → ready",
    "running → running",
)  # fmt: skip
_TARGET: dict[str, StateName] = {
    CLAIM: "running", CANCEL: "failed", DONE: "done", FAIL: "failed", RETRY: "ready", RESTART: "ready",
    RENEW: "running",
}  # fmt: skip
#: Changes that only people make, with `tabellion cancel` and `tabellion retry`.
_BY_HAND = (CANCEL, RESTART)


@dataclass(frozen=True, slots=True)
class Refusal:
    """One change of state that the table refuses."""

    state: StateName  #: the state that cannot be entered
    problem: DeclarationProblem
    stops_work: bool = True  #: False: only people make this change, or the handler's result may satisfy the table


async def check_transitions(database: Database, bound: Bound) -> list[DeclarationProblem]:
    """The changes of state that this queue needs and the table refuses, each with its fix; changes nothing.

    Raises `Busy` if nothing is refused by rule and other sessions use every row that was tried.
    """
    return [refusal.problem for refusal in await try_transitions(database, bound) if refusal.stops_work]


async def try_transitions(database: Database, bound: Bound) -> list[Refusal]:
    """The same, including refusals that do not stop a worker."""
    by_rule: list[Refusal] = []
    try:
        by_rule = await _check_rules(database, bound)
        by_trial, entered = await _check_by_trial(database, bound) if bound.queue.try_states else ([], set())
    except Forbidden as error:
        return [Refusal("running", _forbidden(bound, error, str(error)))]
    except Busy:
        if not by_rule:
            raise
        by_trial, entered = [], set()
    # If a row could enter a state, our reading of the rules was wrong.
    by_rule = [refusal for refusal in by_rule if refusal.state not in entered]
    known = {refusal.state for refusal in by_rule}
    return by_rule + [refusal for refusal in by_trial if refusal.state not in known]


# -- by the catalog, with or without rows --------------------------------------------------------------------------


async def _check_rules(database: Database, bound: Bound) -> list[Refusal]:
    """States that a CHECK, a domain or a foreign key refuses whatever the row's other values are."""
    refusals = []
    for state in STATES:
        values = bound.queue.states[state]
        checks = [check for check in bound.table.checks if check.columns and check.columns <= values.keys()]
        domains = any(bound.column(name).base for name in values)
        if checks or domains:
            row = ", ".join(
                f"CAST({sql.literal(value, bound.dialect)} AS {bound.column(name).type}) AS {sql.column(name)}"
                if bound.dialect == "postgresql"
                else f"{sql.literal(value, bound.dialect)} AS {sql.column(name)}"
                for name, value in values.items()
            )
            tests = "".join(
                f", CASE WHEN ({check.expression}) THEN 1 WHEN NOT ({check.expression}) THEN 0 ELSE 1 END AS c{number}"
                for number, check in enumerate(checks)
            )
            alias = sql.column(bound.table.name.rpartition(".")[2])
            try:
                [row_values] = await database.fetch(f"SELECT *{tests} FROM (SELECT {row}) AS {alias}")
            except (Unreachable, Busy):
                raise
            except StoreError as error:
                refusals.append(_refusal(bound, state, error.words, f"use a value that its type allows in {state}="))
                continue
            for number, check in enumerate(checks):
                if not row_values[f"c{number}"]:
                    name = f"constraint {check.name!r}" if check.name else "a CHECK constraint"
                    words = f"{name} refuses it: CHECK {_in_parentheses(check.expression)}"
                    refusals.append(
                        _refusal(
                            bound, state, words, f"use a value that it allows in {state}=, or change the constraint"
                        )
                    )
        refusals += await _check_references(database, bound, state)
    return refusals


async def _check_references(database: Database, bound: Bound, state: StateName) -> list[Refusal]:
    refusals = []
    for name, value in bound.queue.states[state].items():
        table, column = bound.table.references.get(name, ("", ""))
        if not table or value is None:
            continue
        # PostgreSQL's catalog gives the table as quoted SQL, SQLite's as a plain name.
        source = table if bound.dialect == "postgresql" else sql.name(table)
        target = "rowid" if column == "rowid" else sql.column(column)
        try:
            rows = await database.fetch(
                f"SELECT 1 FROM {source} WHERE {target} = {sql.literal(value, bound.dialect)} LIMIT 1"
            )
        except Forbidden:
            continue  # the database checks references with its owner's rights, which we do not have
        if not rows:
            words = f"{name} must be in {table}.{column}, where there is no {value!r}"
            refusals.append(_refusal(bound, state, words, f"insert it into {table}, or use an existing value"))
    return refusals


def _in_parentheses(expression: str) -> str:
    text = " ".join(expression.split())
    return text if text.startswith("(") else f"({text})"


# -- by a trial on a row -------------------------------------------------------------------------------------------


async def _check_by_trial(database: Database, bound: Bound) -> tuple[list[Refusal], set[StateName]]:
    """Changes of state that every tried row was refused, and the states that at least one could enter.

    A refusal of only some rows is about those rows and not about the declaration.
    """
    refusals: dict[str, Refusal] | None = None
    entered: set[StateName] = set()
    rows = await _rows_to_try(database, bound)
    for key, state, in_line in rows:
        lock = f"SELECT 1 FROM {sql.name(bound.queue.table)} AS t WHERE t.{sql.column(bound.key.name)} = "
        lock += moves.native_key(bound, "$1")
        if state in STATES:
            lock += f" AND {sql.holds(bound.queue.states[state], bound.dialect)}"
        if bound.dialect == "postgresql":
            lock += " FOR UPDATE SKIP LOCKED"  # do not wait for a row that is being worked on
        try:
            # A row that is not in this queue's line may be the first one in that of another queue on the table.
            ready_in = bound.queue if in_line else None
            answers = await database.try_out(ready_in, (lock, [key]), _trials(bound, key, state))
        except Busy:
            continue
        if not answers or any(isinstance(answer, Busy) for answer in answers.values()):
            continue
        row_refusals = await _refusals(database, bound, answers)
        entered |= {_TARGET[change] for change in answers if change in _TARGET and change not in row_refusals}
        refusals = (
            row_refusals
            if refusals is None
            else {change: refusals[change] for change in row_refusals if change in refusals}
        )
        if not refusals:
            break
    if rows and refusals is None:
        raise Busy(f"other sessions use every row of {bound.queue.table} that was tried")
    # Two ways into the same state that are refused with the same error are one problem.
    different: dict[tuple[StateName, str], Refusal] = {}
    for refusal in sorted((refusals or {}).values(), key=lambda refusal: not refusal.stops_work):
        different.setdefault((refusal.state, refusal.problem.what.partition(" is refused")[2]), refusal)
    return list(different.values()), entered


async def _rows_to_try(database: Database, bound: Bound) -> list[tuple[str, str, bool]]:
    """Keys and states of a few rows, and whether a claim may find them: otherwise those nearest to ready."""
    key, table = f"t.{sql.column(bound.key.name)}", sql.name(bound.queue.table)
    ready = f"SELECT CAST({key} AS text) AS key, 'ready' AS state FROM {table} AS t"
    ready += f" WHERE {sql.holds(bound.queue.states['ready'], bound.dialect)} {moves.extra_condition(bound)}"
    states = " ".join(
        f"WHEN {sql.holds(bound.queue.states[state], bound.dialect)} THEN '{state}'"
        for state in ("ready", "failed", "running", "done")
    )
    others = f"""SELECT * FROM (SELECT CAST({key} AS text) AS key, CASE {states} ELSE '' END AS state
FROM {table} AS t WHERE {key} IS NOT NULL LIMIT {ROWS_SEEN}) AS s
ORDER BY CASE state WHEN 'ready' THEN 1 WHEN 'failed' THEN 2 WHEN 'running' THEN 3 ELSE 4 END"""
    for query in (ready, others):
        try:
            rows = await database.fetch(f"{query} LIMIT {ROWS_TRIED}")
        except Busy:
            continue  # a large table without an index: claims will be as slow, and `doctor` reports it
        if rows:
            return [(row["key"], row["state"], query is ready) for row in rows]
    return []


def _trials(bound: Bound, key: str, state: str) -> Sequence[TrialStatements]:
    """Every change of state that a queue makes, starting from the row's own state."""
    table = sql.name(bound.queue.table)
    where = f"WHERE t.{sql.column(bound.key.name)} = {moves.native_key(bound, '$1')}"

    def change(items: str) -> moves.Numbered:
        return f"UPDATE {table} AS t SET {items} {where}", [key]

    def settle(outcome: Outcome) -> moves.Numbered:
        return change(", ".join(moves.at_settlement(bound, outcome, error=TRIED, columns=())))

    columns = ", ".join(f"t.{sql.column(column)}" for column in bound.queue.states["running"])
    running = f"CASE WHEN {sql.holds(bound.queue.states['running'], bound.dialect)} THEN 1 ELSE 0 END AS tabellion_runs"
    look = f"SELECT {running}, {columns} FROM {table} AS t {where}", [key]
    restart = TrialStatements(RESTART, [change(moves.at_restart(bound))])
    claim = change(moves.at_claim(bound, worker="'tabellion'", attempt="1"))
    from_ready = (
        TrialStatements(
            CLAIM,
            [claim, look],
            (
                TrialStatements(DONE, [settle("done")]),
                TrialStatements(FAIL, [settle("failed")], (restart,)),
                TrialStatements(RETRY, [settle("retried")]),
                *([TrialStatements(RENEW, [change(moves.at_renewal(bound))])] if bound.queue.renew_mirrors else []),
            ),
        ),
        TrialStatements(CANCEL, [change(moves.at_cancel(bound, error=TRIED))]),
    )
    if state == "ready":
        return from_ready
    if state == "running":
        return (TrialStatements(RETRY, [settle("retried")], from_ready),)
    # No move leads from `done`, or from a state outside the queue, to ready: a refusal of that change means nothing.
    return (TrialStatements(RESTART if state == "failed" else "", [change(moves.at_restart(bound))], from_ready),)


async def _refusals(database: Database, bound: Bound, answers: Answers) -> dict[str, Refusal]:
    refusals: dict[str, Refusal] = {}
    for change, answer in answers.items():
        if isinstance(answer, Unreachable):
            raise answer
        state = _TARGET.get(change)
        if state is None:
            continue
        if isinstance(answer, Forbidden):
            refusals[change] = Refusal(state, _forbidden(bound, answer, f"{change}: {answer}"))
        elif isinstance(answer, StoreError):
            # A unique constraint involves two rows, and the other one may be gone later.
            if answer.rule != "unique":
                where = f" (raised in function {answer.function})" if answer.function else ""
                problem = _format_refusal(bound, state, f"{change} is refused: {answer.words}{where}")
                stops_work = change not in _BY_HAND
                if change == DONE:
                    stops_work = not await _may_be_made_good(database, bound, answer)
                refusals[change] = Refusal(state, DeclarationProblem(problem, _fix(bound, answer)), stops_work)
        elif change == CLAIM and answer and not answer[0].pop("tabellion_runs"):
            words = f"after the change the row is {format_state(answer[0])}: a trigger or rule of the table reverts it"
            refusals[change] = _refusal(bound, state, words, "change the trigger, or name the values that it writes")
        elif change == CLAIM and not answer:
            words = "after the change the row is no longer visible"
            fix = "allow the worker's role to see running rows: row level security hides them"
            refusals[change] = _refusal(bound, state, words, fix)
    return refusals


async def _may_be_made_good(database: Database, bound: Bound, error: StoreError) -> bool:
    """Whether `done` was refused because of columns that the handler's result may fill in."""
    if error.rule == "check":
        about = [check.columns for check in bound.table.checks if error.constraint in (check.name, check.expression)]
        about = about or [check.columns for check in bound.table.checks if error.constraint in check.expression]
    elif error.rule == "trigger":
        about = [await _columns_of_triggers(database, bound, error.function)]
    elif error.rule == "null":
        return not any(column in str(error) for column in bound.mirrors.values())
    else:
        return False
    ours = set(bound.mirrors.values()) | bound.queue.states["done"].keys()
    return any(not columns <= ours for columns in about)


async def _columns_of_triggers(database: Database, bound: Bound, function: str) -> frozenset[str]:
    """The columns of the new row that the table's triggers read; '' means the whole row."""
    if bound.dialect == "postgresql":
        rows = await database.fetch(
            """SELECT p.prosrc AS text FROM pg_trigger AS t JOIN pg_proc AS p ON p.oid = t.tgfoid
WHERE t.tgrelid = to_regclass($1) AND NOT t.tgisinternal AND p.proname = $2""",
            sql.name(bound.queue.table),
            function.rpartition(".")[2].strip('"'),
        )
    else:
        rows = await database.fetch(
            "SELECT sql AS text FROM sqlite_master WHERE type = 'trigger' AND lower(tbl_name) = lower($1)",
            bound.queue.table.rpartition(".")[2],
        )
    names = set()
    for row in rows:
        for match in re.finditer(r'(?i)(\breturn\s+)?\bnew\b(?:\s*\.\s*"?(\w+)"?)?', row["text"] or ""):
            if match.group(2) or not match.group(1):
                names.add(match.group(2) or "")
    known = {column.lower(): column for column in bound.table.columns}
    return frozenset(known.get(name.lower(), name) for name in names)


# -- messages ------------------------------------------------------------------------------------------------------


def _refusal(bound: Bound, state: StateName, words: str, fix: str) -> Refusal:
    return Refusal(state, DeclarationProblem(_format_refusal(bound, state, words), fix))


def _format_refusal(bound: Bound, state: StateName, words: str) -> str:
    return f"{state} says {format_state(bound.queue.changes[state])}, but {words}"


def _fix(bound: Bound, error: StoreError) -> str:
    table = bound.queue.table
    if error.rule == "trigger":
        return f"change the trigger of {table}, or declare other states; try_states=False skips this trial"
    if error.constraint:
        return f"change constraint {error.constraint!r} of {table}, or declare other states"
    return f"change what {table} allows, or declare other states"


def _forbidden(bound: Bound, error: Forbidden, words: str) -> DeclarationProblem:
    table = sql.name(bound.queue.table)
    if error.by_policy:
        return DeclarationProblem(words, f"give the worker's role a policy FOR UPDATE on {table} that allows it")
    return DeclarationProblem(words, f"GRANT SELECT, UPDATE ON {table} TO the worker's role;")
