"""The retention of attempts: removes the history of rows that have ended, and never what a claim depends on."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tabellion.engine import sql
from tabellion.engine.failpoints import failpoint
from tabellion.engine.moves import native_key
from tabellion.engine.queue import STATES, Queue
from tabellion.engine.retention import SOME, PruneStep, RetentionRule
from tabellion.engine.settlement import CONTINUING
from tabellion.engine.sql import NOW
from tabellion.engine.store import Store
from tabellion.engine.tables.declaration import Bound
from tabellion.engine.tables.primary_key import can_be_key
from tabellion.engine.tables.table_walk import next_window
from tabellion.errors import DeclarationError

ROWS = 2000  #: attempts that one step looks at on SQLite
GONE = "gone"

AttemptNumbers = dict[str, set[int]]  #: of attempts, by key


class AttemptsRule(RetentionRule):
    """Attempts that ended more than `keep` seconds ago, of these queues.

    The last attempt of a row has its counters and its due time. So nothing of a row that is ready or running is
    removed; of a failed one, the last attempt stays, which says why; of a row that is done or deleted, all of them go.
    """

    name = "attempts"

    def __init__(self, queues: Iterable[Queue], keep: float | None) -> None:
        self.queues = {queue.name: queue for queue in queues}
        self.keep = keep

    @property
    def turn(self) -> str:
        """Its own for each set of queues: a worker with others must not move the position."""
        names = "\n".join(sorted(self.queues))
        return f"{self.name}/{hashlib.sha256(names.encode()).hexdigest()[:8]}"

    async def step(self, store: Store, position: str | None, *, dry_run: bool = False) -> PruneStep:
        """Looks at the attempts of one window."""
        old, next_position = await self._find_old(store, position)
        total = PruneStep()
        for name, numbers in old.items():
            try:
                bound = await store.bind(self.queues[name])
            except DeclarationError:
                continue  # its table is missing or has changed: nobody knows the state of its rows
            keys = sorted(numbers)
            for start in range(0, len(keys), SOME):
                total += await self._prune_keys(store, bound, keys[start : start + SOME], numbers, dry_run)
        return PruneStep(next_position, total.removed, total.oldest)

    async def _find_old(self, store: Store, position: str | None) -> tuple[dict[str, AttemptNumbers], str | None]:
        """The numbers of the old attempts in this window by queue and key, and the position after it."""
        database, names = store.database, sorted(self.queues)
        cutoff = self.cutoff(store.dialect)
        if store.dialect == "postgresql":
            window, next_position = await next_window(database, "tabellion_attempts", position)
            rows = await database.fetch(
                f"""SELECT t.queue, t.key, t.n FROM tabellion_attempts AS t
WHERE {window} AND t.settled_at < {cutoff} AND t.queue = ANY ($1::text[])""",
                names,
            )
        else:
            first = json.loads(position) if position else ["", ""]
            ends = await database.fetch(
                f"""SELECT queue, key FROM tabellion_attempts WHERE (queue, key) > ($1, $2) ORDER BY queue, key, n
LIMIT 1 OFFSET {ROWS - 1}""",
                *first,
            )
            end = [ends[0]["queue"], ends[0]["key"]] if ends else None
            marks = ", ".join(f"${number}" for number in range(5, len(names) + 5))
            until = "(queue, key) <= ($3, $4)" if end else "($3 IS NULL AND $4 IS NULL)"
            rows = await database.fetch(
                f"""SELECT queue, key, n FROM tabellion_attempts
WHERE (queue, key) > ($1, $2) AND {until} AND settled_at < {cutoff} AND queue IN ({marks})""",
                *first, *(end or [None, None]), *names,
            )  # fmt: skip
            next_position = json.dumps(end) if end else None
        old: dict[str, AttemptNumbers] = defaultdict(lambda: defaultdict(set))
        for row in rows:
            old[row["queue"]][row["key"]].add(row["n"])
        return old, next_position

    async def _prune_keys(
        self, store: Store, bound: Bound, keys: Sequence[str], numbers: AttemptNumbers, dry_run: bool
    ) -> PruneStep:
        states = await find_states(store, bound, keys)
        history = await self._find_history(store, bound, keys)
        total, batch, size = PruneStep(), dict[str, int](), 0
        for key in keys:
            removable = find_removable(history.get(key, []), states.get(key, GONE))
            if removable:
                batch[key] = removable[-1]["n"]
                size += len(removable)
                # The attempts of a row may be in several windows: a dry run, which leaves them, counts each in its own.
                counted = sum(one["n"] in numbers[key] for one in removable) if dry_run else 0
                total += PruneStep(None, counted, max(one["age"] for one in removable))
            if size >= SOME:
                total += PruneStep(None, await self._delete(store, bound, batch, dry_run))
                batch, size = {}, 0
        return total + PruneStep(None, await self._delete(store, bound, batch, dry_run))

    async def _find_history(
        self, store: Store, bound: Bound, keys: Sequence[str]
    ) -> Mapping[str, list[dict[str, Any]]]:
        """Every attempt of these keys, in order."""
        d = store.dialect
        age = f"{sql.epoch(NOW, d)} - {sql.epoch('a.settled_at', d)}"
        condition, values = _among("a.key", keys, d, 2)
        rows = await store.database.fetch(
            f"""SELECT a.key, a.n, a.outcome, {age} AS age,
  CASE WHEN a.settled_at < {self.cutoff(d)} THEN 1 ELSE 0 END AS old
FROM tabellion_attempts AS a WHERE a.queue = $1 AND {condition} ORDER BY a.key, a.n""",
            bound.queue.name,
            *values,
        )
        history: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for row in rows:
            history[row["key"]].append(row)
        return history

    async def _delete(self, store: Store, bound: Bound, batch: Mapping[str, int], dry_run: bool) -> int:
        """Deletes the attempts of each key up to its number; returns how many."""
        if not batch or dry_run:
            return 0
        failpoint("prune.pre_commit")
        old = f"settled_at < {self.cutoff(store.dialect)}"
        if store.dialect == "postgresql":
            rows = await store.database.fetch(
                f"""WITH gone AS (DELETE FROM tabellion_attempts AS a WHERE a.queue = $1 AND a.key = ANY ($2::text[])
  AND a.n <= ($3::int[])[array_position($2::text[], a.key)] AND a.{old} RETURNING 1)
SELECT count(*) AS n FROM gone""",
                bound.queue.name, list(batch), list(batch.values()),
            )  # fmt: skip
            removed = int(rows[0]["n"])
        else:
            text = f"""DELETE FROM tabellion_attempts WHERE queue = $1 AND key = $2 AND n <= $3 AND {old}
RETURNING 1 AS gone"""
            results = await store.database.transact([(text, (bound.queue.name, *one)) for one in batch.items()])
            removed = sum(map(len, results))
        failpoint("prune.post_commit")
        return removed


def find_removable(history: Sequence[Mapping[str, Any]], state: str) -> Sequence[Mapping[str, Any]]:
    """Those attempts of one row, the first ones, that are old and that nothing needs any more.

    `history` is ordered by `n`; an attempt that is not settled has no outcome.
    """
    if not history or state in ("ready", "running") or any(one["outcome"] is None for one in history):
        return ()
    last = history[-1]
    # A continuing outcome has counters for the next claim; a parked row is known as such by its last attempt.
    needed = last["outcome"] == "parked" or state == "failed" or last["outcome"] in CONTINUING
    candidates = history[:-1] if needed and state != GONE else history
    for place, one in enumerate(candidates):
        if not one["old"]:
            return candidates[:place]  # without a gap: what stays is the end of the history
    return candidates


async def find_states(store: Store, bound: Bound, keys: Sequence[str]) -> dict[str, str]:
    """The state of each row: ready, running, done, failed or other; a row that does not exist is left out."""
    d, key = store.dialect, f"t.{sql.column(bound.key.name)}"
    valid = [one for one in keys if can_be_key(bound.key, one)]
    cases = " ".join(f"WHEN {bound.queue.condition(state, d)} THEN '{state}'" for state in STATES)
    if d == "postgresql":
        # An array is always looked up in the key's index, whatever the statistics say.
        condition = f"{key} = ANY (ARRAY(SELECT {native_key(bound, 'one')} FROM unnest($1::text[]) AS one))"
        values: list[Any] = [valid]
    else:
        natives = ", ".join(native_key(bound, f"${number}") for number in range(1, len(valid) + 1))
        condition, values = f"{key} IN ({natives})" if valid else "1 = 0", valid
    rows = await store.database.fetch(
        f"""SELECT CAST({key} AS text) AS key, CASE {cases} ELSE 'other' END AS state
FROM {sql.name(bound.queue.table)} AS t WHERE {condition}""",
        *values,
    )
    # A key that its column cannot have (the column's type has changed) is not the key of a row that is gone.
    return {row["key"]: row["state"] for row in rows} | dict.fromkeys(set(keys) - set(valid), "ready")


def _among(column: str, keys: Sequence[str], dialect: sql.Dialect, first: int) -> tuple[str, list[Any]]:
    """The condition that a column is one of these texts, and its values."""
    if dialect == "postgresql":
        return f"{column} = ANY (${first}::text[])", [list(keys)]
    return f"{column} IN ({', '.join(f'${first + number}' for number in range(len(keys)))})", list(keys)
