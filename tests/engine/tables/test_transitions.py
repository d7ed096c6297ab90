"""Every change of state is tried on a real row before work begins, and rolled back."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from tabellion import DeclarationError, Queue, Store
from tabellion.engine.tables.transitions import check_transitions, try_transitions
from tabellion.errors import Busy, DeclarationProblem
from tabellion.testing import Clock
from tests.engine.conftest import EmptyDatabases, store_on
from tests.engine.made_tables import STATES, asynchronous, attempts, claim_one, row, rows, run, tasks, tasks_queue

ILLEGAL = "illegal change of state"


@pytest.fixture(params=["sqlite", "postgresql", "postgresql-15", "pooled"])
def store(request: pytest.FixtureRequest, empty_database: EmptyDatabases, tmp_path: Path, clock: Clock) -> Store:
    """A store on every supported database, using the test's clock."""
    return store_on(request.param, empty_database, tmp_path, clock)


async def problems(store: Store, queue: Queue) -> list[DeclarationProblem]:
    """Return what the table refuses to this queue."""
    return await check_transitions(store.database, await store.bind(queue))


async def joined(store: Store, queue: Queue) -> str:
    """All problems as one text."""
    return "\n".join(map(str, await problems(store, queue)))


async def refuse(store: Store, when: str, table: str = "tasks") -> None:
    """Create a trigger that refuses changes matching a condition on OLD and NEW."""
    if store.dialect == "sqlite":
        await run(
            store,
            f"CREATE TRIGGER guard BEFORE UPDATE ON {table} WHEN {when} BEGIN SELECT RAISE(ABORT, '{ILLEGAL}'); END",
        )
        return
    await run(
        store,
        f"""CREATE FUNCTION guard() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN IF {when} THEN RAISE EXCEPTION '{ILLEGAL}'; END IF; RETURN NEW; END $$""",
        f"CREATE TRIGGER guard BEFORE UPDATE ON {table} FOR EACH ROW EXECUTE FUNCTION guard()",
    )


async def small(store: Store, status: str, *, filled: bool = True, more: str = "") -> Queue:
    """Create a table whose status column is declared like this."""
    await store.open()
    await run(store, f"CREATE TABLE jobs (id integer PRIMARY KEY, status {status}{more})")
    if filled:
        await run(store, "INSERT INTO jobs (id, status) VALUES (1, 'new')")
    return Queue("jobs", **STATES)


# -- problems ------------------------------------------------------------------------------------------------------


@asynchronous
async def test_a_valid_table_has_no_problem_and_stays_unchanged(store: Store) -> None:
    """Nothing of the trial is kept, neither in the row nor in the register."""
    queue = await tasks(store, 3)
    before = await rows(store)
    assert await problems(store, queue) == []
    assert await rows(store) == before
    assert await attempts(store) == []


@pytest.mark.parametrize("filled", [True, False], ids=["a row", "empty"])
@asynchronous
async def test_a_check_that_lists_other_values(store: Store, filled: bool) -> None:
    """Each refused state is named with the column and the constraint's text, with rows or without."""
    queue = await small(store, "text CHECK (status IN ('new', 'working', 'finished'))", filled=filled)
    text = await joined(store, queue)
    assert "done says status = 'done', but" in text
    assert "failed says status = 'failed', but" in text
    assert "finished" in text
    assert "running says" not in text
    assert len(await problems(store, queue)) == 2
    assert all(problem.fix for problem in await problems(store, queue))


@pytest.mark.parametrize("filled", [True, False], ids=["a row", "empty"])
@asynchronous
async def test_a_status_that_references_a_table_of_states(store: Store, filled: bool) -> None:
    """A missing value is named, with the table that lacks it."""
    await store.open()
    await run(
        store,
        "CREATE TABLE states (id integer PRIMARY KEY, label text)",
        "INSERT INTO states VALUES (1, 'new'), (2, 'working'), (3, 'done')",
        "CREATE TABLE jobs (id integer PRIMARY KEY, status_id integer REFERENCES states (id))",
    )
    if filled:
        await run(store, "INSERT INTO jobs VALUES (1, 1)")
    queue = Queue("jobs", status="status_id", ready=1, running=2, done=3, failed=9)
    [problem] = await problems(store, queue)
    assert problem.what == "failed says status_id = 9, but status_id must be in states.id, where there is no 9"


@pytest.mark.parametrize("state", ["running", "done", "failed", "ready"])
@asynchronous
async def test_a_trigger_that_refuses_a_state(store: Store, state: str) -> None:
    """The state is named with the trigger's own message."""
    queue = await tasks(store, 1)
    value = STATES[state]
    await refuse(store, f"NEW.status = '{value}' AND OLD.status <> '{value}'")
    text = await joined(store, queue)
    assert f"{state} says status = '{value}'" in text
    assert ILLEGAL in text
    assert "try_states=False" in text
    if store.dialect == "postgresql":
        assert "raised in function guard" in text
    others = {one for one in STATES if one != state}
    assert not [one for one in others if f"{one} says" in text]


@asynchronous
async def test_a_trigger_that_undoes_the_change(store: Store) -> None:
    """A row that does not stay running could never be settled: reported, although nothing raised."""
    queue = await tasks(store, 1)
    if store.dialect == "sqlite":
        await run(
            store,
            """CREATE TRIGGER undo AFTER UPDATE ON tasks WHEN NEW.status = 'working'
BEGIN UPDATE tasks SET status = 'WORKING' WHERE id = NEW.id; END""",
        )
    else:
        await run(
            store,
            """CREATE FUNCTION undo() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN IF NEW.status = 'working' THEN NEW.status := 'WORKING'; END IF; RETURN NEW; END $$""",
            "CREATE TRIGGER undo BEFORE UPDATE ON tasks FOR EACH ROW EXECUTE FUNCTION undo()",
        )
    assert "after the change the row is status = 'WORKING'" in await joined(store, queue)


@asynchronous
async def test_a_mirror_that_the_table_refuses(store: Store) -> None:
    """The trial writes the mirrors too: a rule on one of them is found."""
    await store.open()
    await run(
        store,
        """CREATE TABLE jobs (id integer PRIMARY KEY, status text,
  error text CONSTRAINT known CHECK (error IN ('a', 'b')))""",
        "INSERT INTO jobs VALUES (1, 'new', NULL)",
    )
    text = await joined(store, Queue("jobs", **STATES, error="error"))
    assert "failed says status = 'failed', but" in text
    assert "known" in text
    assert "done says" not in text


@asynchronous
async def test_a_column_the_result_fills_in_is_not_a_problem(store: Store) -> None:
    """`done` may need a column that only the result fills in: reported as a doubt, and the queue works."""
    queue = await small(
        store, "text", more=", result text, CONSTRAINT whole CHECK (status <> 'done' OR result IS NOT NULL)"
    )
    bound = await store.bind(queue)
    [doubt] = await try_transitions(store.database, bound)
    assert (doubt.state, doubt.stops_work) == ("done", False)
    assert "whole" in doubt.problem.what
    assert await problems(store, queue) == []
    await store.check([queue])
    await store.finish(await claim_one(store, queue), {"result": "x"})
    assert (await row(store, table="jobs"))["status"] == "done"


@asynchronous
async def test_a_trigger_on_result_columns_is_not_a_problem(store: Store) -> None:
    """A trigger that looks at columns of the result is a doubt; one that looks at the state only is a problem."""
    queue = await tasks(store, 1)
    await refuse(store, "NEW.status = 'done' AND NEW.result IS NULL")
    [doubt] = await try_transitions(store.database, await store.bind(queue))
    assert (doubt.state, doubt.stops_work) == ("done", False)


@asynchronous
async def test_a_refused_manual_move_does_not_stop_a_worker(store: Store) -> None:
    """A failed row that may not restart, a waiting one that may not be cancelled: reported, and work continues."""
    queue = await tasks(store, 1)
    await refuse(store, "OLD.status = 'failed' OR OLD.status = 'new' AND NEW.status = 'failed'")
    refusals = await try_transitions(store.database, await store.bind(queue))
    assert {(one.state, one.stops_work) for one in refusals} == {("ready", False), ("failed", False)}
    assert await problems(store, queue) == []


@asynchronous
async def test_a_refusal_of_a_single_row_does_not_stop_a_worker(store: Store) -> None:
    """A trigger that refuses few rows does not stop the worker."""
    queue = await tasks(store, 5)
    await refuse(store, "NEW.id = 1 AND NEW.status = 'failed'")
    assert await problems(store, queue) == []


@asynchronous
async def test_a_unique_index_that_concerns_two_rows(store: Store) -> None:
    """One running row per kind: that another one runs now says nothing about the state."""
    queue = await tasks(store, 2)
    await run(
        store,
        "UPDATE tasks SET kind = 'a'",
        "UPDATE tasks SET status = 'working' WHERE id = 1",
        "CREATE UNIQUE INDEX one_at_a_time ON tasks (kind) WHERE status = 'working'",
    )
    assert await problems(store, queue) == []


@pytest.mark.parametrize("status", ["failed", "working", "done", "elsewhere"])
@asynchronous
async def test_a_row_in_any_state_is_used(store: Store, status: str) -> None:
    """Where no row is ready, another one is made ready first."""
    queue = await tasks(store, 1)
    await run(store, f"UPDATE tasks SET status = '{status}'")
    before = await rows(store)
    assert await problems(store, queue) == []
    await refuse(store, "NEW.status = 'failed' AND OLD.status = 'working'")
    assert "failed says status = 'failed'" in await joined(store, queue)
    assert await rows(store) == before


@asynchronous
async def test_an_empty_table_is_judged_by_its_constraints(store: Store) -> None:
    """Without a row nothing can be tried, and nothing is invented."""
    queue = await tasks(store)
    await refuse(store, "NEW.status = 'failed'")
    assert await problems(store, queue) == []


@asynchronous
async def test_the_trial_can_be_disabled(store: Store) -> None:
    """`try_states=False` touches no row; what the catalog says still counts."""
    await tasks(store, 1)
    await refuse(store, "NEW.status = 'failed'")
    assert await problems(store, tasks_queue(try_states=False)) == []
    await run(
        store, "CREATE TABLE jobs (id integer PRIMARY KEY, status text CHECK (status IN ('new', 'done', 'failed')))"
    )
    [problem] = await problems(store, Queue("jobs", **STATES, try_states=False))
    assert problem.what.startswith("running says status = 'working'")


@asynchronous
async def test_a_column_that_ignores_case(sqlite_store: Store) -> None:
    """SQLite: a CHECK on a column with its own collation is left to the trial."""
    store = sqlite_store
    queue = await small(store, "text COLLATE NOCASE CHECK (status IN ('NEW', 'WORKING', 'DONE', 'FAILED'))")
    assert await problems(store, queue) == []


@asynchronous
async def test_a_trigger_that_ends_the_transaction(sqlite_store: Store) -> None:
    """SQLite: after RAISE(ROLLBACK) nothing more is tried, since it would be kept."""
    store = sqlite_store
    queue = await tasks(store, 1)
    await run(
        store,
        """CREATE TRIGGER guard BEFORE UPDATE ON tasks WHEN NEW.status = 'done'
BEGIN SELECT RAISE(ROLLBACK, 'no way'); END""",
    )
    before = await rows(store)
    assert "done says status = 'done', but running → done is refused: no way" in await joined(store, queue)
    assert await rows(store) == before


# -- PostgreSQL only -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("filled", [True, False], ids=["a row", "empty"])
@asynchronous
async def test_a_check_of_a_domain(pg_store: Store, filled: bool) -> None:
    """A domain's CHECK is reported like any other, on an empty table too."""
    store = pg_store
    await store.open()
    await run(store, "CREATE DOMAIN state AS text CHECK (VALUE IN ('new', 'working', 'done'))")
    queue = await small(store, "state", filled=filled)
    [problem] = await problems(store, queue)
    assert "failed says status = 'failed', but value for domain state violates check constraint" in problem.what


@asynchronous
async def test_a_column_that_is_too_short(pg_store: Store) -> None:
    """varchar(n) rejects a longer state at the declaration."""
    queue = await small(pg_store, "varchar(6)")
    with pytest.raises(DeclarationError) as caught:
        await pg_store.bind(queue)
    assert "running says status = 'working', but the column is character varying(6), which is too short" in str(
        caught.value
    )


@asynchronous
async def test_a_deferred_constraint_is_checked_in_the_trial(pg_store: Store) -> None:
    """A constraint trigger that would only fire at the commit fires now."""
    store = pg_store
    queue = await tasks(store, 1)
    await run(
        store,
        """CREATE FUNCTION late() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN IF NEW.status = 'failed' THEN RAISE EXCEPTION 'not at the commit'; END IF; RETURN NULL; END $$""",
        """CREATE CONSTRAINT TRIGGER late AFTER UPDATE ON tasks DEFERRABLE INITIALLY DEFERRED
FOR EACH ROW EXECUTE FUNCTION late()""",
    )
    assert "not at the commit" in await joined(store, queue)


@asynchronous
async def test_a_missing_right(pg_store: Store) -> None:
    """The role may not change the table: the problem says so, with the GRANT."""
    store = pg_store
    queue = await tasks(store, 1)
    bound = await store.bind(queue)
    await run(
        store,
        "DROP ROLE IF EXISTS reader",
        "CREATE ROLE reader LOGIN",
        "GRANT USAGE ON SCHEMA public TO reader",
        "GRANT SELECT ON tasks TO reader",
    )
    reader = Store(store.url.replace("postgres@", "reader@"))
    try:
        await reader.database.open()
        [problem] = await check_transitions(reader.database, bound)
        assert "permission denied for table tasks" in problem.what
        assert problem.fix == 'GRANT SELECT, UPDATE ON "tasks" TO the worker\'s role;'
        await run(store, "GRANT UPDATE ON tasks TO reader", "ALTER TABLE tasks ENABLE ROW LEVEL SECURITY")
        await run(
            store,
            "CREATE POLICY see ON tasks FOR SELECT TO reader USING (true)",
            "CREATE POLICY change ON tasks FOR UPDATE TO reader USING (true) WITH CHECK (status <> 'failed')",
        )
        [problem, *_] = await check_transitions(reader.database, bound)
        assert "row-level security" in problem.what
        assert problem.fix == 'give the worker\'s role a policy FOR UPDATE on "tasks" that allows it'
    finally:
        await reader.close()
        await run(store, "DROP OWNED BY reader", "DROP ROLE reader")


@asynchronous
async def test_a_locked_row_is_not_waited_for(pg_store: Store) -> None:
    """Locked rows are skipped; where all are locked, the trial says so, and the store tries again at its next check."""
    store = pg_store
    queue = await tasks(store, 2)
    await refuse(store, "NEW.status = 'failed'")
    other = await asyncpg.connect(store.url)
    try:
        async with other.transaction():
            await other.execute("SELECT 1 FROM tasks WHERE id = 1 FOR UPDATE")
            assert len(await problems(store, queue)) > 0
            await other.execute("SELECT 1 FROM tasks FOR UPDATE")
            with pytest.raises(Busy, match="other sessions use every row of tasks"):
                await problems(store, queue)
            await store.check([queue])
        with pytest.raises(DeclarationError, match="failed says"):
            await store.check([queue])
    finally:
        await other.close()


@asynchronous
@pytest.mark.parametrize("tried", ["the same queue", "a queue that follows", "a queue of other rows"])
async def test_a_trial_changes_no_order_under_a_limit(pg_store: Store, tried: str) -> None:
    """While a starting worker tries the first row in line, a claim under a limit waits for that row."""
    queue = await tasks(pg_store, 2, limit=1)
    states: dict[str, Any] = {"running": "checking", "done": "checked", "failed": "refused"}
    queues = {
        "the same queue": queue,
        "a queue that follows": Queue("tasks", name="following", ready="done", **states),
        "a queue of other rows": Queue("tasks", name="others", ready="new", where="id > 2", **states),
    }
    await run(
        pg_store,
        """CREATE FUNCTION dawdle() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN IF NEW.status IN ('working', 'checking') THEN PERFORM pg_sleep(0.5); END IF; RETURN NEW; END $$""",
        "CREATE TRIGGER dawdle BEFORE UPDATE ON tasks FOR EACH ROW EXECUTE FUNCTION dawdle()",
    )
    async with Store(pg_store.url) as other:
        trial = asyncio.create_task(problems(pg_store, queues[tried]))
        async with asyncio.timeout(10):
            while not await other.database.fetch("SELECT 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep'"):
                await asyncio.sleep(0.005)
        [job] = await other.claim(queue, 1, "other")
        assert job.key == 1
        assert await trial == []


@asynchronous
async def test_a_trial_notifies_nobody(pg_store: Store) -> None:
    """A NOTIFY in a trigger is rolled back with the rest."""
    store = pg_store
    queue = await tasks(store, 1)
    await run(
        store,
        """CREATE FUNCTION shout() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN PERFORM pg_notify('shouts', NEW.status); RETURN NULL; END $$""",
        "CREATE TRIGGER shout AFTER UPDATE ON tasks FOR EACH ROW EXECUTE FUNCTION shout()",
    )
    notifications: list[Any] = []
    other = await asyncpg.connect(store.url)
    try:
        await other.add_listener("shouts", lambda *arguments: notifications.append(arguments[-1]))
        assert await problems(store, queue) == []
        await run(store, "UPDATE tasks SET status = 'end'")
        async with asyncio.timeout(5):
            while not notifications:
                await asyncio.sleep(0.01)
        assert notifications == ["end"]
    finally:
        await other.close()


# -- when it is tried ----------------------------------------------------------------------------------------------


@asynchronous
async def test_a_worker_does_not_start_on_a_table_that_refuses_a_state(store: Store) -> None:
    """`check` lists all problems of all queues."""
    queue = await tasks(store, 1)
    await refuse(store, "NEW.status = 'failed'")
    await run(
        store, "CREATE TABLE jobs (id integer PRIMARY KEY, status text CHECK (status IN ('new', 'working', 'done')))"
    )
    with pytest.raises(DeclarationError) as caught:
        await store.check([queue, Queue("jobs", **STATES)])
    text = str(caught.value)
    assert "queues 'jobs', 'tasks' cannot work as declared" in text
    assert ILLEGAL in text
    assert "CHECK" in text


@asynchronous
async def test_the_states_are_tried_once(store: Store) -> None:
    """A worker that reconnects does not try again; one that was refused does."""
    queue = await tasks(store, 1)
    await store.check([queue])
    await refuse(store, "NEW.status = 'failed'")
    await store.check([queue])
    with pytest.raises(DeclarationError):
        await Store.check(store, [tasks_queue(name="other")])
    await run(store, "DROP TRIGGER guard" + (" ON tasks" if store.dialect == "postgresql" else ""))
    await store.check([tasks_queue(name="other")])
