"""Explains in sentences why a row is not running."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypedDict

from tabellion.engine import register_tables, sql
from tabellion.engine.control_rows import read_controls
from tabellion.engine.database import Database, read_clock
from tabellion.engine.gates.stored_state import describe_closure
from tabellion.engine.moves import extra_condition, native_key
from tabellion.engine.queue import STATES, Queue, format_state
from tabellion.engine.sql import NOW
from tabellion.engine.tables.declaration import Bound
from tabellion.engine.tables.table import Row
from tabellion.engine.worker_rows import read_workers
from tabellion.errors import NotMigrated

HISTORY = 20
LINE_SHOWN = 10_000


class PastAttempt(TypedDict):
    """An attempt of the register, with its times as seconds from now."""

    n: int
    attempt: int
    worker: str
    outcome: str | None
    error: str | None
    note: str | None
    cost: float | None
    claimed_ago: float
    settled_ago: float | None
    lease_ago: float
    due_in: float | None


@dataclass(frozen=True, slots=True)
class Explanation:
    """The state of one row in one queue, explained."""

    queue: str
    key: str
    state: str  #: ready, running, parked, done, failed, elsewhere or missing
    sentences: list[str]
    history: list[PastAttempt] = field(default_factory=list)


async def explain(database: Database, bound: Bound, key: Any) -> Explanation:
    """Reads the row, the register, the controls and the live workers, and explains what blocks the row."""
    queue = bound.queue
    row = await _row(database, bound, str(key))
    try:
        history = await _history(database, queue, str(key))
    except NotMigrated:
        return _without_register(bound, str(key), row)
    if row is None:
        return Explanation(queue.name, str(key), "missing", [_describe_missing(bound, key)], history)
    state = _state(row)
    last = history[0] if history else None
    if state == "running" and last and last["outcome"] == "parked":
        state, sentences = "parked", _explain_parked(queue, key, last)
    elif state == "ready":
        sentences = await _explain_ready(database, bound, row, last)
    elif state == "running":
        sentences = _explain_running(bound, key, last)
    elif state == "failed":
        sentences = _explain_failed(queue, key, last)
    elif state == "done":
        sentences = [f"It is done: {format_state(queue.states['done'])}."]
        if last and last["outcome"] == "done":
            sentences.append(
                f"{last['worker']} finished it {_ago(last['settled_ago'])} ago, on attempt {last['attempt']}."
            )
    else:
        sentences = [
            _describe_elsewhere(queue, row),
            f"To be claimed, it must be {format_state(queue.states['ready'])}.",
        ]
    return Explanation(queue.name, str(key), state, sentences, history)


def _state(row: Row) -> str:
    return next((state for state in STATES if row[f"is_{state}"]), "elsewhere")


def _describe_missing(bound: Bound, key: Any) -> str:
    return f"There is no row with {bound.key.name} = {key} in {bound.queue.table}."


def _describe_elsewhere(queue: Queue, row: Row) -> str:
    now = {column: row["row"].get(column) for column in queue.states["ready"]}
    return f"It is in none of this queue's states: {format_state(now)}."


def _without_register(bound: Bound, key: str, row: Row | None) -> Explanation:
    """The explanation from the table alone, where no worker has created the register yet."""
    queue, state = bound.queue, "missing" if row is None else _state(row)
    if state == "missing" or row is None:
        sentence = _describe_missing(bound, key)
    elif state == "elsewhere":
        sentence = _describe_elsewhere(queue, row)
    else:
        sentence = f"It is {state}: {format_state(queue.states[state])}."  # type: ignore[index]
    return Explanation(
        queue.name, key, state, [sentence, f"{register_tables.MISSING[0].upper()}{register_tables.MISSING[1:]}."]
    )


async def _explain_ready(database: Database, bound: Bound, row: Row, last: PastAttempt | None) -> list[str]:
    queue = bound.queue
    sentences = [f"It is ready: {format_state(queue.states['ready'])}."]
    if not row["passes"]:
        sentences.append(f"It does not meet the queue's condition: {queue.where}.")
    if last and last["outcome"] is None:
        sentences.append(
            f"It was set to ready by its owner while {last['worker']} held it; that claim ends at its next renewal "
            f"or in {max(0.0, -last['lease_ago']):.0f} s, and only then can the row be claimed again."
        )
    elif last and last["due_in"] is not None and last["due_in"] > 0:
        sentences.append(
            f"Attempt {last['attempt']} {_outcome_words(last['outcome'])} {_ago(last['settled_ago'])} ago "
            f"({last['error'] or 'no error text'}); it is due again in {_ago(last['due_in'])}."
        )
    control = (await read_controls(database)).get(queue.name)
    if control and control["paused_at"] is not None:
        paused_for = await read_clock(database) - control["paused_at"]
        why = f" ({control['reason']})" if control["reason"] else ""
        sentences.append(f"The queue has been paused for {_ago(paused_for)}{why}: `tabellion resume {queue.name}`.")
    if queue.uses is not None:
        closed = await describe_closure(database, queue.uses)
        if closed:
            sentences.append(f"Gate {queue.uses!r} is closed: {closed}. See `tabellion gates {queue.uses}`.")
    limit = control["running_limit"] if control and control["running_limit"] is not None else queue.limit
    running = await _count_running(database, queue)
    if limit is not None and running >= limit:
        sentences.append(f"{running} jobs of this queue are running and its limit for all workers together is {limit}.")
    alive = [worker for worker in await read_workers(database) if queue.name in worker["queues"].split(",")]
    if not alive:
        sentences.append("No live worker serves this queue: start one with `tabellion worker`.")
    elif all(worker["busy"] >= worker["slots"] for worker in alive):
        busy = sum(worker["busy"] for worker in alive)
        sentences.append(f"All {len(alive)} workers of this queue are full: {busy} jobs in their slots.")
    if len(sentences) == 1:
        ahead = await _count_ahead(database, bound, row)
        count = f"{ahead} or more" if ahead >= LINE_SHOWN else str(ahead)
        sentences.append(
            "Nothing blocks it: it is next in the queue." if not ahead else f"{count} ready rows are ahead of it."
        )
    return sentences


def _explain_running(bound: Bound, key: Any, last: PastAttempt | None) -> list[str]:
    queue = bound.queue
    if last is None or last["outcome"] is not None:
        stale = (
            f"it is taken over {_ago(queue.stale_after)} after its {' or '.join(bound.age_columns())}"
            if queue.stale_after is not None
            else "declare stale_after= to take over such rows"
        )
        return [
            f"It is running ({format_state(queue.states['running'])}), but no claim of it is in the register: "
            f"a worker outside tabellion holds it or has abandoned it; {stale}.",
            f"Once nobody works on it, `tabellion release {queue.name} {key}` puts it back to ready.",
        ]
    sentences = [
        f"It is running: {last['worker']} claimed it {_ago(last['claimed_ago'])} ago, attempt {last['attempt']}.",
    ]
    if last["note"]:
        sentences.append(f"Last note: {last['note']}.")
    if last["lease_ago"] > 0:
        sentences.append(f"Its lease expired {_ago(last['lease_ago'])} ago: the next sweep of any worker releases it.")
    else:
        sentences.append(f"Its lease is valid for another {_ago(-last['lease_ago'])}.")
    return sentences


def _explain_parked(queue: Queue, key: Any, last: PastAttempt) -> list[str]:
    return [
        f"It is parked: attempt {last['attempt']} ended {_ago(last['settled_ago'])} ago, and the database rejected its "
        f"failed state; the row is unchanged ({format_state(queue.states['running'])}).",
        f"Error: {last['error']}.",
        f"No worker touches it. Fix what rejects the state (`tabellion doctor`), then `tabellion retry {queue.name} "
        f"{key}` to retry it, or `tabellion cancel {queue.name} {key}` to fail it.",
    ]


def _explain_failed(queue: Queue, key: Any, last: PastAttempt | None) -> list[str]:
    sentences = [f"It has failed: {format_state(queue.states['failed'])}."]
    if last is not None and last["outcome"] is not None:
        # A row that was cancelled while it waited was never attempted.
        which = f"Attempt {last['attempt']}" if last["attempt"] else "It"
        sentences.append(
            f"{which} {_outcome_words(last['outcome'])} {_ago(last['settled_ago'])} ago: "
            f"{last['error'] or 'no error text'}."
        )
    else:
        sentences.append("The register has no attempt of it: this state was not set by tabellion.")
    sentences.append(f"Retry it with `tabellion retry {queue.name} {key}`; all counters are reset.")
    return sentences


async def _row(database: Database, bound: Bound, key: str) -> Row | None:
    queue, d = bound.queue, database.dialect
    tests = ", ".join(
        f"CASE WHEN {sql.holds(queue.states[state], d)} THEN 1 ELSE 0 END AS is_{state}" for state in STATES
    )
    passes = f"CASE WHEN (\n{queue.where}\n) THEN 1 ELSE 0 END" if queue.where else "1"
    rows = await database.fetch(
        f"""SELECT t.*, {tests}, {passes} AS passes FROM {sql.name(queue.table)} AS t
WHERE t.{sql.column(bound.key.name)} = {native_key(bound, "$1")}""",
        key,
    )
    if not rows:
        return None
    extra = {name: rows[0][name] for name in (*(f"is_{state}" for state in STATES), "passes")}
    return extra | {"row": rows[0]}


async def _history(database: Database, queue: Queue, key: str) -> list[PastAttempt]:
    d = database.dialect

    def ago(column: str) -> str:
        return f"{sql.epoch(NOW, d)} - {sql.epoch(column, d)}"

    return await database.fetch(
        f"""SELECT n, attempt, worker, outcome, error, note, cost, {ago("claimed_at")} AS claimed_ago,
{ago("settled_at")} AS settled_ago, {ago("lease_until")} AS lease_ago, -({ago("retry_at")}) AS due_in
FROM tabellion_attempts WHERE queue = $1 AND key = $2 ORDER BY n DESC LIMIT {HISTORY}""",
        queue.name,
        key,
    )


async def _count_running(database: Database, queue: Queue) -> int:
    rows = await database.fetch(
        "SELECT count(*) AS n FROM tabellion_attempts WHERE queue = $1 AND settled_at IS NULL", queue.name
    )
    return int(rows[0]["n"])


async def _count_ahead(database: Database, bound: Bound, row: Row) -> int:
    """How many rows that meet the queue's condition come before this one, judged by the first column of the order."""
    queue = bound.queue
    column, descending = bound.order[0]
    value = row["row"][column]
    if value is None:
        return 0
    first, tie = f"t.{sql.column(column)}", sql.column(bound.key.name)
    sign = ">" if descending else "<"
    rows = await database.fetch(
        f"""SELECT count(*) AS n FROM (SELECT 1 FROM {sql.name(queue.table)} AS t
WHERE {sql.holds(queue.states["ready"], database.dialect)} {extra_condition(bound)}
  AND ({first} {sign} $1 OR {first} = $1 AND t.{tie} < $2) LIMIT {LINE_SHOWN}) AS f""",
        value,
        row["row"][bound.key.name],
    )
    return int(rows[0]["n"])


def _outcome_words(outcome: str | None) -> str:
    words = {
        "limited": "was rate limited",
        "released": "was released",
        "retried": "failed",
        "failed": "failed",
        "crashed": "crashed",
    }
    return words.get(outcome or "", f"was {outcome}")


def _ago(seconds: float | None) -> str:
    """Seconds as a duration in words."""
    if seconds is None:
        return "some time"
    for size, unit in ((86_400, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= size * 2:
            return f"{seconds / size:.0f} {unit}s"
    return f"{max(seconds, 0):.0f} s"
