"""What the moves have in common on every database: which columns of the row they write."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tabellion.engine import sql
from tabellion.engine.declaration import Bound, empty_value
from tabellion.engine.job import Job
from tabellion.engine.queue import AGES
from tabellion.engine.settlement import SHOWN, STATE_OF, Outcome, Settlement, charging_outcomes
from tabellion.errors import ValueRefused

Numbered = tuple[str, list[Any]]  #: a statement with `$1, $2, …` and its values


@dataclass(frozen=True, slots=True)
class Terms:
    """On which terms rows are claimed, beside the queue's own."""

    where: str = ""  #: a condition on the row `t`, with `:name` placeholders
    values: Mapping[str, Any] = field(default_factory=dict)
    only: Any = None  #: the key of the one row that may be claimed
    early: bool = False  #: rows that are due later may be claimed now
    also: Callable[[Job], Iterable[tuple[str, Mapping[str, Any]]]] | None = None  #: commits with the claim of each

    def condition(self, bound: Bound, after: int) -> Numbered:
        """What stands beside the ready state, its values numbered after those there are."""
        parts, values = [f"AND (\n{self.where}\n)"] if self.where else [], dict(self.values)
        if self.only is not None:
            parts.append(f"AND t.{sql.column(bound.key.name)} = :tabellion_only")
            values["tabellion_only"] = self.only
        return _bind_statement(" ".join(parts), values, after)

    def extras(self, job: Job) -> list[Numbered]:
        """The statements that commit with this job's claim."""
        return [_bind_statement(statement, values) for statement, values in (self.also(job) if self.also else ())]


def extra_condition(bound: Bound) -> str:
    """The queue's own condition on ready rows (on its own lines: it may end in a comment), and that there is a key."""
    where = f"AND (\n{bound.queue.where}\n)" if bound.queue.where else ""
    return f"{where} AND t.{sql.column(bound.key.name)} IS NOT NULL" if bound.key.nullable else where


def at_claim(bound: Bound, *, worker: str, attempt: str, now: str | None = None, updated: str | None = None) -> str:
    """The SET items of a claim: the running state and the mirrors."""
    mirrors = bound.queue.mirrors
    items = enter_state(bound, bound.queue.changes["running"])
    if "worker" in mirrors:
        items[mirrors["worker"]] = fit_to_column(bound, mirrors["worker"], worker)
    if "started_at" in mirrors:
        items[mirrors["started_at"]] = now or stamp(bound, "started_at")
    if "attempts" in mirrors:
        items[mirrors["attempts"]] = attempt
    return set_items(items | touch(bound, updated))


def at_settlement(bound: Bound, outcome: Outcome, *, error: str, columns: Sequence[str]) -> list[str]:
    """The SET items of a settlement: the new state and the mirrors, except columns that the handler sets itself."""
    state, mirrors = STATE_OF[outcome], bound.queue.mirrors
    items = enter_state(bound, bound.queue.changes[state])
    if outcome == "done":
        items |= clear_error(bound)
    elif "error" in mirrors and (state == "failed" or outcome in SHOWN):
        items[mirrors["error"]] = fit_to_column(bound, mirrors["error"], error)
    if state == "ready":
        items |= clear_mirrors(bound, "worker", "started_at")
    elif "finished_at" in mirrors:
        items[mirrors["finished_at"]] = stamp(bound, "finished_at")
    if "attempts" in mirrors and state == "ready" and outcome not in charging_outcomes(bound.queue):
        items[mirrors["attempts"]] = f"t.{sql.column(mirrors['attempts'])} - 1"
    items |= touch(bound)
    return [f"{sql.column(target)} = {value}" for target, value in items.items() if target not in columns]


def at_restart(bound: Bound) -> str:
    """The SET items of a row that starts a new life: ready, every mirror empty but for an error that is kept."""
    items = enter_state(bound, bound.queue.states["ready"])
    items |= clear_mirrors(bound, "worker", "started_at", "finished_at") | clear_error(bound)
    if "attempts" in bound.queue.mirrors:
        items[bound.queue.mirrors["attempts"]] = "0"
    return set_items(items | touch(bound))


def at_return(bound: Bound) -> str:
    """The SET items of a row that goes back to ready although no claim of ours ends."""
    items = enter_state(bound, bound.queue.states["ready"]) | clear_mirrors(bound, "worker", "started_at")
    return set_items(items | touch(bound))


def at_renewal(bound: Bound) -> str:
    """The SET items of a row whose claim goes on, where its times are renewed with the lease."""
    renewed = {bound.queue.mirrors[age]: stamp(bound, age) for age in AGES if age in bound.queue.mirrors}
    return set_items(renewed)


def at_cancel(bound: Bound, *, error: str) -> str:
    """The SET items of a row that is cancelled while it waits, or while nobody works on it."""
    mirrors, items = bound.queue.mirrors, enter_state(bound, bound.queue.states["failed"])
    if "error" in mirrors:
        items[mirrors["error"]] = fit_to_column(bound, mirrors["error"], error)
    if "finished_at" in mirrors:
        items[mirrors["finished_at"]] = stamp(bound, "finished_at")
    return set_items(items | touch(bound))


def enter_state(bound: Bound, state: sql.State) -> dict[str, str]:
    """Columns with the SQL of the values that make this state; what the database computes follows by itself."""
    return {
        name: sql.literal(value, bound.dialect) for name, value in state.items() if not bound.column(name).generated
    }


def clear_mirrors(bound: Bound, *mirrors: str) -> dict[str, str]:
    """Columns of these mirrors with the SQL of an empty value; a time that may not be NULL keeps its last value."""
    empty = {
        bound.queue.mirrors[mirror]: empty_value(bound.column(bound.queue.mirrors[mirror]), mirror, bound.dialect)
        for mirror in mirrors
        if mirror in bound.queue.mirrors
    }
    return {column: value for column, value in empty.items() if value is not None}


def clear_error(bound: Bound) -> dict[str, str]:
    """The error's column emptied, unless the queue keeps it."""
    return {} if bound.queue.keep_error else clear_mirrors(bound, "error")


def touch(bound: Bound, now: str | None = None) -> dict[str, str]:
    """The column that tells when we last changed the row, where there is one."""
    mirrors = bound.queue.mirrors
    return {mirrors["updated_at"]: now or stamp(bound, "updated_at")} if "updated_at" in mirrors else {}


def set_items(items: Mapping[str, str]) -> str:
    """Columns and the SQL of their new values as SET takes them."""
    return ", ".join(f"{sql.column(column)} = {value}" for column, value in items.items())


def native_key(bound: Bound, text: str) -> str:
    """A key's text in its column's type, so that the row is found by its index."""
    if bound.dialect == "postgresql":
        return f"CAST(CAST({text} AS text) AS {bound.key.type})"
    return f"CAST({text} AS INTEGER)" if bound.key.family == "integer" else text


def extras(one: Settlement) -> list[Numbered]:
    """The statements that commit with a settlement; the job's own only with its finish."""
    own = one.job._also if one.outcome == "done" else []
    return [_bind_statement(statement, values) for statement, values in (*own, *one.also)]


def guard(one: Settlement) -> Numbered | None:
    """The question that must give a row."""
    return None if one.guard is None else _bind_statement(*one.guard)


def _bind_statement(statement: str, values: Mapping[str, Any], after: int = 0) -> Numbered:
    try:
        return sql.bind(statement, values, after)
    except ValueError as error:
        raise ValueRefused(str(error)) from error


def price(cost: Any) -> float | None:
    """A cost as the register keeps it; prices are often decimals."""
    try:
        return None if cost is None else float(cost)
    except (TypeError, ValueError) as error:
        raise ValueRefused(f"job.cost = {cost!r} is not a number") from error


def texts(outcomes: Sequence[Outcome]) -> str:
    """Outcomes as a list of SQL texts."""
    return ", ".join(f"'{outcome}'" for outcome in outcomes)


def stamp(bound: Bound, mirror: str) -> str:
    """Now, as this mirror's column wants it."""
    column = bound.column(bound.queue.mirrors[mirror])
    return sql.stamp(column.family, column.plain_type, bound.dialect)


def fit_to_column(bound: Bound, column: str, text: str) -> str:
    """A text, cut to what a `varchar(n)` column takes."""
    length = bound.column(column).length
    cut = f"substr({text}, 1, {length})" if length else text
    return cut if bound.column(column).nullable else f"coalesce({cut}, '')"
