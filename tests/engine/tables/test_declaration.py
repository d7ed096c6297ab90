"""A queue checked against its table: all problems at once, each with its fix."""

from __future__ import annotations

from typing import Any

import pytest

from tabellion import DeclarationError, Queue, Store
from tests.engine.made_tables import STATES, asynchronous, run, tasks, tasks_queue


async def refusal(store: Store, queue: Queue) -> DeclarationError:
    """The error that binding this queue raises."""
    with pytest.raises(DeclarationError) as caught:
        await store.bind(queue)
    return caught.value


@asynchronous
async def test_a_valid_declaration_is_bound(store: Store) -> None:
    """Key, order and types are known afterwards, and binding again costs nothing."""
    queue = await tasks(store)
    bound = await store.bind(queue)
    assert bound.key.name == "id"
    assert bound.order == (("id", False),)
    assert await store.bind(queue) is bound


@asynchronous
async def test_a_missing_table_is_named(store: Store) -> None:
    """The error names the table that does not exist."""
    error = await refusal(store, Queue("nowhere", **STATES))
    assert "there is no table 'nowhere'" in str(error)


@asynchronous
async def test_an_unknown_column_comes_with_a_suggestion(store: Store) -> None:
    """A misspelled column comes with the right one; an unknown one with the existing ones and the SQL to add it."""
    await tasks(store)
    error = await refusal(store, tasks_queue(worker="workr", order="zzz"))
    text = str(error)
    assert "table 'tasks' has no column 'workr'" in text
    assert "did you mean 'worker'?" in text
    assert 'ALTER TABLE "tasks" ADD COLUMN "zzz"' in text


@asynchronous
async def test_missing_composite_and_non_unique_keys_are_rejected(store: Store) -> None:
    """A row must be identified by one column; the SQL that adds one is offered."""
    await run(
        store,
        "CREATE TABLE bare (status text, code text)",
        "CREATE TABLE pairs (a integer, b integer, status text, PRIMARY KEY (a, b))",
    )
    assert "'bare' has no primary key" in str(await refusal(store, Queue("bare", **STATES)))
    assert "a primary key of 2 columns" in str(await refusal(store, Queue("pairs", **STATES)))
    error = await refusal(store, Queue("bare", key="code", **STATES))
    assert "does not identify a row: the column is not unique" in str(error)
    assert 'CREATE UNIQUE INDEX "bare_code" ON "bare" ("code");' in str(error)


@asynchronous
async def test_the_offered_fix_for_a_key_runs(store: Store) -> None:
    """The statement works on the database it is offered for."""
    await run(store, "CREATE TABLE bare (status text, code text NOT NULL)")
    error = await refusal(store, Queue("bare", key="code", **STATES))
    [problem] = error.problems
    await run(store, problem.fix)
    await store.bind(Queue("bare", key="code", **STATES))


@asynchronous
async def test_rows_without_a_key_do_not_block_the_queue(store: Store) -> None:
    """A unique column may hold NULLs: the rows that have none are skipped."""
    await run(
        store,
        "CREATE TABLE t (id integer PRIMARY KEY, code text UNIQUE, status text)",
        "INSERT INTO t VALUES (1, NULL, 'new'), (2, 'b', 'new')",
    )
    queue = Queue("t", key="code", order="id", **STATES)
    await store.bind(queue)
    assert [job.key for job in await store.claim(queue, 10, "w")] == ["b"]


@pytest.mark.parametrize(
    ("column", "states"),
    [
        ("integer", {"ready": "new", "running": "r", "done": "d", "failed": "f"}),
        ("text", {"ready": 1, "running": 2, "done": 3, "failed": 4}),
        ("integer", {"ready": 1.5, "running": 2, "done": 3, "failed": 4}),
        ("boolean", {"ready": "x", "running": True, "done": "d", "failed": "f"}),
        ("text NOT NULL", {"ready": None, "running": "r", "done": "d", "failed": "f"}),
    ],
)
@asynchronous
async def test_a_state_its_column_cannot_hold_is_rejected(store: Store, column: str, states: dict[str, Any]) -> None:
    """A state's value must fit its column, and a NOT NULL column is never empty."""
    await run(store, f"CREATE TABLE t (id integer PRIMARY KEY, status {column})")
    error = await refusal(store, Queue("t", **states))
    assert "ready says status = " in str(error)


@pytest.mark.parametrize(
    ("column", "ready", "running"),
    [("boolean", 0, 1), ("integer", False, True), ("real", False, True), ("json", '"a"', '"b"'), ("jsonb", "1", "2")],
)
@asynchronous
async def test_a_state_that_is_accepted_can_be_claimed(store: Store, column: str, ready: Any, running: Any) -> None:
    """SQLite compares such values and works with them; PostgreSQL cannot, and the declaration is rejected."""
    await run(
        store,
        f"CREATE TABLE t (id integer PRIMARY KEY, status text, busy {column})",
        f"INSERT INTO t VALUES (1, 'new', {_sql(store, column, ready)})",
    )
    queue = Queue(
        "t",
        ready={"status": "new", "busy": ready},
        running={"busy": running},
        done={"status": "done", "busy": ready},
        failed={"status": "failed", "busy": ready},
    )
    if store.dialect == "postgresql":
        with pytest.raises(DeclarationError):
            await store.bind(queue)
        return
    await store.bind(queue)
    [job] = await store.claim(queue, 1, "w")
    await store.finish(job)
    assert (await store.counts(queue))["done"] == 1


def _sql(store: Store, column: str, value: Any) -> str:
    if store.dialect == "sqlite" or column not in ("boolean", "integer", "real"):
        return f"'{value}'" if isinstance(value, str) else str(int(value))
    return str(bool(value)).upper() if column == "boolean" else str(int(value))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"worker": "n"}, "worker='n' is integer, which cannot hold a worker's id"),
        ({"error": "n"}, "error='n' is integer, which cannot hold an error's text"),
        ({"started_at": "yes"}, "started_at='yes' is boolean, which cannot hold a time"),
        ({"finished_at": "yes"}, "finished_at='yes' is boolean, which cannot hold a time"),
        ({"attempts": "yes"}, "attempts='yes' is boolean, which cannot hold a count"),
        ({"max_attempts": "words"}, "max_attempts='words' is text, not a whole number"),
    ],
)
@asynchronous
async def test_a_mirror_must_fit_its_column(store: Store, options: dict[str, Any], message: str) -> None:
    """A mirror that could not be written is rejected before the first claim."""
    await run(store, "CREATE TABLE t (id integer PRIMARY KEY, status text, n integer, yes boolean, words text)")
    assert message.lower() in str(await refusal(store, Queue("t", **STATES, **options))).lower()


@asynchronous
async def test_a_mirror_that_is_accepted_can_be_written(store: Store) -> None:
    """Every numeric type works through claim, release and retry; a text column cannot count and is rejected."""
    for number, column in enumerate(("integer", "smallint", "numeric(5)", "real", "text", "varchar(5)")):
        await run(
            store,
            f"CREATE TABLE t{number} (id integer PRIMARY KEY, status text, tries {column})",
            f"INSERT INTO t{number} VALUES (1, 'new', NULL)",
        )
        queue = Queue(f"t{number}", **STATES, attempts="tries")
        if column.startswith(("text", "varchar")):
            with pytest.raises(DeclarationError):
                await store.bind(queue)
            continue
        await store.bind(queue)
        [job] = await store.claim(queue, 1, "w")
        await store.release(job)
        [found] = await store.database.fetch(f"SELECT tries FROM t{number}")
        assert int(float(found["tries"])) == 0, column


@asynchronous
async def test_all_problems_are_listed_at_once(store: Store) -> None:
    """One error lists the problems of all queues, each with its fix."""
    await run(store, "CREATE TABLE t (status integer, n integer)")
    one = Queue("t", name="one", **STATES, worker="n", error="eror")
    other = Queue("nowhere", **STATES)
    with pytest.raises(DeclarationError) as caught:
        await store.check([one, other])
    text = str(caught.value)
    assert "queues 'nowhere', 'one' cannot work as declared" in text
    for message in (
        "no column 'eror'",
        "no primary key",
        "ready says status = 'new'",
        "worker='n'",
        "no table 'nowhere'",
    ):
        assert message in text
    assert all(problem.fix for problem in caught.value.problems)


@pytest.mark.parametrize("where", ["nowhere = 1", "id = = 1"])
@asynchronous
async def test_an_invalid_condition_is_rejected(store: Store, where: str) -> None:
    """A `where=` that the database does not understand is reported with the declaration."""
    await tasks(store)
    assert "where" in str(await refusal(store, tasks_queue(where=where)))


@asynchronous
async def test_a_condition_may_end_in_a_comment(store: Store) -> None:
    """A comment in `where=` does not swallow the SQL after it."""
    queue = await tasks(store, 2, where="id > 1 -- not the first")
    assert [job.key for job in await store.claim(queue, 5, "w")] == [2]
    assert (await store.counts(queue))["ready"] == 0


@asynchronous
async def test_the_default_order_starts_with_created_at(store: Store) -> None:
    """Without `order=` rows wait by `created_at` where it exists, then by key."""
    await run(store, "CREATE TABLE t (id integer PRIMARY KEY, status text, created_at timestamp, rank integer)")
    assert (await store.bind(Queue("t", **STATES))).order == (("created_at", False), ("id", False))
    ranked = await store.bind(Queue("t", name="r", **STATES, order="rank DESC"))
    assert ranked.order == (("rank", True), ("id", False))
    assert ranked.order_by() == 't."rank" DESC, t."id"'


@asynchronous
async def test_an_enum_takes_only_its_labels(pg_store: Store) -> None:
    """PostgreSQL: a state that the enum does not have is reported with the labels it has."""
    store = pg_store
    await store.open()
    await run(
        store,
        "CREATE TYPE mood AS ENUM ('new', 'working', 'done')",
        "CREATE TABLE t (id integer PRIMARY KEY, status mood)",
    )
    error = await refusal(store, Queue("t", **STATES))
    assert "failed says status = 'failed', but its type mood allows only new, working, done" in str(error)


@asynchronous
async def test_the_printed_index_can_be_created(store: Store) -> None:
    """`index_ddl` is valid on the database it was written for, and is then recognised."""
    queue = await tasks(store, order="kind DESC, id", name='odd "name\'s"')
    bound = await store.bind(queue)
    assert not bound.has_index()
    ddl = bound.index_ddl()
    assert ddl.startswith("CREATE INDEX CONCURRENTLY" if store.dialect == "postgresql" else "CREATE INDEX")
    await store.database.fetch(ddl)
    fresh = Store(store.url)
    try:
        assert (await fresh.bind(queue)).has_index()
    finally:
        await fresh.close()


@pytest.mark.parametrize(
    ("ddl", "serves"),
    [
        ("CREATE INDEX i ON tasks (id) WHERE status = 'new'", True),
        ("CREATE INDEX i ON tasks (status, id)", True),
        ("CREATE INDEX i ON tasks (status)", False),
        ("CREATE INDEX i ON tasks (id) WHERE status = 'done'", False),
        ("CREATE INDEX i ON tasks (kind) WHERE status = 'new'", False),
    ],
)
@asynchronous
async def test_a_suitable_index_is_recognised(store: Store, ddl: str, serves: bool) -> None:
    """An index counts only if it leads to the ready rows in claim order."""
    queue = await tasks(store)
    await run(store, ddl)
    assert (await store.bind(queue)).has_index() is serves


@pytest.mark.parametrize(
    ("ddl", "serves"),
    [
        ("CREATE INDEX i ON tasks (id) WHERE status = 'new' AND kind = 'pdf'", True),
        ("CREATE INDEX i ON tasks (kind, id) WHERE status = 'new'", True),
        ("CREATE INDEX i ON tasks (kind, status, id)", True),
        ("CREATE INDEX i ON tasks (id) WHERE status = 'new'", False),
        ("CREATE INDEX i ON tasks (kind, id) WHERE status = 'done'", False),
        ("CREATE INDEX i ON tasks (kind, id)", False),
        ("CREATE INDEX i ON tasks (id, kind) WHERE status = 'new'", False),
        ("CREATE INDEX i ON tasks (status, kind, id) WHERE result IS NULL", False),
    ],
)
@asynchronous
async def test_an_index_may_be_suitable_by_its_condition(store: Store, ddl: str, serves: bool) -> None:
    """Columns its condition does not fix come first in the index: one index for the queues of many kinds."""
    queue = await tasks(store, ready={"status": "new", "kind": "pdf"}, running="busy")
    await run(store, ddl)
    assert (await store.bind(queue)).has_index() is serves
