"""Broken engines: each breaks one promise, to show that the tests which guard it fail."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from typing import Any

from tabellion.engine import moves as shared
from tabellion.engine.postgres import database as postgres
from tabellion.engine.postgres import moves as postgres_moves
from tabellion.engine.sql import NOW
from tabellion.engine.sqlite import database as sqlite
from tabellion.engine.sqlite import moves as sqlite_moves
from tabellion.engine.store import Store


@dataclasses.dataclass(frozen=True)
class Mutant:
    """One broken engine: `apply` changes this process, `prepare` is SQL that must be run first."""

    promise: str  #: what it breaks
    apply: Callable[[], None]
    prepare: tuple[str, ...] = ()


def _replace(owner: Any, name: str, wrong: Any) -> None:
    """Replaces a function by a wrong one; it must be there, or the mutant would break nothing."""
    if not hasattr(owner, name):
        raise LookupError(f"mutant: {owner.__name__} has no {name}")
    setattr(owner, name, wrong)


def _with_other_sql(module: Any, name: str, *changes: tuple[str, str]) -> None:
    """Replace patterns in the SQL that a function of a moves module builds; each must be found."""
    right = getattr(module, name)

    def wrong(*arguments: Any, **named: Any) -> str:
        text: str = right(*arguments, **named)
        for pattern, words in changes:
            text, count = re.subn(pattern, words, text)
            if not count:
                raise LookupError(f"mutant: {pattern!r} is not in {module.__name__}.{name}: {text}")
        return text

    _replace(module, name, wrong)


_SETTLED = r"AND (a\.)?settled_at IS NULL"
_RUNNING = r"""t\."status" = 'running'"""
_READY = r"""t\."status" = 'new'"""


def _one_by_one() -> None:
    """Make SQLite settle every job by itself, by the statements that a mutant changes."""
    nothing = "UPDATE tabellion_attempts SET n = n WHERE $1 IS NULL"
    _replace(sqlite_moves, "settle_plainly", lambda bound, outcome: (f"{nothing} AND $2 IS NULL", nothing))


def _settle_blind() -> None:
    """Like `UPDATE … WHERE id = ?`: neither the claim nor the row's state is checked."""
    _one_by_one()
    _with_other_sql(postgres_moves, "settle", (_SETTLED, ""), (_RUNNING, "true"))
    _with_other_sql(sqlite_moves, "settle_attempt", (_SETTLED, ""))
    _with_other_sql(sqlite_moves, "settle_row", (_RUNNING, "true"))


def _settle_by_state() -> None:
    """Like a queue without a fence: the row must be running, but the claim is not checked."""
    _one_by_one()
    _with_other_sql(postgres_moves, "settle", (_SETTLED, ""))
    _with_other_sql(sqlite_moves, "settle_attempt", (_SETTLED, ""))


def _sweep_unexpired() -> None:
    """Sweep claims whose lease has not expired."""
    _one_by_one()
    expired = rf"AND (a\.)?lease_until < {NOW}"
    for kind in (postgres.PostgreSQL, sqlite.SQLite):

        async def fetch(database: Any, text: str, *values: Any, right: Any = kind.fetch) -> Any:
            return await right(database, re.sub(expired, "", text), *values)

        _replace(kind, "fetch", fetch)
    _with_other_sql(postgres_moves, "settle", (rf"{expired}|$", ""))
    _with_other_sql(sqlite_moves, "settle_attempt", (rf"{expired}|$", ""))


def _claim_running() -> None:
    """Claim rows that are already running."""
    for module in (postgres_moves, sqlite_moves):
        _with_other_sql(
            module, "claim",
            (_READY, """t."status" IN ('new', 'running')"""),
            (r"(l_|l\.)settled_at IS NOT NULL", r"\1n IS NOT NULL"),
        )  # fmt: skip


def _claim_early() -> None:
    """Claim rows whose retry is not due yet."""
    for module in (postgres_moves, sqlite_moves):
        _with_other_sql(module, "claim", (r"(l_|l\.)retry_at IS NULL", r"\1n IS NOT NULL"))


def _crash_uncharged() -> None:
    """A crash does not count as an attempt."""
    for module in (shared, postgres_moves, sqlite_moves):
        _replace(module, "charging_outcomes", lambda _: ("retried",))


def _row_forgotten() -> None:
    """Write the register and, for one key in a hundred, not the row."""
    _one_by_one()
    _with_other_sql(postgres_moves, "settle", (r"WHERE t\.", "WHERE NOT t.id::text LIKE '%33' AND t."))
    _with_other_sql(sqlite_moves, "settle_row", (r"WHERE t\.", "WHERE CAST($1 AS TEXT) NOT LIKE '%33' AND t."))


def _answer_forgotten() -> None:
    """Take a stale answer for an accepted one."""
    right = Store.settle

    async def settle(one: Store, settlements: Any) -> Any:
        verdicts = await right(one, settlements)
        meant = {id(settlement.job): settlement.outcome for settlement in settlements}
        return [dataclasses.replace(v, outcome=v.outcome or meant[id(v.job)]) for v in verdicts]

    _replace(Store, "settle", settle)


MUTANTS: dict[str, Mutant] = {
    "settle-blind": Mutant("a result is accepted only from the live claim", _settle_blind),
    "settle-by-state": Mutant("a result is accepted only from the row's present owner", _settle_by_state),
    "sweep-unexpired": Mutant("only an expired claim is swept", _sweep_unexpired),
    "claim-running": Mutant("a job has one owner at a time", _claim_running, ("DROP INDEX tabellion_attempts_live",)),
    "claim-early": Mutant("a retry waits until it is due", _claim_early),
    "crash-uncharged": Mutant("a crash spends the attempt", _crash_uncharged),
    "row-forgotten": Mutant("nothing is lost", _row_forgotten),
    "answer-forgotten": Mutant("a refused result is told to its worker", _answer_forgotten),
}
