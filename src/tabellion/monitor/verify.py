"""Re-checks the promises of the engine on a live database, without changing anything.

Workers keep running meanwhile. So what looks wrong is looked at again a moment later, and again, and only what is still
the same is reported.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import groupby
from typing import Any, Literal

from tabellion.accounts import audit
from tabellion.delivery import deliveries
from tabellion.engine import sql
from tabellion.engine.attempts_retention import find_states
from tabellion.engine.moves import native_key
from tabellion.engine.recovery import orphans
from tabellion.engine.sql import NOW, Dialect
from tabellion.engine.store import Store
from tabellion.engine.tables.declaration import Bound
from tabellion.engine.tables.primary_key import can_be_key
from tabellion.engine.tables.table import Row
from tabellion.errors import DeclarationError
from tabellion.monitor.histories import RecordedAttempt, judge_history
from tabellion.monitor.view import QueueView

FindingLevel = Literal["violation", "note"]
PAGE = 5000  #: attempts read by one statement
ROWS = 500  #: rows whose files are compared at a time
MOST = 1000  #: findings of one kind in one queue; there may be more
PAUSE, LOOKS = 1.0, 2  #: seconds before a suspect is looked at again, and how often
UNSWEPT = 60.0  #: seconds after the end of a lease; sweeps are more frequent
STUCK = 86_400.0  #: seconds that files of a deleted row may wait to be removed

#: What each kind of finding means; pipelines add their own sentences.
KINDS = {
    "index": "the index that allows one live claim per row is missing or invalid",
    "two_claims": "two live claims of one row",
    "gaps": "claim numbers that skip or repeat",
    "overlaps": "claims that overlap",
    "claimed_early": "retries that were claimed before they were due",
    "swept_early": "claims that were swept before their lease ended",
    "miscounted": "attempts that are counted wrong",
    "half_settled": "attempts with an outcome but no end, or an end but no outcome",
    "out_of_bounds": "running attempts beyond the maximum",
    "unclaimed": "rows that are running although their worker's claim has ended",
    "unswept": "claims that expired and that no worker has ended",
    "outcome_differs": "rows in another final state than their last attempt",
    "foreign": "rows that are running without any claim in the register",
    "audit": "an audit log that was changed",
    "delivery_twice": "two deliveries with one id",
    "leftovers": "files of deleted rows that could not be removed",
}
#: Kinds that an edit by hand or another program can cause: reported, but not a broken promise.
NOTES = ("outcome_differs", "foreign", "leftovers", "unswept")


@dataclass(frozen=True, slots=True)
class Violation:
    """Something that should not be: what, where, and what to do about it."""

    kind: str
    where: str  #: `queue/key`, or a table
    what: str
    fix: str
    level: FindingLevel = "violation"

    @property
    def identity(self) -> tuple[str, str]:
        """What makes it the same one when it is looked at again."""
        return self.kind, self.where


Look = Callable[[Sequence[str] | None], Awaitable[list[Violation]]]  #: of everything, or of these places only


async def verify(store: Store, views: Sequence[QueueView]) -> list[Violation]:
    """Everything that is wrong with the register, the rows of these queues, the audit log and the deliveries."""
    by_name = {view.name: view for view in views}
    found = await _check_index(store)
    found += await confirm(lambda places: _check_histories(store, by_name, places))
    for view in views:
        try:
            bound = await store.bind(view.queue)
        except DeclarationError:
            continue  # not a table of this environment; `tabellion doctor` is about declarations
        found += await confirm(lambda places, bound=bound: _check_rows(store, bound, places))  # type: ignore[misc]
    found += await _check_audit(store)
    found += await _check_deliveries(store)
    return found + await _check_leftovers(store)


async def confirm(look: Look) -> list[Violation]:
    """What a look finds and later looks at the same places find as well."""
    suspects = await look(None)
    for _ in range(LOOKS):
        if not suspects:
            break
        await asyncio.sleep(PAUSE)
        again = {one.identity for one in await look([one.where for one in suspects])}
        suspects = [one for one in suspects if one.identity in again]
    return suspects


# -- the register ------------------------------------------------------------------------------------------------------


async def _check_index(store: Store) -> list[Violation]:
    name = "tabellion_attempts_live"
    if store.dialect == "postgresql":
        rows = await store.database.fetch(
            "SELECT i.indisvalid AND i.indisunique AS valid FROM pg_index AS i WHERE i.indexrelid = to_regclass($1)",
            name,
        )
    else:
        rows = await store.database.fetch(
            "SELECT sql LIKE '%UNIQUE%' AS valid FROM sqlite_master WHERE type = 'index' AND name = $1", name
        )
    if rows and rows[0]["valid"]:
        return []
    fix = (
        f"DROP INDEX IF EXISTS {name}; CREATE UNIQUE INDEX {name} ON tabellion_attempts (queue, key) "
        "WHERE settled_at IS NULL;"
    )
    return [Violation("index", "tabellion_attempts", f"the index {name} is missing, invalid or not unique", fix)]


async def _check_histories(
    store: Store, views: Mapping[str, QueueView], places: Sequence[str] | None
) -> list[Violation]:
    """Judges the history of every row, or of those at `places`."""
    by_kind: dict[tuple[str, str], list[Violation]] = defaultdict(list)
    async for queue, histories in _read_histories(store, places):
        view = views.get(queue)
        found = [
            _violation(kind, queue, key, what, _EXPLAIN.format(queue=queue, key=key))
            for key, history in histories.items()
            for kind, what in judge_history(history, early=view is None or view.people)
        ]
        if view is not None:
            found += await _compare_endings(store, view, histories)
        for one in found:
            # Many of one kind must hide neither another kind nor another queue.
            if len(known := by_kind[queue, one.kind]) < MOST:
                known.append(one)
    return [one for known in by_kind.values() for one in known]


_EXPLAIN = (
    "look at `tabellion explain {queue} {key}`; if no program but tabellion writes its tables, please report this"
)


async def _read_histories(store: Store, places: Sequence[str] | None) -> Any:
    """Yields (queue, attempts by key) for some rows at a time, ordered by queue, key and n."""
    d = store.dialect
    columns = ", ".join(
        f"{sql.epoch(f'a.{one.name}', d)} AS {one.name}" if one.name.endswith(("_at", "_until")) else f"a.{one.name}"
        for one in fields(RecordedAttempt)
    )
    select = f"SELECT a.queue, {columns} FROM tabellion_attempts AS a WHERE"
    if places is not None:
        for place in dict.fromkeys(places):
            queue, _, key = place.partition("/")
            rows = await store.database.fetch(f"{select} a.queue = $1 AND a.key = $2 ORDER BY a.n", queue, key)
            yield queue, {key: [_attempt(row) for row in rows]}
        return
    last: tuple[Any, ...] = ("", "", 0)
    carried: list[dict[str, Any]] = []
    while True:
        rows = await store.database.fetch(
            f"""{select} (a.queue, a.key, a.n) > ($1, $2, {"$3::int" if d == "postgresql" else "$3"})
ORDER BY a.queue, a.key, a.n LIMIT {PAGE}""",
            *last,
        )
        page, carried = carried + rows, []
        if len(rows) == PAGE:  # the last row's history may continue on the next page
            last = (rows[-1]["queue"], rows[-1]["key"], rows[-1]["n"])
            carried = [row for row in page if (row["queue"], row["key"]) == last[:2]]
            page = page[: len(page) - len(carried)]
        for queue, of_queue in groupby(page, key=lambda row: row["queue"]):
            histories: dict[str, list[RecordedAttempt]] = defaultdict(list)
            for row in of_queue:
                histories[row["key"]].append(_attempt(row))
            yield queue, histories
        if len(rows) < PAGE:
            return


def _attempt(row: Mapping[str, Any]) -> RecordedAttempt:
    return RecordedAttempt(**{name: value for name, value in row.items() if name != "queue"})


async def _compare_endings(
    store: Store, view: QueueView, histories: Mapping[str, Sequence[RecordedAttempt]]
) -> list[Violation]:
    """Rows that are failed although their last attempt was done, or done although it failed."""
    try:
        bound = await store.bind(view.queue)
    except DeclarationError:
        return []
    last = {key: history[-1].outcome for key, history in histories.items() if history}
    ended = [key for key, outcome in last.items() if outcome in ("done", "failed", "quarantined", "cancelled")]
    found = []
    for start in range(0, len(ended), 500):
        for key, state in (await find_states(store, bound, ended[start : start + 500])).items():
            if state in ("done", "failed") and (state == "done") is not (last[key] == "done"):
                what = f"the row is {state}, its last attempt ended as {last[key]}"
                fix = "if nobody changed the row by hand, look at `tabellion explain {} {}`"
                found.append(_violation("outcome_differs", view.name, key, what, fix.format(view.name, key)))
    return found


# -- rows --------------------------------------------------------------------------------------------------------------


async def _check_rows(store: Store, bound: Bound, places: Sequence[str] | None) -> list[Violation]:
    """Compares the rows of a queue with their claims."""
    return [
        *await _find_unclaimed(store, bound, places),
        *await _find_unswept(store, bound),
        *await _find_beyond_bounds(store, bound),
    ]


async def _find_unclaimed(store: Store, bound: Bound, places: Sequence[str] | None) -> list[Violation]:
    d, queue = store.dialect, bound.queue
    mirror = bound.mirrors.get("worker")
    worker = f"CAST(t.{sql.column(mirror)} AS text)" if mirror else "NULL"
    key = f"CAST(t.{sql.column(bound.key.name)} AS text)"
    only, values = "", []
    if places is not None:
        values = [value for place in places if can_be_key(bound.key, value := place.partition("/")[2])]
        marks = ", ".join(native_key(bound, f"${number}") for number in range(2, len(values) + 2))
        only = f"AND t.{sql.column(bound.key.name)} IN ({marks})" if values else "AND 1 = 0"
    unclaimed = f"""SELECT {key} AS key, {worker} AS worker,
  (SELECT a.worker FROM tabellion_attempts AS a WHERE a.queue = $1 AND a.key = {key} ORDER BY a.n DESC LIMIT 1) AS last
FROM {sql.name(queue.table)} AS t
WHERE {sql.holds(queue.states["running"], d)} AND {orphans.is_unclaimed(bound)} {only}"""
    rows = await store.database.fetch(f"{unclaimed} LIMIT {MOST}", queue.name, *values)
    if len(rows) == MOST:  # those of other programs must not hide those of our workers
        ours = await store.database.fetch(
            f"SELECT * FROM ({unclaimed}) AS u WHERE u.worker = u.last LIMIT {MOST}", queue.name, *values
        )
        rows = [*ours, *(row for row in rows if row["worker"] is None or row["worker"] != row["last"])]
    found = []
    for row in rows:
        if row["worker"] is not None and row["worker"] == row["last"]:
            what = f"it is running for {row['worker']}, whose claim has ended"
            kind = "unclaimed"
        else:
            what = f"it is running{' for ' + row['worker'] if row['worker'] else ''} without a claim in the register"
            kind = "foreign"
        fix = f"if no other program works on it: tabellion release {queue.name} {row['key']}"
        found.append(_violation(kind, queue.name, row["key"], what, fix))
    return found


async def _find_unswept(store: Store, bound: Bound) -> list[Violation]:
    d, name = store.dialect, bound.queue.name
    rows = await store.database.fetch(
        f"""SELECT key, worker, {sql.epoch(NOW, d)} - {sql.epoch("lease_until", d)} AS ago FROM tabellion_attempts
WHERE queue = $1 AND settled_at IS NULL AND lease_until < {sql.later(repr(-UNSWEPT), d)} LIMIT {MOST}""",
        name,
    )
    return [
        _violation(
            "unswept", name, row["key"],
            f"the claim of {row['worker']} expired {row['ago']:.0f} s ago, and no worker has ended it",
            f"start a worker that works on {name}, or: tabellion release {name} {row['key']}",
        )
        for row in rows
    ]  # fmt: skip


async def _find_beyond_bounds(store: Store, bound: Bound) -> list[Violation]:
    queue = bound.queue
    column = queue.max_attempts if isinstance(queue.max_attempts, str) else None
    rows = await store.database.fetch(
        f"""SELECT key, attempt FROM tabellion_attempts
WHERE queue = $1 AND settled_at IS NULL AND attempt > {queue.max_attempts if column is None else 1}
ORDER BY attempt DESC LIMIT {MOST}""",
        queue.name,
    )
    limits = {} if column is None else await _read_limits(store, bound, column, [row["key"] for row in rows])
    found = []
    for row in rows:
        most = queue.bounds({column: limits.get(row["key"])} if column is not None else {})
        if row["attempt"] > most:
            what = f"attempt {row['attempt']} is running, and max_attempts is {most}"
            fix = f"if max_attempts was not lowered meanwhile: {_EXPLAIN.format(queue=queue.name, key=row['key'])}"
            found.append(_violation("out_of_bounds", queue.name, row["key"], what, fix))
    return found


async def _read_limits(store: Store, bound: Bound, column: str, keys: Sequence[str]) -> dict[str, Any]:
    """The value of `max_attempts` in each of these rows."""
    name = f"t.{sql.column(bound.key.name)}"
    valid = [key for key in keys if can_be_key(bound.key, key)]
    if not valid:
        return {}
    marks = ", ".join(native_key(bound, f"${number}") for number in range(1, len(valid) + 1))
    rows = await store.database.fetch(
        f"""SELECT CAST({name} AS text) AS key, t.{sql.column(column)} AS most
FROM {sql.name(bound.queue.table)} AS t WHERE {name} IN ({marks})""",
        *valid,
    )
    return {row["key"]: row["most"] for row in rows}


# -- the other tables --------------------------------------------------------------------------------------------------


async def _check_audit(store: Store) -> list[Violation]:
    if await store.table("tabellion_audit_log") is None:
        return []
    result = await audit.verify(store)
    if result.whole:
        return []
    fix = "compare with a backup: somebody with rights on the database has changed the log"
    return [Violation("audit", f"tabellion_audit_log/{result.broken}", f"entry {result.broken}: {result.why}", fix)]


async def _check_deliveries(store: Store) -> list[Violation]:
    if not await deliveries.exist(store):
        return []
    rows = await store.database.fetch(
        f"SELECT id, count(*) AS n FROM {deliveries.TABLE} GROUP BY id HAVING count(*) > 1 LIMIT {MOST}"
    )
    fix = "the table has lost its primary key: restore it after deleting the copies"
    return [
        Violation("delivery_twice", f"webhooks/{row['id']}", f"{row['n']} deliveries have this id", fix) for row in rows
    ]


async def _check_leftovers(store: Store) -> list[Violation]:
    rows = await store.database.fetch(
        f"""SELECT rule, count(*) AS n FROM tabellion_leftovers
WHERE due_at < {sql.later(repr(-STUCK), store.dialect)} GROUP BY rule"""
    )
    return [
        _violation(
            "leftovers", "tabellion_leftovers", row["rule"],
            f"files of {row['n']} deleted rows wait to be removed by a worker of {row['rule']}",
            "start a worker of this pipeline, or: tabellion prune",
        )
        for row in rows
    ]  # fmt: skip


def _violation(kind: str, queue: str, key: str, what: str, fix: str) -> Violation:
    return Violation(kind, f"{queue}/{key}", what, fix, "note" if kind in NOTES else "violation")


async def sample_rows(
    store: Store, query: str, key: str, count: int | None, places: Sequence[str] | None
) -> AsyncIterator[Row]:
    """The rows of a query that ends with a condition, one of which is `key > $1`: all in the order of their keys, or
    `count` at random, or those at `places`."""
    sampled = count is not None and places is None
    order = f"random() LIMIT {count}" if sampled else f"{key} LIMIT {ROWS}"
    query, last = f"{query}{only_places(places, key, store.dialect)} ORDER BY {order}", ""
    while rows := await store.database.fetch(query, last):
        for row in rows:
            yield row
        if sampled or len(rows) < ROWS:
            return
        last = rows[-1]["id"]


def only_places(places: Iterable[str] | None, column: str, dialect: Dialect) -> str:
    """The condition that a text column is the key of one of these places; empty for all."""
    if places is None:
        return ""
    keys = ", ".join(sql.literal(place.partition("/")[2], dialect) for place in places)
    return f" AND {column} IN ({keys or 'NULL'})"
