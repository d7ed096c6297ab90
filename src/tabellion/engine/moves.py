"""The parts of the moves that all databases share: which columns of the row each one writes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tabellion.engine import sql
from tabellion.engine.job import Job
from tabellion.engine.queue import AGES
from tabellion.engine.settlement import SHOWN, STATE_OF, Outcome, Settlement, charging_outcomes
from tabellion.engine.tables.declaration import Bound, empty_value
from tabellion.errors import ValueRefused

Numbered = tuple[str, list[Any]]  #: a statement with `$1, $2, …` and its values


@dataclass(frozen=True, slots=True)
class Terms:
    """Conditions of one claim in addition to those of the queue."""

    where: str = ""  #: a condition on the row `t`, with `:name` placeholders
    values: Mapping[str, Any] = field(default_factory=dict)
    only: Any = None  #: the key of the one row that may be claimed
    early: bool = False  #: rows that are due later may be claimed now
    also: Callable[[Job], Iterable[tuple[str, Mapping[str, Any]]]] | None = None  #: commits with the claim of each

    def condition(self, bound: Bound, after: int) -> Numbered:
        """The condition to add to the ready state, its placeholders numbered from `after` + 1."""
        parts, values = [f"AND (\n{self.where}\n)"] if self.where else [], dict(self.values)
        if self.only is not None:
            parts.append(f"AND t.{sql.column(bound.key.name)} = :tabellion_only")
            values["tabellion_only"] = self.only
        return _bind_statement(" ".join(parts), values, after)

    def extras(self, job: Job) -> list[Numbered]:
        """The statements that commit with this job's claim."""
        return [_bind_statement(statement, values) for statement, values in (self.also(job) if self.also else ())]


def extra_condition(bound: Bound) -> str:
    """The queue's `where=` (on its own lines, since it may end in a comment), and that the key is not NULL."""
    where = f"AND (\n{bound.queue.where}\n)" if bound.queue.where else ""
    return f"{where} AND t.{sql.column(bound.key.name)} IS NOT NULL" if bound.key.nullable else where


def at_claim(bound: Bound, *, worker: str, attempt: str, now: str | None = None, updated: str | None = None) -> str:
    """The SET items of a claim: the running state and the mirrors."""
    mirrors = bound.mirrors
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
    state, mirrors = STATE_OF[outcome], bound.mirrors
    items = enter_state(bound, bound.queue.changes[state])
    if outcome == "done":
        items |= clear_error(bound)
    elif "error" in mirrors and (state == "failed" or outcome in SHOWN):
        items[mirrors["error"]] = fit_to_column(bound, mirrors["error"], error)
    if state == "ready":
        items |= clear_mirrors(bound, "worker", "started_at")
    elif "finished_at" in mirrors:
        items[mirrors["finished_at"]] = stamp(bound, "finished_at")
    if "done_at" in mirrors and state == "done":
        items[mirrors["done_at"]] = stamp(bound, "done_at")
    if "attempts" in mirrors and state == "ready" and outcome not in charging_outcomes(bound.queue):
        items[mirrors["attempts"]] = f"t.{sql.column(mirrors['attempts'])} - 1"
    items |= touch(bound)
    return [f"{sql.column(target)} = {value}" for target, value in items.items() if target not in columns]


def at_restart(bound: Bound) -> str:
    """The SET items of a restart: ready, with every mirror empty except an error that the queue keeps."""
    items = enter_state(bound, bound.queue.states["ready"])
    items |= clear_mirrors(bound, "worker", "started_at", "finished_at", "done_at") | clear_error(bound)
    if "attempts" in bound.mirrors:
        items[bound.mirrors["attempts"]] = "0"
    return set_items(items | touch(bound))


def at_return(bound: Bound) -> str:
    """The SET items of a row that goes back to ready without a claim in the register."""
    items = enter_state(bound, bound.queue.states["ready"]) | clear_mirrors(bound, "worker", "started_at")
    return set_items(items | touch(bound))


def at_renewal(bound: Bound) -> str:
    """The SET items of a lease renewal, for queues that renew the times in the row with it."""
    renewed = {bound.mirrors[age]: stamp(bound, age) for age in AGES if age in bound.mirrors}
    return set_items(renewed)


def at_cancel(bound: Bound, *, error: str) -> str:
    """The SET items of a row that is cancelled while it is waiting or parked."""
    mirrors, items = bound.mirrors, enter_state(bound, bound.queue.states["failed"])
    if "error" in mirrors:
        items[mirrors["error"]] = fit_to_column(bound, mirrors["error"], error)
    if "finished_at" in mirrors:
        items[mirrors["finished_at"]] = stamp(bound, "finished_at")
    return set_items(items | touch(bound))


def enter_state(bound: Bound, state: sql.State) -> dict[str, str]:
    """The columns of this state with their values as SQL, without those that the database computes itself."""
    return {
        name: sql.literal(value, bound.dialect) for name, value in state.items() if not bound.column(name).generated
    }


def clear_mirrors(bound: Bound, *mirrors: str) -> dict[str, str]:
    """The columns of these mirrors with an empty value as SQL; a time that may not be NULL keeps its last value."""
    empty = {
        bound.mirrors[mirror]: empty_value(bound.column(bound.mirrors[mirror]), mirror, bound.dialect)
        for mirror in mirrors
        if mirror in bound.mirrors
    }
    return {column: value for column, value in empty.items() if value is not None}


def clear_error(bound: Bound) -> dict[str, str]:
    """The error mirror with an empty value as SQL; nothing if the queue keeps its errors."""
    return {} if bound.queue.keep_error else clear_mirrors(bound, "error")


def touch(bound: Bound, now: str | None = None) -> dict[str, str]:
    """The `updated_at` mirror set to now, if the queue has one."""
    mirrors = bound.mirrors
    return {mirrors["updated_at"]: now or stamp(bound, "updated_at")} if "updated_at" in mirrors else {}


def set_items(items: Mapping[str, str]) -> str:
    """Columns and the SQL of their new values as the items of SET."""
    return ", ".join(f"{sql.column(column)} = {value}" for column, value in items.items())


def native_key(bound: Bound, text: str) -> str:
    """A key's text cast to its column's type, so that the index is used."""
    if bound.dialect == "postgresql":
        return f"CAST(CAST({text} AS text) AS {bound.key.type})"
    return f"CAST({text} AS INTEGER)" if bound.key.family == "integer" else text


def extras(settlement: Settlement) -> list[Numbered]:
    """The statements that commit with a settlement; the job's own only with its finish."""
    own = settlement.job._also if settlement.outcome == "done" else []
    return [_bind_statement(statement, values) for statement, values in (*own, *settlement.also)]


def guard(settlement: Settlement) -> Numbered | None:
    """The query that must return a row for the settlement to be written."""
    return None if settlement.guard is None else _bind_statement(*settlement.guard)


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
    """The current time in the type of this mirror's column."""
    column = bound.column(bound.mirrors[mirror])
    return sql.stamp(column.family, column.plain_type, bound.dialect)


def fit_to_column(bound: Bound, column: str, text: str) -> str:
    """A text, cut to the length of a `varchar(n)` column."""
    length = bound.column(column).length
    cut = f"substr({text}, 1, {length})" if length else text
    return cut if bound.column(column).nullable else f"coalesce({cut}, '')"
