"""Tries statements on PostgreSQL and rolls everything back."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import asyncpg

from tabellion.engine.database import Answers, TrialStatements, Undone
from tabellion.engine.moves import Numbered
from tabellion.engine.postgres.errors import translate_error
from tabellion.errors import StoreError

#: A trial does not wait for locks, and checks deferred constraints at once.
_SETTINGS = "SET LOCAL lock_timeout = '200ms'; SET LOCAL statement_timeout = '2s'; SET CONSTRAINTS ALL IMMEDIATE"


#: A role that only looks may not lock queues' own rows, and a database that is tried first has no register.
_NOT_LOCKED = (asyncpg.UndefinedTableError, asyncpg.InsufficientPrivilegeError)


async def try_out(
    connection: Any,
    with_clock: Callable[[str], str],
    keep_order: Callable[[], Awaitable[object]],
    lock: Numbered,
    trials: Sequence[TrialStatements],
) -> Answers:
    """The result of each trial; no answers if `lock` returns no row.

    Claims under a limit lock their queue's own row first, and so does `keep_order`: otherwise they would skip the row
    that is tried, which may be the first in line.
    """
    answers: Answers = {}

    async def try_all(level: Sequence[TrialStatements]) -> None:
        for trial in level:
            try:
                async with connection.transaction():  # a savepoint
                    for text, values in trial.statements:
                        rows = await connection.fetch(with_clock(text), *values)
                        answers[trial.name] = [dict(row) for row in rows]
                    await try_all(trial.then)
                    raise Undone
            except Undone:
                pass
            except asyncpg.PostgresError as error:
                ours = translate_error(error, 0.0)
                answers[trial.name] = ours if isinstance(ours, StoreError) else StoreError(str(ours))

    with contextlib.suppress(Undone):
        async with connection.transaction():
            await connection.execute(_SETTINGS)
            with contextlib.suppress(*_NOT_LOCKED):
                async with connection.transaction():  # a savepoint
                    await keep_order()
            if await connection.fetch(with_clock(lock[0]), *lock[1]):
                await try_all(trials)
            raise Undone
    return answers
