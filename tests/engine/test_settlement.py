"""How a claim ends: what a handler returns is what the row holds."""

from __future__ import annotations

import datetime as dt
import enum
import json
import math
import uuid
from decimal import Decimal
from typing import Any, get_args

import pytest

from tabellion import Queue, Store
from tabellion.engine.settlement import CONTINUING, SHOWN, STATE_OF, Outcome, Settlement, SettlementVerdict
from tabellion.messages import Message
from tests.engine.made_tables import STATES, asynchronous, claim_one, row, run, tasks


class Colour(enum.Enum):
    """An owner's own Enum."""

    RED = "red"


def test_every_outcome_has_a_state() -> None:
    """Each outcome has a state of the row, except those that leave the row as it is."""
    assert set(STATE_OF) | {"superseded", "parked"} == set(get_args(Outcome))
    assert set(SHOWN) < set(CONTINUING) < set(STATE_OF)
    assert all(STATE_OF[outcome] == "ready" for outcome in CONTINUING)


def test_a_verdict_is_accepted_unless_the_claim_was_gone() -> None:
    """A settlement that wrote nothing, or left the owner's row alone, is not accepted."""
    job: Any = object()
    assert SettlementVerdict(job, "done").is_accepted
    assert SettlementVerdict(job, "failed").is_accepted
    assert not SettlementVerdict(job, None).is_accepted
    assert not SettlementVerdict(job, "superseded").is_accepted


UTC = dt.timezone.utc  # noqa: UP017 - datetime is imported under a short name

#: value given, PostgreSQL column, what PostgreSQL holds, SQLite column, what SQLite holds; `...`: the value itself
VALUES: dict[str, tuple[Any, str, Any, str, Any]] = {
    "text": ("plain", "text", ..., "TEXT", ...),
    "unicode": ("żółw 🐢 \u202eabc e\u0301", "text", ..., "TEXT", ...),
    "quotes": ("it's \"x\" \\ $1 :a %s {}\n\t", "text", ..., "TEXT", ...),
    "empty text": ("", "text", ..., "TEXT", ...),
    "long text": ("x" * 300_000, "text", ..., "TEXT", ...),
    "text that looks like JSON": ('{"a": 1}', "text", ..., "TEXT", ...),
    "varchar": ("abc", "varchar(5)", ..., "VARCHAR(5)", ...),
    "int": (-42, "integer", ..., "INTEGER", ...),
    "bigint": (2**62, "bigint", ..., "BIGINT", ...),
    "int as text": (5, "text", "5", "TEXT", "5"),
    "true": (True, "boolean", ..., "BOOLEAN", 1),
    "false": (False, "boolean", ..., "BOOLEAN", 0),
    "float": (0.1, "double precision", ..., "REAL", ...),
    "tiny float": (5e-324, "double precision", ..., "REAL", ...),
    "infinity": (math.inf, "double precision", ..., "REAL", ...),
    "minus infinity": (-math.inf, "double precision", ..., "REAL", ...),
    "decimal": (Decimal("12345678901234567890.0123456789"), "numeric", ..., "TEXT", "12345678901234567890.0123456789"),
    "money": (Decimal("12.50"), "numeric(10,2)", ..., "NUMERIC", 12.5),
    "date": (dt.date(2024, 2, 29), "date", ..., "DATE", "2024-02-29"),
    "time": (dt.time(23, 59, 58), "time", ..., "TEXT", "23:59:58"),
    "naive datetime": (dt.datetime(2024, 2, 29, 1, 2, 3, 456), "timestamp", ..., "TEXT", "2024-02-29 01:02:03.000456"),
    "aware datetime": (
        dt.datetime(2024, 2, 29, 1, 2, 3, tzinfo=dt.timezone(dt.timedelta(hours=2))),
        "timestamptz", ..., "TEXT", "2024-02-29 01:02:03+02:00",
    ),
    "timedelta": (dt.timedelta(days=1, hours=2, seconds=3.5), "interval", ..., "TEXT", "1 day, 2:00:03.500000"),
    "uuid": (uuid.UUID(int=7), "uuid", ..., "TEXT", str(uuid.UUID(int=7))),
    "bytes": (bytes(range(256)), "bytea", ..., "BLOB", ...),
    "no bytes": (b"", "bytea", ..., "BLOB", ...),
    "enum column": ("red", "colour", ..., "TEXT", ...),
    "enum member": (Colour.RED, "colour", "red", "TEXT", "red"),
    "none": (None, "text", ..., "TEXT", ...),
    "none in json": (None, "jsonb", ..., "JSON", ...),
    "array": (["a", "it's", None, "żółw"], "text[]", ..., "TEXT", '["a", "it\'s", null, "żółw"]'),
    "empty array": ([], "text[]", ..., "TEXT", "[]"),
    "tuple": (("a", "b"), "text[]", ["a", "b"], "TEXT", '["a", "b"]'),
    "set": ({"a"}, "text[]", ["a"], "TEXT", '["a"]'),
    "numbers array": ([1, 2], "integer[]", ..., "TEXT", "[1, 2]"),
}  # fmt: skip

JSON: dict[str, Any] = {
    "dict": {"a": [1, 2.5, None, True], "ż": {"x": "🐢"}},
    "list": [1, "two", {"three": 3}],
    "empty dict": {},
    "empty list": [],
    "text": "just a text",
    "text of digits": "5",
    "text of JSON": '{"a": 1}',
    "number": 5,
    "boolean": True,
}


async def round_trip(store: Store, column: str, value: Any) -> Any:
    """Return the value after a finish, as stored in the table."""
    if store.dialect == "postgresql":
        await run(store, "CREATE TYPE colour AS ENUM ('red', 'green')")
    await run(
        store,
        f"CREATE TABLE t (id integer PRIMARY KEY, status text, v {column})",
        "INSERT INTO t (id, status) VALUES (1, 'new')",
    )
    queue = Queue("t", **STATES)
    await store.finish(await claim_one(store, queue), {"v": value})
    found = await row(store, 1, "t")
    assert found["status"] == "done"
    return found["v"]


@pytest.mark.parametrize("kind", VALUES)
@asynchronous
async def test_values_round_trip(store: Store, kind: str) -> None:
    """Every type a handler may return is in the row afterwards, unchanged."""
    value, pg_column, pg_holds, lite_column, lite_holds = VALUES[kind]
    column, holds = (pg_column, pg_holds) if store.dialect == "postgresql" else (lite_column, lite_holds)
    assert await round_trip(store, column, value) == (value if holds is ... else holds)


@asynchronous
async def test_nan_is_kept_where_it_exists(pg_store: Store) -> None:
    """PostgreSQL's floats have NaN; SQLite's do not, and keep NULL."""
    assert math.isnan(await round_trip(pg_store, "double precision", math.nan))


@pytest.mark.parametrize("kind", JSON)
@asynchronous
async def test_json_round_trips(store: Store, kind: str) -> None:
    """What one queue's handler returns for a JSON column is what the next queue's handler gets."""
    for column in ("json", "jsonb"):
        table = f"t_{column}"
        await run(
            store,
            f"CREATE TABLE {table} (id integer PRIMARY KEY, status text, v {column})",
            f"INSERT INTO {table} (id, status) VALUES (1, 'new')",
        )
        first = Queue(table, name=f"{table} first", **STATES)
        second = Queue(table, name=f"{table} second", ready="done", running="w2", done="d2", failed="f2")
        await store.finish(await claim_one(store, first), {"v": JSON[kind]})
        job = await claim_one(store, second)
        assert (job["v"], type(job["v"])) == (JSON[kind], type(JSON[kind]))


@asynchronous
async def test_unusual_values_in_json(store: Store) -> None:
    """Times, decimals, ids and bytes inside a dict are written as texts."""
    value = {"at": dt.date(2024, 1, 1), "cost": Decimal("1.50"), "id": uuid.UUID(int=1), 3: "number"}
    found = await round_trip(store, "json", value)
    assert json.loads(found) == {"at": "2024-01-01", "cost": "1.50", "id": str(uuid.UUID(int=1)), "3": "number"}


class Unspeakable:
    """Its `str()` raises."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


def endless() -> dict[str, Any]:
    """A dict that contains itself."""
    value: dict[str, Any] = {}
    value["again"] = value
    return value


@pytest.mark.parametrize(
    "values",
    [
        {"small": "not a number"},
        {"small": 2**70},
        {"small": enum.Enum},
        {"result": "lone \ud800 surrogate"},
        {"result": {("a", "b"): 1}},
        {"result": endless()},
        {"result": [Unspeakable()]},
        {1: "x"},
        {None: "x"},
        {"": "x"},
        {"result; DROP TABLE tasks": "x"},
    ],
    ids=lambda values: ascii(next(iter(values.items())))[:40],
)
@asynchronous
async def test_a_result_that_cannot_be_written_fails_its_own_job(store: Store, values: Any) -> None:
    """Whatever a handler returns, only its own job fails, with a reason; the rest of the batch is accepted."""
    queue = await tasks(store, 3)
    jobs = await store.claim(queue, 3, "w")
    sound = {"result": "x"} if "result" in values else {"small": 1}
    verdicts = await store.settle([Settlement(job, "done", values if job.key == 2 else sound) for job in jobs])
    assert {verdict.job.key: verdict.outcome for verdict in verdicts} == {1: "done", 2: "failed", 3: "done"}
    failed = await row(store, 2)
    assert failed["status"] == "failed"
    assert "the result could not be written: " in failed["error"]
    assert len(failed["error"]) > len("the result could not be written: ")


@asynchronous
async def test_a_nul_in_a_text(pg_store: Store) -> None:
    """PostgreSQL has no NUL in texts: that job fails with the reason, the rest of the batch is accepted."""
    queue = await tasks(pg_store, 3)
    jobs = await pg_store.claim(queue, 3, "w")
    verdicts = await pg_store.settle(
        [Settlement(job, "done", {"result": "a\x00b" if job.key == 2 else "x"}) for job in jobs]
    )
    assert {verdict.job.key: verdict.outcome for verdict in verdicts} == {1: "done", 2: "failed", 3: "done"}
    found = await row(pg_store, 2)
    assert "\\u0000 cannot be converted to text" in found["error"]


@asynchronous
async def test_a_nul_in_a_text_on_sqlite(sqlite_store: Store) -> None:
    """SQLite stores a NUL: the text is written whole."""
    queue = await tasks(sqlite_store, 1)
    await sqlite_store.finish(await claim_one(sqlite_store, queue), {"result": "a\x00b"})
    assert (await row(sqlite_store))["result"] == "a\x00b"


@pytest.mark.parametrize("cost", [Decimal("0.25"), 1, 0.5, None])
@asynchronous
async def test_a_cost_of_any_number_is_kept(store: Store, cost: Any) -> None:
    """Prices are often decimals; the register keeps them."""
    queue = await tasks(store, 1)
    job = await claim_one(store, queue)
    job.cost = cost
    [verdict] = await store.settle([Settlement(job, "done")])
    assert verdict.outcome == "done"
    [found] = await store.database.fetch("SELECT cost FROM tabellion_attempts")
    assert found["cost"] == (None if cost is None else float(cost))


@asynchronous
async def test_a_long_error_is_cut(store: Store) -> None:
    """A page-long traceback does not fill the register."""
    queue = await tasks(store, 1)
    await store.fail(await claim_one(store, queue), "x" * 100_000)
    [found] = await store.database.fetch("SELECT error FROM tabellion_attempts")
    assert 1000 < len(found["error"]) <= 10_000


@asynchronous
async def test_forbidden_extra_statements_fail_their_own_job(pg_store: Store, role: str) -> None:
    """PostgreSQL: a role that may not run a statement of `also` loses that job, not the whole environment."""
    queue = await tasks(pg_store, 2)
    await run(
        pg_store,
        "CREATE TABLE secrets (n integer)",
        f"GRANT USAGE ON SCHEMA public TO {role}",
        "GRANT SELECT, INSERT, UPDATE ON tasks, tabellion_attempts, tabellion_queues, tabellion_workers, "
        f"tabellion_counts TO {role}",
        f"GRANT SELECT ON tabellion_schema TO {role}",
    )
    store = Store(pg_store.url.replace("postgres@", f"{role}@"))
    try:
        jobs = await store.claim(queue, 2, "w")
        jobs[0].also("INSERT INTO secrets VALUES (1)")
        verdicts = await store.settle([Settlement(job, "done") for job in jobs])
    finally:
        await store.close()
    assert {verdict.job.key: verdict.outcome for verdict in verdicts} == {1: "failed", 2: "done"}
    assert "permission denied" in (await row(pg_store, 1))["error"]


@asynchronous
async def test_the_register_keeps_the_code_of_an_error(store: Store) -> None:
    """With its parameters; an error without a code in the same batch keeps its text alone."""
    queue = await tasks(store, 3)
    first, second, third = await store.claim(queue, 3, "w")
    message = Message("attempt.timed_out", n=5.0)
    endings = [Settlement(first, "failed", error=message), Settlement(second, "failed", error="plain")]
    await store.settle([*endings, Settlement(third, "failed", error="own", form={"code": "too_large", "params": {}})])
    found = await store.database.fetch("SELECT error, error_code, error_params FROM tabellion_attempts ORDER BY key")
    assert [(row["error"], row["error_code"], json.loads(row["error_params"] or "null")) for row in found] == [
        ("timed out after 5 s", "attempt.timed_out", {"n": 5.0}), ("plain", None, None), ("own", "too_large", None),
    ]  # fmt: skip


@asynchronous
async def test_a_queue_may_write_errors_its_own_way(store: Store) -> None:
    """It is called once, however often the settlement is retried; the code stays."""
    queue = await tasks(store, 1)
    queue.describe_error = lambda job, error: f"<{job.attempt}: {error}>"
    ending = Settlement(await claim_one(store, queue), "failed", error=Message("attempt.timed_out", n=5))
    ending.write_error(1000)
    await store.settle([ending])
    [found] = await store.database.fetch("SELECT error, error_code FROM tabellion_attempts")
    assert (found["error"], found["error_code"]) == ("<1: timed out after 5 s>", "attempt.timed_out")
