"""The declaration of a queue: a table you already have, and four states of its rows. No I/O."""

from __future__ import annotations

import enum
import inspect
import math
import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict, TypeVar

from tabellion.engine import sql
from tabellion.engine.pace import Pace
from tabellion.engine.sql import Dialect, Scalar, State
from tabellion.errors import DeclarationError, DeclarationProblem

if TYPE_CHECKING:
    from tabellion.engine.job import Job
    from tabellion.engine.store import Store

StateName = Literal["ready", "running", "done", "failed"]
STATES: tuple[StateName, ...] = ("ready", "running", "done", "failed")
MIRRORS = ("worker", "started_at", "finished_at", "done_at", "error", "attempts", "updated_at")
#: Mirrors that show how long a row has been running, the most accurate first.
AGES = ("started_at", "updated_at")

MAX_ATTEMPTS = 4  # the first try and three retries
LEASE = 60.0
TIMEOUT = 3600.0
RETRY_BASE = 10.0
MAX_DEFERRALS = 100
DEADLINE = 86_400.0

HandlerFunction = Callable[[Any], Awaitable[Mapping[str, Any] | None]] | Callable[[Any], Mapping[str, Any] | None]
Function = TypeVar("Function", bound=Callable[..., Any])

_ORDER = re.compile(
    r"^\s*(?:\"(?P<quoted>[^\"]+)\"|(?P<bare>[A-Za-z_]\w*))(?:\s+(?P<way>asc|desc))?\s*$", re.IGNORECASE
)
_UNNAMEABLE = re.compile(r"[,\x00-\x1f\x7f]")


class QueueStates(TypedDict):
    """The four states of a queue, as its declaration has them: `Queue(table, **states)`."""

    ready: Scalar | enum.Enum | State
    running: Scalar | enum.Enum | State
    done: Scalar | enum.Enum | State
    failed: Scalar | enum.Enum | State


class Queue:
    """A table and four states of its rows: ready, running, done, failed.

    A bare value means `{status: value}`; states after `ready` list only what changes. Columns named by
    `worker`, `started_at`, `finished_at`, `done_at`, `error`, `attempts` and `updated_at` are mirrors: kept filled in
    for your own queries. Nothing else of the table is touched, and nothing is added to it.

    >>> invoices = Queue("invoices", ready="new", running="reading", done="read", failed="broken")
    """

    def __init__(
        self,
        table: str,
        *,
        ready: Scalar | enum.Enum | State,
        running: Scalar | enum.Enum | State,
        done: Scalar | enum.Enum | State,
        failed: Scalar | enum.Enum | State,
        name: str | None = None,
        status: str = "status",
        key: str | None = None,
        where: str | None = None,
        failed_where: str | None = None,
        order: str | Sequence[str] | None = None,
        worker: str | None = None,
        started_at: str | None = None,
        finished_at: str | None = None,
        done_at: str | None = None,
        error: str | None = None,
        attempts: str | None = None,
        updated_at: str | None = None,
        updated_at_optional: bool = False,
        keep_error: bool = False,
        renew_mirrors: bool = False,
        max_attempts: int | str = MAX_ATTEMPTS,
        max_crashes: int | None = None,
        lease: float = LEASE,
        timeout: float | None = TIMEOUT,
        retry_base: float = RETRY_BASE,
        waits: Sequence[float] = (),
        max_deferrals: int = MAX_DEFERRALS,
        deadline: float | None = DEADLINE,
        concurrency: int | None = None,
        limit: int | None = None,
        share: float | None = None,
        stale_after: float | None = None,
        uses: str | None = None,
        pace: Pace = (),
        health: float | None = None,
        try_states: bool = True,
    ) -> None:
        self.table = table
        self.name = name or table
        self.status = status
        self.key = key
        self.where = where
        #: Which rows of the failed state are this queue's, where another one on the same table fails into it too.
        self.failed_where = failed_where
        self.order = _parse_order(order)
        self.mirrors: dict[str, str] = {
            mirror: column
            for mirror, column in zip(
                MIRRORS, (worker, started_at, finished_at, done_at, error, attempts, updated_at), strict=True
            )
            if column is not None
        }
        self.updated_at_optional = updated_at_optional  #: whether `updated_at` is left out where the table lacks it
        self.keep_error = keep_error  #: whether a success and a restart leave the last error in its column
        self.renew_mirrors = renew_mirrors  #: whether a renewal of the lease also renews the times in the row
        self.max_attempts = max_attempts
        #: After how many crashes in a row a job fails, where crashes are not counted as attempts.
        self.max_crashes = max_crashes
        self.lease = lease
        self.timeout = timeout
        self.retry_base = retry_base
        self.waits = tuple(waits)  #: seconds before each retry, in place of the doubling of `retry_base`
        self.max_deferrals = max_deferrals
        self.deadline = deadline
        self.concurrency = concurrency
        self.limit = limit
        self.share = share
        self.stale_after = stale_after
        self.uses = uses  #: the gate of the model that its handler calls: while it is closed, nothing is claimed
        self.pace = tuple(pace)  #: most jobs that one worker takes in so many seconds: `[(3, 5.0), (10, 60.0)]`
        self.health = health  #: seconds between two lines about it in a worker's log; None: there are none
        self.try_states = try_states  #: whether every change of state is tried and rolled back before work begins
        #: Rewrites an error before it is stored in the row and the register: `describe(job, error)`.
        self.describe_error: Callable[[Job, str], str] | None = None
        #: Creates tables of ours that its handler writes; called when a worker has found the queue's table.
        self.prepare: Callable[[Store], Awaitable[None]] | None = None
        #: Says what the handler lacks in a table with these columns: `check_columns(columns)`; `doctor` reports it.
        self.check_columns: Callable[[Collection[str]], str | None] | None = None
        self.function: HandlerFunction | None = None
        self.is_async = False  #: whether the handler runs on the event loop; otherwise it gets a thread of its own

        declared = {"ready": ready, "running": running, "done": done, "failed": failed}
        self.changes: dict[StateName, dict[str, Scalar]] = {state: self._columns(declared[state]) for state in STATES}
        ready_columns, running_columns = self.changes["ready"], self.changes["running"]
        #: Each state with all the columns that define it: those of `ready`, then what the state changes.
        self.states: dict[StateName, dict[str, Scalar]] = {
            "ready": dict(ready_columns),
            "running": ready_columns | running_columns,
            "done": ready_columns | running_columns | self.changes["done"],
            "failed": ready_columns | running_columns | self.changes["failed"],
        }
        problems = list(self._problems(order))
        if problems:
            raise DeclarationError(f"queue {self.name!r}", problems)

    def handler(self, function: Function) -> Function:
        """Registers `function` as the handler of this queue's jobs: `@invoices.handler`."""
        if self.function is not None and self.function is not function:
            raise DeclarationError(
                f"queue {self.name!r}",
                [
                    DeclarationProblem(
                        "it already has a handler", "declare a second Queue with its own name= and states"
                    )
                ],
            )
        self.function = function
        self.is_async = inspect.iscoroutinefunction(function)
        return function

    def bounds(self, row: Mapping[str, Any]) -> int:
        """How many attempts this row may have, the first included."""
        if isinstance(self.max_attempts, int):
            return self.max_attempts
        try:
            return int(row[self.max_attempts])
        except (KeyError, TypeError, ValueError):
            return MAX_ATTEMPTS  # SQLite accepts any text in an integer column

    def columns(self) -> set[str]:
        """Every column that the declaration names, including the key if it was declared."""
        columns = set(self.mirrors.values()) | {column for column, _ in self.order or ()}
        for state in self.states.values():
            columns |= set(state)
        if isinstance(self.max_attempts, str):
            columns.add(self.max_attempts)
        if self.key:
            columns.add(self.key)
        return columns

    def mirrors_in(self, columns: Collection[str]) -> dict[str, str]:
        """The mirrors of a table with these columns: all, or without an optional one that it lacks."""
        if not self.updated_at_optional or self.mirrors.get("updated_at") in columns:
            return self.mirrors
        return {mirror: column for mirror, column in self.mirrors.items() if mirror != "updated_at"}

    def condition(self, state: StateName, dialect: Dialect) -> str:
        """The SQL condition that a row `t` is in this state, as it is counted and shown."""
        holds = sql.holds(self.states[state], dialect)
        return f"({holds} AND (\n{self.failed_where}\n))" if state == "failed" and self.failed_where else holds

    def leads_to(self, other: Queue) -> bool:
        """Whether this queue's `done` is the other's `ready`, so that its results are the other's new jobs."""
        return _strip_schema(self.table) == _strip_schema(other.table) and not disjoint(
            self.states["done"], other.states["ready"]
        )

    def __repr__(self) -> str:
        return f"Queue({self.name!r} on {self.table!r})"

    def _columns(self, state: Scalar | enum.Enum | State) -> dict[str, Scalar]:
        if isinstance(state, Mapping):
            return {column: _plain(value) for column, value in state.items()}
        return {self.status: _plain(state)}

    def _problems(self, order: object) -> Iterable[DeclarationProblem]:
        where = f"in Queue({self.table!r}, …)"
        if _UNNAMEABLE.search(self.name):
            yield DeclarationProblem(
                f"the name {self.name!r} has a comma or a control character, and names are listed with commas",
                f"give it another one: name= {where}",
            )
        for state in STATES:
            for column, value in self.changes[state].items():
                if not _is_state_value(value):
                    yield DeclarationProblem(
                        f"{state} says {column} = {value!r}, which is not a number, text, boolean or None"
                        + (" (it has a NUL character)" if isinstance(value, str) else ""),
                        f"write the column's own value {where}",
                    )
            if not self.changes[state]:
                yield DeclarationProblem(f"{state} has no column", f"give {state} a value {where}")
        for index, first in enumerate(STATES):
            for second in STATES[index + 1 :]:
                if not disjoint(self.states[first], self.states[second]):
                    yield DeclarationProblem(
                        f"{first} and {second} match the same rows: both are {format_state(self.states[second])}",
                        f"a value can mean only one state: give {first} or {second} a different one {where}",
                    )
        if order is not None and self.order is None:
            yield DeclarationProblem(
                f"order={order!r} is not a list of columns",
                'write order="priority DESC, created_at" or order=("priority DESC", "created_at")',
            )
        yield from self._mirror_problems()
        yield from self._numbers(where)

    def _mirror_problems(self) -> Iterable[DeclarationProblem]:
        state_columns = {column for state in self.states.values() for column in state}
        for mirror, column in self.mirrors.items():
            if column in state_columns:
                yield DeclarationProblem(
                    f"{mirror}={column!r} is also a state's column",
                    f"name another column for {mirror}, or none",
                )
        shared = [column for column in set(self.mirrors.values()) if list(self.mirrors.values()).count(column) > 1]
        for column in shared:
            yield DeclarationProblem(f"two mirrors write {column!r}", "give each mirror its own column")
        has_age = any(age in self.mirrors_in(()) for age in AGES)
        if self.stale_after is not None and not has_age:
            yield DeclarationProblem(
                "stale_after= requires the time at which a row was started or last changed",
                "name the column: started_at='started_at' or updated_at='updated_at'",
            )
        if self.renew_mirrors and not has_age:
            yield DeclarationProblem(
                "renew_mirrors= requires a time to renew",
                "name the column: started_at='started_at' or updated_at='updated_at'",
            )
        if self.keep_error and "error" not in self.mirrors:
            yield DeclarationProblem("keep_error= requires an error to keep", "name the column: error='error'")

    def _numbers(self, where: str) -> Iterable[DeclarationProblem]:
        positive = {
            "lease": self.lease, "timeout": self.timeout, "retry_base": self.retry_base, "deadline": self.deadline,
            "concurrency": self.concurrency, "limit": self.limit, "share": self.share,
            "stale_after": self.stale_after, "max_attempts": self.max_attempts, "max_crashes": self.max_crashes,
            "health": self.health,
        }  # fmt: skip
        paces = [("pace", number) for pair in self.pace for number in pair]
        for setting, number in [*positive.items(), *(("waits", wait) for wait in self.waits), *paces]:
            if isinstance(number, int | float) and number <= 0:
                yield DeclarationProblem(f"{setting}={number!r} must be above zero", f"correct {setting}= {where}")


def disjoint(state: State, other: State) -> bool:
    """Whether no row can be in both states: some column has two different values."""
    return any(column in other and not same(value, other[column]) for column, value in state.items())


def same(value: Scalar, other: Scalar) -> bool:
    """Equality that keeps 1 and True apart from '1', as a column would."""
    return value == other and isinstance(value, str) == isinstance(other, str)


def format_state(state: State) -> str:
    """A state as people write it: `status = 4 and req_completed = true`."""
    words = {None: "null", True: "true", False: "false"}
    return " and ".join(
        f"{column} = {words[value] if value is None or isinstance(value, bool) else repr(value)}"
        for column, value in state.items()
    )


def check_together(queues: Sequence[Queue]) -> None:
    """Raises a DeclarationError that lists every collision between queues of the same table."""
    problems: list[DeclarationProblem] = []
    for index, queue in enumerate(queues):
        for other in queues[index + 1 :]:
            if queue.name == other.name:
                problems.append(
                    DeclarationProblem(
                        f"two queues are named {queue.name!r}",
                        f"rename one: Queue({other.table!r}, name=…)",
                    )
                )
            elif _strip_schema(queue.table) == _strip_schema(other.table):
                problems += _collisions(queue, other)
    if problems:
        raise DeclarationError("these queues together", problems)


def _collisions(queue: Queue, other: Queue) -> Iterable[DeclarationProblem]:
    for first, second in ((queue, other), (other, queue)):
        for state in STATES:
            if state == "running" and first is other:
                continue
            if not disjoint(first.states["running"], second.states[state]):
                yield DeclarationProblem(
                    f"{format_state(second.states[state])} means {first.name}.running and {second.name}.{state} "
                    f"of table {queue.table!r}",
                    f"give {first.name}.running a value that no other state has",
                )
    overlapping = not disjoint(queue.states["ready"], other.states["ready"])
    if overlapping and (queue.where or "") == (other.where or ""):
        yield DeclarationProblem(
            f"{queue.name}.ready and {other.name}.ready match the same rows of table {queue.table!r}: "
            f"{format_state(other.states['ready'])}",
            "give one of them a different ready state, or distinguish them with where=",
        )


def _strip_schema(table: str) -> str:
    """The table name without the default schema."""
    return table.removeprefix("public.").removeprefix("main.")


def _is_state_value(value: object) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    return "\x00" not in value if isinstance(value, str) else isinstance(value, bool | int | None)


def _plain(value: Any) -> Scalar:
    plain: Scalar = value.value if isinstance(value, enum.Enum) else value
    return plain


def _parse_order(order: str | Sequence[str] | None) -> tuple[tuple[str, bool], ...] | None:
    """Columns with a flag for descending; None when absent or not understood."""
    if order is None:
        return None
    parts = order.split(",") if isinstance(order, str) else list(order)
    parsed: list[tuple[str, bool]] = []
    for part in parts:
        match = _ORDER.match(part)
        if match is None:
            return None
        parsed.append((match["quoted"] or match["bare"], (match["way"] or "").lower() == "desc"))
    return tuple(parsed) or None
