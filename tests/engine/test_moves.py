"""What the moves write into the owner's row: states and mirrors, on tables of every kind."""

from __future__ import annotations

import datetime as dt
import itertools
import uuid
from typing import Any

import pytest

from tabellion import DeclarationError, Queue, Store
from tabellion.engine import controls
from tabellion.engine.settlement import Settlement
from tabellion.testing import Clock
from tests.engine.made_tables import STATES, asynchronous, attempts, claim_one, outcomes, row, rows, run, tasks


def mirrors(found: dict[str, Any]) -> dict[str, Any]:
    """Return the mirror columns of a row; times as whether there is one."""
    return {
        "status": found["status"], "worker": found["worker"], "attempts": found["attempts"], "error": found["error"],
        "started": found["started_at"] is not None, "finished": found["finished_at"] is not None,
    }  # fmt: skip


CLAIMED = {"status": "working", "worker": "w1", "attempts": 1, "error": None, "started": True, "finished": False}


@asynchronous
async def test_mirrors_at_claim(store: Store) -> None:
    """The mirrors say which worker, since when, and which attempt."""
    queue = await tasks(store, 1)
    await claim_one(store, queue)
    assert mirrors(await row(store)) == CLAIMED


@asynchronous
async def test_mirrors_at_finish(store: Store) -> None:
    """The worker and the count stay as a record, an earlier error is cleared, the end has a time."""
    queue = await tasks(store, 1)
    await store.retry(await claim_one(store, queue), 0, "boom")
    await store.finish(await claim_one(store, queue), {"result": "x"})
    assert mirrors(await row(store)) == CLAIMED | {"status": "done", "attempts": 2, "finished": True}


@asynchronous
async def test_mirrors_at_fail(store: Store) -> None:
    """The error column holds the reason."""
    queue = await tasks(store, 1)
    await store.fail(await claim_one(store, queue), "bad")
    assert mirrors(await row(store)) == CLAIMED | {"status": "failed", "error": "bad", "finished": True}


@asynchronous
async def test_mirrors_at_retry(store: Store) -> None:
    """No worker holds the row; the error and the spent attempt are visible."""
    queue = await tasks(store, 1)
    await store.retry(await claim_one(store, queue), 0, "boom")
    assert mirrors(await row(store)) == {
        "status": "new", "worker": None, "attempts": 1, "error": "boom", "started": False, "finished": False,
    }  # fmt: skip


@pytest.mark.parametrize("move", ["release", "defer"])
@asynchronous
async def test_mirrors_at_release_and_deferral(store: Store, move: str) -> None:
    """The mirrors look as before the claim: the count goes back, an earlier error stays."""
    queue = await tasks(store, 1)
    await store.retry(await claim_one(store, queue), 0, "boom")
    job = await claim_one(store, queue)
    assert (await row(store))["attempts"] == 2
    await (store.release(job) if move == "release" else store.defer(job, 0, "429"))
    assert mirrors(await row(store)) == {
        "status": "new", "worker": None, "attempts": 1, "error": "boom", "started": False, "finished": False,
    }  # fmt: skip


@asynchronous
async def test_mirrors_at_crash_and_quarantine(store: Store, clock: Clock) -> None:
    """A crash spends an attempt and leaves its evidence; a quarantine is final."""
    queue = await tasks(store, 1, lease=60)
    for expected in (
        {"status": "new", "worker": None, "attempts": 1, "started": False, "finished": False},
        {"status": "failed", "worker": "w1", "attempts": 2, "started": True, "finished": True},
    ):
        await claim_one(store, queue)
        clock.advance(61)
        await store.sweep(queue)
        found = mirrors(await row(store))
        assert "w1" in found.pop("error")
        assert found == expected


@asynchronous
async def test_mirrors_at_cancel(store: Store) -> None:
    """A cancelled job is failed with the reason and an end time, whether it was waiting or running."""
    queue = await tasks(store, 2)
    await claim_one(store, queue)
    assert await controls.cancel(store, queue, 1, "not wanted")
    assert await controls.cancel(store, queue, 2, "not wanted")
    running, waiting = [mirrors(found) for found in await rows(store)]
    assert running == CLAIMED | {"status": "failed", "error": "not wanted", "finished": True}
    assert waiting == {
        "status": "failed", "worker": None, "attempts": 0, "error": "not wanted", "started": False, "finished": True,
    }  # fmt: skip


@asynchronous
async def test_a_returned_value_wins_over_a_mirror(store: Store) -> None:
    """What the handler returns for a mirrored column is written."""
    queue = await tasks(store, 1)
    await store.finish(await claim_one(store, queue), {"worker": "me", "error": "a warning", "attempts": 9})
    found = await row(store)
    assert (found["worker"], found["error"], found["attempts"]) == ("me", "a warning", 9)


@asynchronous
async def test_no_other_column_is_written(store: Store) -> None:
    """Without mirrors only the state's columns change, whatever happens to the job."""
    await tasks(store, 1)
    await run(store, "UPDATE tasks SET worker = 'mine', error = 'mine', attempts = 7, kind = 'k', result = 'r'")
    queue = Queue("tasks", name="bare", **STATES)
    before = await row(store)
    job = await claim_one(store, queue)
    assert await row(store) == before | {"status": "working"}
    await store.retry(job, 0, "boom")
    assert await row(store) == before
    await store.fail(await claim_one(store, queue), "bad")
    assert await row(store) == before | {"status": "failed"}


@pytest.mark.parametrize(
    "column",
    [
        "timestamp",
        "timestamp with time zone",
        "timestamp(0)",
        "date",
        "text",
        "varchar(40)",
        "bigint",
        "double precision",
    ],
)
@asynchronous
async def test_times_in_columns_of_any_type(store: Store, clock: Clock, column: str) -> None:
    """A start is written in the column's type, and `stale_after` reads it back."""
    await run(
        store,
        f"CREATE TABLE t (id integer PRIMARY KEY, status text, began {column}, ended {column})",
        "INSERT INTO t (id, status) VALUES (1, 'new')",
    )
    stale = 3 * 86_400 if column == "date" else 100
    queue = Queue("t", **STATES, started_at="began", finished_at="ended", stale_after=stale)
    await claim_one(store, queue)
    await run(store, "UPDATE tabellion_attempts SET settled_at = claimed_at, outcome = 'released'")
    clock.advance(stale / 2)
    assert await store.take_over(queue) == 0
    clock.advance(stale)
    assert await store.take_over(queue) == 1
    await store.finish(await claim_one(store, queue))
    found = await row(store, 1, "t")
    assert found["began"] is not None
    assert found["ended"] is not None
    if column == "timestamp" and store.dialect == "postgresql":
        assert found["ended"] == dt.datetime.fromtimestamp(clock.at, dt.timezone.utc).replace(tzinfo=None)  # noqa: UP017


@asynchronous
async def test_an_error_is_cut_to_its_column(store: Store, clock: Clock) -> None:
    """`varchar(20)` takes the first 20 characters, emoji included; the register keeps the whole text."""
    await run(
        store,
        "CREATE TABLE t (id integer PRIMARY KEY, status text, why varchar(20))",
        *(f"INSERT INTO t (id, status) VALUES ({key}, 'new')" for key in range(1, 6)),
    )
    queue = Queue("t", **STATES, error="why", lease=60)
    long = "🐢" * 30
    one, two, three, _ = await store.claim(queue, 4, "w")
    await store.fail(one, long)
    await store.retry(two, 1e6, long)
    assert await controls.cancel(store, queue, three.key, long)
    assert await controls.cancel(store, queue, 5, long)
    clock.advance(61)
    await store.sweep(queue)
    found = await rows(store, "t")
    assert [r["why"] for r in found if r["id"] != 4] == ["🐢" * 20] * 4
    assert len(found[3]["why"]) == 20
    assert (await attempts(store, 1))[0]["error"] == long


@asynchronous
async def test_a_worker_id_is_cut_to_its_column(store: Store) -> None:
    """A long id in a short column must not stop every claim of the queue."""
    await run(
        store,
        "CREATE TABLE t (id integer PRIMARY KEY, status text, who varchar(10))",
        "INSERT INTO t (id, status) VALUES (1, 'new')",
    )
    queue = Queue("t", **STATES, worker="who")
    job = await claim_one(store, queue, "worker-host.example.org-123456-89abcdef")
    assert (await row(store, 1, "t"))["who"].startswith("worker-hos")
    assert (await attempts(store))[0]["worker"] == "worker-host.example.org-123456-89abcdef"
    await store.finish(job)


# -- tables of every kind ----------------------------------------------------------------------------------------------


async def run_all_moves(store: Store, queue: Queue, clock: Clock, values: dict[str, Any] | None = None) -> None:
    """Take a row through every move."""
    await store.release(await claim_one(store, queue))
    await store.defer(await claim_one(store, queue), 0, "429")
    await store.retry(await claim_one(store, queue), 0, "boom")
    job = await claim_one(store, queue)
    assert await store.renew([job]) == []
    clock.advance(queue.lease + 1)
    [swept] = await store.sweep(queue)
    assert swept.job.text_key == job.text_key
    job = await claim_one(store, queue)
    assert job.attempt == 3
    assert await controls.cancel(store, queue, job.text_key)
    assert await controls.restart(store, queue, [job.text_key]) == 1
    explanation = await store.explain(queue, job.text_key)
    assert explanation.state == "ready"
    job = await claim_one(store, queue)
    assert (job.attempt, job.n) == (1, 6)
    [verdict] = await store.settle([Settlement(job, "done", values or {})])
    assert verdict.outcome == "done"
    assert await store.counts(queue) == {"ready": 0, "running": 0, "done": 1, "failed": 0}
    assert await store.foreign(queue) == 0


COLUMNS = 'key text, n integer, "outcome" text, token text, queue text, attempt integer, note text, error text,'
COLUMNS += " settled_at text, passes integer, is_ready text"


@asynchronous
async def test_columns_named_like_those_of_the_register(store: Store, clock: Clock) -> None:
    """A table with columns called key, n, outcome, token… works like any other."""
    await run(
        store,
        f"CREATE TABLE t (id integer PRIMARY KEY, status text, {COLUMNS})",
        "INSERT INTO t (id, status, key, n, outcome, passes) VALUES (1, 'new', 'k', 5, 'mine', 3)",
    )
    queue = Queue("t", **STATES, where="n > 3 AND key = 'k' AND outcome = 'mine'", order="n DESC, token")
    given = {
        "key": "K",
        "n": 6,
        "outcome": "theirs",
        "token": "T",
        "queue": "Q",
        "attempt": 8,
        "note": "N",
        "error": "E",
    }
    await run_all_moves(store, queue, clock, given)
    found = await row(store, 1, "t")
    assert {column: found[column] for column in given} == given


@pytest.mark.parametrize(
    ("table", "key", "status"),
    [
        ("camelCase", "jobId", "statusCode"),
        ("with space", "the key", "the status"),
        ('quo"ted', 'k"ey', "sta'tus"),
        ("select", "order", "group"),
        ("żółw", "ключ", "状態"),
        ("percent%s", "a$1", "b:name"),
        ("back\\slash", "a?1", "{status}"),
    ],
)
@asynchronous
async def test_unusual_identifiers(store: Store, clock: Clock, table: str, key: str, status: str) -> None:
    """Capitals, spaces, quotes, reserved words and special characters work."""

    def quoted(name: str) -> str:
        return '"' + name.replace('"', '""') + '"'

    await run(
        store,
        f'CREATE TABLE {quoted(table)} ({quoted(key)} integer PRIMARY KEY, {quoted(status)} text, "Re sult" text)',
        f"INSERT INTO {quoted(table)} ({quoted(key)}, {quoted(status)}) VALUES (1, 'new')",
    )
    await run_all_moves(store, Queue(table, status=status, **STATES), clock, {"Re sult": "x"})
    [found] = await store.database.fetch(f"SELECT * FROM {quoted(table)}")
    assert found["Re sult"] == "x"


@pytest.mark.parametrize("table", ["a", "c", "j", "l", "r", "t", "u", "v"])
@asynchronous
async def test_tables_with_one_letter_names(store: Store, clock: Clock, table: str) -> None:
    """A table may have the same name as an alias in our statements."""
    await run(
        store,
        f"CREATE TABLE {table} (id integer PRIMARY KEY, status text, note text)",
        f"INSERT INTO {table} VALUES (1, 'new', NULL)",
    )
    await run_all_moves(store, Queue(table, **STATES), clock, {"note": "x"})


@asynchronous
async def test_a_table_in_a_schema(pg_store: Store, clock: Clock) -> None:
    """PostgreSQL: a qualified name works beside a table of the same name elsewhere."""
    store = pg_store
    await store.open()
    await run(
        store,
        "CREATE SCHEMA work",
        "CREATE TYPE work.state AS ENUM ('new', 'working', 'done', 'failed')",
        "CREATE TABLE work.jobs (id uuid PRIMARY KEY, status work.state, tags text[])",
        "CREATE TABLE jobs (id integer PRIMARY KEY, status text)",
        "INSERT INTO jobs VALUES (1, 'new')",
    )
    queue = Queue("work.jobs", **STATES)
    await store.add(queue, id=uuid.UUID(int=5))
    await run_all_moves(store, queue, clock, {"tags": ["a"]})
    assert (await row(store, 1, "jobs"))["status"] == "new"
    await store.database.fetch((await store.bind(queue)).index_ddl())


@asynchronous
async def test_the_main_schema_of_sqlite(sqlite_store: Store, clock: Clock) -> None:
    """SQLite: `main.tasks` is the table `tasks`."""
    await run(sqlite_store, "CREATE TABLE t (id integer PRIMARY KEY, status text)", "INSERT INTO t VALUES (1, 'new')")
    await run_all_moves(sqlite_store, Queue("main.t", **STATES), clock)


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("text", "it's/a key"),
        ("varchar(40)", "7"),
        ("char(5)", "ab"),
        ("uuid", str(uuid.UUID(int=9))),
        ("bigint", 2**60),
        ("numeric(20)", 12),
        ("date", "2024-02-29"),
    ],
)
@asynchronous
async def test_keys_of_any_type(store: Store, clock: Clock, column: str, value: Any) -> None:
    """The register stores keys as text and finds the row again, whatever the key's type."""
    literal = f"'{value.replace(chr(39), chr(39) * 2)}'" if isinstance(value, str) else str(value)
    await run(
        store,
        f"CREATE TABLE t (id {column} PRIMARY KEY, status text, most integer)",
        f"INSERT INTO t VALUES ({literal}, 'new', NULL)",
    )
    await run_all_moves(store, Queue("t", **STATES), clock)
    assert {attempt["key"] for attempt in await attempts(store)} == {str(value)}


@pytest.mark.parametrize("column", ["text", "uuid", "bigint"])
@asynchronous
async def test_a_rows_own_max_attempts_is_found_by_any_key(store: Store, clock: Clock, column: str) -> None:
    """A sweep reads `max_attempts="column"` of the right row, whatever the key's type."""
    value = 7 if column == "bigint" else f"'{uuid.UUID(int=9)}'"
    await run(
        store,
        f"CREATE TABLE t (id {column} PRIMARY KEY, status text, most integer)",
        f"INSERT INTO t VALUES ({value}, 'new', 1)",
    )
    queue = Queue("t", **STATES, max_attempts="most", lease=60)
    await claim_one(store, queue)
    clock.advance(61)
    [swept] = await store.sweep(queue)
    assert swept.outcome == "failed"


@asynchronous
async def test_a_unique_column_as_the_key(store: Store, clock: Clock) -> None:
    """`key=` names another unique column; the primary key is not used."""
    await run(
        store,
        "CREATE TABLE t (a integer, b integer, code text NOT NULL UNIQUE, status text, PRIMARY KEY (a, b))",
        "INSERT INTO t VALUES (1, 2, 'x-1', 'new')",
    )
    await run_all_moves(store, Queue("t", key="code", **STATES), clock)
    assert {attempt["key"] for attempt in await attempts(store)} == {"x-1"}


@asynchronous
async def test_a_key_of_bytes(store: Store) -> None:
    """Ids stored as bytes are rejected: they have no plain text form."""
    column = "bytea" if store.dialect == "postgresql" else "BLOB"
    await run(store, f"CREATE TABLE t (id {column} PRIMARY KEY, status text)")
    with pytest.raises(DeclarationError, match=f"the key 'id' is {column}, which has no plain text form"):
        await store.bind(Queue("t", **STATES))


@asynchronous
async def test_another_key_of_a_table_with_ids_of_bytes(store: Store) -> None:
    """The fix that the error offers: rows are identified by another unique column."""
    column = "bytea" if store.dialect == "postgresql" else "BLOB"
    await run(store, f"CREATE TABLE t (id {column} PRIMARY KEY, code text NOT NULL UNIQUE, status text)")
    queue = Queue("t", key="code", **STATES)
    await store.add(queue, id=bytes(range(240, 256)), code="a")
    await store.finish(await claim_one(store, queue))
    assert [(found["code"], found["status"]) for found in await rows(store, "t")] == [("a", "done")]


@asynchronous
async def test_a_not_null_domain_elsewhere_in_the_table(pg_store: Store, clock: Clock) -> None:
    """PostgreSQL: a NOT NULL domain elsewhere in the table does not block a result."""
    store = pg_store
    await store.open()
    await run(
        store,
        "CREATE DOMAIN present AS text NOT NULL",
        "CREATE DOMAIN positive AS integer CHECK (VALUE > 0)",
        "CREATE TABLE t (id integer PRIMARY KEY, status text, owner present, n positive, result text)",
        "INSERT INTO t VALUES (1, 'new', 'me', 1, NULL)",
    )
    await run_all_moves(store, Queue("t", **STATES), clock, {"result": "x"})


@asynchronous
async def test_generated_and_identity_columns(store: Store, clock: Clock) -> None:
    """Columns filled in by the database are left to it."""
    await run(
        store,
        """CREATE TABLE t (id integer PRIMARY KEY, status text, n integer,
  twice integer GENERATED ALWAYS AS (n * 2) STORED)""",
        "INSERT INTO t (id, status, n) VALUES (1, 'new', 1)",
    )
    await run_all_moves(store, Queue("t", **STATES), clock, {"n": 4})
    assert (await row(store, 1, "t"))["twice"] == 8


@asynchronous
async def test_a_partitioned_table(pg_store: Store, clock: Clock) -> None:
    """PostgreSQL: a row in a partition is found through its parent."""
    store = pg_store
    await store.open()
    await run(
        store,
        "CREATE TABLE t (id integer PRIMARY KEY, status text, result text) PARTITION BY RANGE (id)",
        "CREATE TABLE t_1 PARTITION OF t FOR VALUES FROM (1) TO (100)",
        "INSERT INTO t VALUES (1, 'new', NULL)",
    )
    await run_all_moves(store, Queue("t", **STATES), clock, {"result": "x"})


# -- the seeds' tables -------------------------------------------------------------------------------------------------


@asynchronous
async def test_the_extraction_queue_of_seed_001(store: Store) -> None:
    """Extraction's done is OCR's ready; each writes its own columns, and `error_message` is never touched by OCR."""
    await run(
        store,
        """CREATE TABLE extraction_queue (id text PRIMARY KEY, status_id integer NOT NULL DEFAULT 1,
  created_at timestamp,
  worker_id text, processing_started_at timestamp with time zone, error_message text, file_path text,
  ocr_worker_id text, ocr_started_at timestamp with time zone, ocr_error text, ocr_attempts integer DEFAULT 0,
  ocr_max_attempts integer DEFAULT 3, ocr_text text)""",
        """INSERT INTO extraction_queue (id, created_at) VALUES ('doc-b', '2024-01-02'), ('doc-a', '2024-01-03'),
  ('doc-c', '2024-01-01')""",
        "UPDATE extraction_queue SET error_message = 'old' WHERE id = 'doc-a'",
    )
    extraction = Queue(
        "extraction_queue", name="extraction", status="status_id", ready=1, running=2, done=3, failed=4,
        worker="worker_id", started_at="processing_started_at",
    )  # fmt: skip
    ocr = Queue(
        "extraction_queue", name="ocr", status="status_id", lease=600, ready=3, running=6, done=5, failed=4,
        worker="ocr_worker_id", started_at="ocr_started_at", error="ocr_error", attempts="ocr_attempts",
        max_attempts="ocr_max_attempts",
    )  # fmt: skip
    await store.check([extraction, ocr])
    jobs = await store.claim(extraction, 3, "unified-1")
    assert [job.key for job in jobs] == ["doc-c", "doc-b", "doc-a"]
    assert await store.claim(ocr, 3, "ocr-1") == []
    await store.settle([Settlement(job, "done", {"file_path": f"/{job.key}.pdf"}) for job in jobs])
    read, failed, retried = await store.claim(ocr, 3, "ocr-1")
    assert read["file_path"] == "/doc-c.pdf"
    assert {r["status_id"] for r in await rows(store, "extraction_queue")} == {6}
    await store.finish(read, {"ocr_text": "words"})
    await store.fail(failed, "Invalid PDF")
    await store.retry(retried, 5, "API rate limit")
    found = {r["id"]: r for r in await rows(store, "extraction_queue")}
    assert [(one["status_id"], one["ocr_error"], one["ocr_attempts"]) for _, one in sorted(found.items())] == [
        (3, "API rate limit", 1), (4, "Invalid PDF", 1), (5, None, 1),
    ]  # fmt: skip
    assert found["doc-a"]["error_message"] == "old"
    assert found["doc-c"]["worker_id"] == "unified-1"
    assert (await store.counts(extraction))["done"] == 1
    assert await outcomes(store, "doc-c") == ["done", "done"]


@asynchronous
async def test_the_search_sessions_of_seed_001(store: Store) -> None:
    """Two columns make a state: both are queried and both are written."""
    await run(
        store,
        """CREATE TABLE search_sessions (id integer PRIMARY KEY, status text, req_completed boolean NOT NULL,
  created_at timestamp, data text)""",
        """INSERT INTO search_sessions VALUES (1, 'pending_company_selection', false, '2024-01-01', NULL),
  (2, 'pending_company_selection', true, '2024-01-01', NULL),
  (3, 'pending_company_selection', false, '2024-01-02', NULL)""",
    )
    queue = Queue(
        "search_sessions",
        ready={"status": "pending_company_selection", "req_completed": False},
        running="scraping_company_data",
        done={"status": "pending_name_selection", "req_completed": True},
        failed="failed",
    )
    first, second = await store.claim(queue, 9, "w")
    await store.finish(first, {"data": "x"})
    await store.release(second)
    found = [(r["status"], bool(r["req_completed"])) for r in await rows(store, "search_sessions")]
    assert found == [
        ("pending_name_selection", True), ("pending_company_selection", True), ("pending_company_selection", False),
    ]  # fmt: skip
    [job] = await store.claim(queue, 9, "w")
    await store.fail(job, "bad")
    assert [r["status"] for r in await rows(store, "search_sessions")][2] == "failed"


@asynchronous
async def test_the_in_progress_flag_of_seed_002(store: Store, clock: Clock) -> None:
    """Three phases over one status and one boolean: a row passes through them, and a crash goes back one step only."""
    await run(
        store,
        'CREATE TABLE jobs (id integer PRIMARY KEY, status text, "inProgress" boolean NOT NULL)',
        "INSERT INTO jobs VALUES (1, 'not-started', false)",
    )
    names = ["not-started", "prompt-forming", "model-analysis", "completed"]
    phases = [
        Queue(
            "jobs", name=start, lease=300, ready={"status": start, "inProgress": False}, running={"inProgress": True},
            done={"status": following, "inProgress": False}, failed={"status": "failed", "inProgress": False},
        )
        for start, following in itertools.pairwise(names)
    ]  # fmt: skip
    for number, phase in enumerate(phases):
        assert [len(await store.claim(other, 1, "w")) for other in phases if other is not phase] == [0, 0]
        job = await claim_one(store, phase)
        if number == 1:
            clock.advance(301)
            assert [swept.outcome for swept in await store.sweep(phase)] == ["crashed"]
            found = await row(store, 1, "jobs")
            assert (found["status"], bool(found["inProgress"])) == ("prompt-forming", False)
            job = await claim_one(store, phase)
        await store.finish(job)
    found = await row(store, 1, "jobs")
    assert (found["status"], bool(found["inProgress"])) == ("completed", False)
