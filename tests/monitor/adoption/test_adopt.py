"""From a table to the declaration of its queue: what is guessed, what is asked, what the table refuses."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tabellion import Queue, Store
from tabellion.errors import ConfigurationError, DeclarationError
from tabellion.monitor.adoption.adopt import Adoption, propose_declaration
from tabellion.monitor.adoption.status_column import parse_listed_values, plain

KEYS = {"sqlite": "INTEGER PRIMARY KEY", "postgresql": "serial PRIMARY KEY"}
TIMES = {"sqlite": "TIMESTAMP", "postgresql": "timestamptz"}


def dialect(url: str) -> str:
    """Return which database it is."""
    return url.partition(":")[0]


def run(url: str, *statements: str) -> None:
    """Run statements of the table's owner; KEY and TIME are this database's types."""

    async def work() -> None:
        store = Store(url)
        try:
            for text in statements:
                await store.database.fetch(text.replace("KEY", KEYS[dialect(url)]).replace("TIME", TIMES[dialect(url)]))
        finally:
            await store.close()

    asyncio.run(work())


def adopted(url: str, table: str = "jobs", **options: Any) -> Adoption:
    """Return the proposal for the table, without changing anything."""

    async def work() -> Adoption:
        store = Store(url, read_only=True)
        try:
            states = {state: options.pop(state, None) for state in ("ready", "running", "done", "failed")}
            settings = {"status": None, "name": None} | options
            return await propose_declaration(store, table, states=states, **settings)
        finally:
            await store.close()

    return asyncio.run(work())


def declared(found: Adoption) -> Queue:
    """Return the queue that the written text declares."""
    names: dict[str, Any] = {}
    exec(found.declaration, names)
    [queue] = [value for value in names.values() if isinstance(value, Queue)]
    return queue


def why(found: Adoption, argument: str) -> str:
    """Return the reason for a guess; empty if it is not one."""
    return next((one["why"] for one in found.guesses if one["argument"] == argument), "")


def test_every_guess_is_marked_with_its_reason(url: str) -> None:
    """In the text and in the data; what the caller gave is not a guess."""
    run(
        url,
        "CREATE TABLE jobs (id KEY, status text NOT NULL DEFAULT 'new', worker_id text, started_at TIME)",
        "INSERT INTO jobs (status) VALUES ('new'), ('done'), ('done')",
    )
    found = adopted(url, failed="broken")
    assert found.states == {"ready": "new", "running": "processing", "done": "done", "failed": "broken"}
    assert why(found, "ready") == "the column's default"
    assert why(found, "done") == "the word means it; 2 rows have it"
    assert why(found, "running") == "the usual word; no row has it yet"
    assert (why(found, "failed"), why(found, "worker")) == ("", "its name and type")
    lines = found.declaration.splitlines()
    assert "    ready='new',  # guessed: the column's default" in lines
    assert "    failed='broken'," in lines
    assert declared(found).mirrors == {"worker": "worker_id", "started_at": "started_at"}


@pytest.mark.parametrize(
    ("words", "states"),
    [
        (("PENDING", "DONE"), ("PENDING", "PROCESSING", "DONE", "FAILED")),
        (("Pending", "In Progress", "Done"), ("Pending", "In Progress", "Done", "Failed")),
        (("in-progress", "queued", "error"), ("queued", "in-progress", "completed", "error")),
        (("notStarted", "inProgress", "Complete", "ERROR"), ("notStarted", "inProgress", "Complete", "ERROR")),
        (("en attente", "terminé"), ("en attente", "processing", "terminé", "failed")),
    ],
)
def test_values_are_recognised_however_they_are_spelled(
    url: str, words: tuple[str, ...], states: tuple[str, str, str, str]
) -> None:
    """Case, spaces, hyphens and accents do not matter; an added value is spelled like the others."""
    rows = ", ".join(f"('{word}')" for word in words)
    run(url, "CREATE TABLE jobs (id KEY, status text)", f"INSERT INTO jobs (status) VALUES {rows}")
    assert tuple(adopted(url).states.values()) == states


def test_an_empty_table_gets_the_usual_values(url: str) -> None:
    """And says that they are a guess."""
    run(url, "CREATE TABLE jobs (id KEY, state text)")
    found = adopted(url)
    assert tuple(found.states.values()) == ("pending", "processing", "completed", "failed")
    assert "the table is empty" in why(found, "ready")
    assert (found.status, why(found, "status")) == ("state", "its name")


@pytest.mark.parametrize(
    "check",
    [
        "CHECK (status IN ('new', 'busy', 'done', 'broken'))",
        "CHECK (status = 'new' OR status = 'busy' OR status = 'done' OR status = 'broken')",
    ],
)
def test_only_values_that_a_check_allows_are_guessed(url: str, check: str) -> None:
    """`processing` is not among them; `busy` is."""
    run(url, f"CREATE TABLE jobs (id KEY, status text NOT NULL DEFAULT 'new' {check})")
    found = adopted(url)
    assert found.states == {"ready": "new", "running": "busy", "done": "done", "failed": "broken"}
    assert found.allowed == ["new", "busy", "done", "broken"]
    assert found.problems == []


def test_a_check_without_a_running_value_is_a_question(url: str) -> None:
    """With the values that it allows."""
    run(url, "CREATE TABLE jobs (id KEY, status text CHECK (status IN ('new', 'done', 'error', 'archived', 'paused')))")
    with pytest.raises(ConfigurationError) as error:
        adopted(url)
    assert "Use --running VALUE." in str(error.value)
    assert "it allows only 'new', 'done', 'error', 'archived', 'paused'" in str(error.value)


def test_the_last_value_is_guessed_by_elimination(url: str) -> None:
    """Of four values, three are known."""
    run(url, "CREATE TABLE jobs (id KEY, status text CHECK (status IN ('new', 'chez_ocr', 'done', 'error')))")
    found = adopted(url)
    assert found.states["running"] == "chez_ocr"
    assert "the only remaining value" in why(found, "running")


def test_custom_values_are_guessed_by_their_form(url: str) -> None:
    """`scraping` runs, `scraped` is done, `scrape_failed` failed; `archived` is none of these."""
    words = "'new', 'scraping', 'scraped', 'scrape_failed', 'archived'"
    run(url, f"CREATE TABLE jobs (id KEY, status text DEFAULT 'new' CHECK (status IN ({words})))")
    found = adopted(url)
    assert found.states == {"ready": "new", "running": "scraping", "done": "scraped", "failed": "scrape_failed"}


def test_a_value_that_the_table_refuses_is_replaced(url: str) -> None:
    """A CHECK without a list is tried on a row: another usual value fits, or the refusal is named."""
    run(
        url,
        "CREATE TABLE jobs (id KEY, status text DEFAULT 'new' CHECK (length(status) < 7))",
        "INSERT INTO jobs (status) VALUES ('new'), ('done')",
        "CREATE TABLE short (id KEY, status text DEFAULT 'new' CHECK (length(status) < 4))",
        "INSERT INTO short (status) VALUES ('new')",
    )
    found = adopted(url)
    assert (found.states["running"], found.problems) == ("doing", [])
    found = adopted(url, "short", done="ok", failed="bad")
    assert any("running" in one["what"] and "length(status)" in one["what"] for one in found.problems)
    assert adopted(url, "short", running="on", done="ok", failed="bad").problems == []


def test_labels_of_an_enum_and_values_of_a_domain(pg_url: str) -> None:
    """Only those are used."""
    run(
        pg_url,
        "CREATE TYPE mood AS ENUM ('QUEUED', 'WORKING', 'FINISHED', 'DEAD')",
        "CREATE TABLE jobs (id KEY, etape mood DEFAULT 'QUEUED')",
        "CREATE DOMAIN phase AS text DEFAULT 'todo' CHECK (VALUE IN ('todo', 'doing', 'ok', 'dead'))",
        "CREATE TABLE others (id KEY, status phase)",
    )
    found = adopted(pg_url)
    assert found.status == "etape"
    assert tuple(found.states.values()) == ("QUEUED", "WORKING", "FINISHED", "DEAD")
    found = adopted(pg_url, "others")
    assert tuple(found.states.values()) == ("todo", "doing", "ok", "dead")
    assert why(found, "ready") == "the column's default"


def test_numbers_are_asked_for(url: str) -> None:
    """An integer status reveals only its default."""
    run(
        url,
        "CREATE TABLE jobs (id KEY, status integer NOT NULL DEFAULT 0)",
        "INSERT INTO jobs (status) VALUES (0), (3)",
    )
    with pytest.raises(ConfigurationError) as error:
        adopted(url)
    assert "--ready" not in str(error.value)
    assert "--running VALUE" in str(error.value)
    found = adopted(url, running="1", done="2", failed="3")
    assert (found.states["ready"], why(found, "ready")) == (0, "the column's default")


def test_a_key_can_be_named_or_guessed(url: str) -> None:
    """A table without a primary key needs one unique column."""
    run(
        url,
        "CREATE TABLE jobs (number integer, code text NOT NULL UNIQUE, status text DEFAULT 'new')",
        "CREATE TABLE two (code text NOT NULL UNIQUE, name text NOT NULL UNIQUE, status text DEFAULT 'new')",
    )
    found = adopted(url)
    assert (found.key, why(found, "key"), declared(found).key) == ("code", "the only unique column", "code")
    with pytest.raises(DeclarationError, match="no primary key"):
        adopted(url, "two")
    found = adopted(url, "two", key="name")
    assert (found.key, why(found, "key"), declared(found).key) == ("name", "", "name")


@pytest.mark.parametrize(
    ("column", "condition"),
    [
        ("deleted_at TIME", "deleted_at IS NULL"),
        ("archived_at TIME", "archived_at IS NULL"),
        ("is_deleted boolean NOT NULL DEFAULT false", "is_deleted IS NOT TRUE"),
        ("deleted integer NOT NULL DEFAULT 0", "deleted = 0"),
        ('"deletedAt" TIME', '"deletedAt" IS NULL'),
    ],
)
def test_rows_marked_as_deleted_are_left_alone(url: str, column: str, condition: str) -> None:
    """The condition is suggested, and works."""
    run(
        url,
        f"CREATE TABLE jobs (id KEY, status text NOT NULL DEFAULT 'new', {column})",
        "INSERT INTO jobs (status) VALUES ('new')",
    )
    found = adopted(url)
    assert declared(found).where == condition
    assert "deleted" in why(found, "where")
    assert found.problems == []

    async def counts() -> dict[Any, int]:
        async with Store(url) as store:
            return dict(await store.counts(declared(found)))

    assert asyncio.run(counts())["ready"] == 1


def test_three_booleans_are_four_states(url: str) -> None:
    """A table without a status column that still distinguishes them."""
    flags = ", ".join(f"{name} boolean NOT NULL DEFAULT false" for name in ("processing", "processed", "failed"))
    run(url, f"CREATE TABLE jobs (id KEY, {flags})", "INSERT INTO jobs (id) VALUES (1)")
    found = adopted(url)
    assert found.status is None
    assert found.states["ready"] == {"processing": False, "processed": False, "failed": False}
    assert declared(found).states["done"] == {"processing": False, "processed": True, "failed": False}
    assert found.problems == []


def test_two_booleans_cannot_express_running(url: str) -> None:
    """The message says what to do."""
    run(url, "CREATE TABLE jobs (id KEY, processed boolean DEFAULT false, failed boolean DEFAULT false)")
    with pytest.raises(ConfigurationError) as error:
        adopted(url)
    assert "processed and failed of 'jobs' cannot say that a row is running" in str(error.value)
    assert 'ALTER TABLE "jobs" ADD COLUMN processing boolean' in str(error.value)


def test_a_table_without_a_status(url: str) -> None:
    """Its columns are listed, and the column that is needed."""
    run(url, "CREATE TABLE jobs (id KEY, url text)")
    with pytest.raises(
        ConfigurationError, match="which column of 'jobs' is the status\\? Use --status; its columns are id, url"
    ):
        adopted(url)


def test_orphans_are_counted_and_taken_over_only_on_request(url: str) -> None:
    """Running rows may belong to another program: the option that takes them over is there, as a comment."""
    run(
        url,
        "CREATE TABLE jobs (id KEY, status text DEFAULT 'new', started_at TIME)",
        "INSERT INTO jobs (status) VALUES ('new'), ('processing'), ('processing')",
        "CREATE TABLE bare (id KEY, status text DEFAULT 'new')",
        "INSERT INTO bare (status) VALUES ('processing')",
    )
    found = adopted(url)
    assert found.leftovers == 2
    assert any("not in the register: 2 rows" in note for note in found.notes)
    assert "    # stale_after=3600,  # takes over rows that run outside the register (2 now)" in found.declaration
    assert declared(found).stale_after is None
    found = adopted(url, "bare")
    assert "stale_after" not in found.declaration
    assert any("no column has the start time" in note for note in found.notes)


def test_other_values_are_listed(url: str) -> None:
    """The queue leaves them alone, and its owner should know."""
    run(
        url,
        "CREATE TABLE jobs (id KEY, status text DEFAULT 'new')",
        "INSERT INTO jobs (status) VALUES ('new'), ('cancelled'), ('cancelled')",
    )
    assert any("'cancelled' (2 rows)" in note for note in adopted(url).notes)


def test_two_values_for_one_state_are_both_listed(url: str) -> None:
    """The default wins."""
    run(
        url,
        "CREATE TABLE jobs (id KEY, status text DEFAULT 'queued')",
        "INSERT INTO jobs (status) VALUES ('pending'), ('queued')",
    )
    found = adopted(url)
    assert found.states["ready"] == "queued"
    assert "'pending' could also mean it" in why(found, "ready")


def test_unrelated_columns_are_not_mirrors(url: str) -> None:
    """`owner` refers to people, `error` is a flag, `locked_by` is a number."""
    run(
        url,
        "CREATE TABLE people (id KEY)",
        "CREATE TABLE jobs (id KEY, status text DEFAULT 'new', owner integer REFERENCES people (id), error boolean, "
        "locked_by integer, attempts text)",
    )
    assert declared(adopted(url)).mirrors == {}


def test_quoted_names_and_other_schemas(url: str) -> None:
    """Capital letters are kept; a misspelled name is answered with similar ones."""
    schema = "" if dialect(url) == "sqlite" else "sales."
    run(
        url,
        *(["CREATE SCHEMA sales"] if schema else []),
        f'CREATE TABLE {schema}"WorkItems" (id KEY, "jobStatus" text DEFAULT \'New\', "startedAt" TIME, '
        '"lastError" text)',
        f'INSERT INTO {schema}"WorkItems" ("jobStatus") VALUES (\'New\')',
    )
    found = adopted(url, f"{schema}WorkItems")
    assert (found.status, found.states["running"]) == ("jobStatus", "Processing")
    assert declared(found).mirrors == {"started_at": "startedAt", "error": "lastError"}
    assert found.problems == []
    assert adopted(url, f'{schema}"WorkItems"').table == f"{schema}WorkItems"
    with pytest.raises(ConfigurationError, match=f"did you mean {schema}WorkItems?"):
        adopted(url, "workitem")


def test_a_table_that_refuses_is_reported(url: str) -> None:
    """A trigger against a state that the caller named is a problem with the trigger's own message."""
    if dialect(url) == "sqlite":
        guard = """CREATE TRIGGER guard BEFORE UPDATE ON jobs WHEN NEW.status = 'done' BEGIN
  SELECT RAISE(ABORT, 'not before Monday'); END"""
    else:
        run(
            url,
            """CREATE FUNCTION guard() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  IF NEW.status = 'done' THEN RAISE EXCEPTION 'not before Monday'; END IF; RETURN NEW; END $$""",
        )
        guard = "CREATE TRIGGER guard BEFORE UPDATE ON jobs FOR EACH ROW EXECUTE FUNCTION guard()"
    run(
        url,
        "CREATE TABLE jobs (id KEY, status text DEFAULT 'new')",
        "INSERT INTO jobs (status) VALUES ('new')",
        guard,
    )
    found = adopted(url, done="done")
    assert any("not before Monday" in one["what"] for one in found.problems)


@pytest.mark.parametrize(
    ("rule", "values"),
    [
        ("status IN ('a', 'b')", ("a", "b")),
        ("((status = ANY (ARRAY['a'::text, 'it''s'::text])))", ("a", "it's")),
        ("((status)::text = ANY ((ARRAY['a'::character varying, 'b'::character varying])::text[]))", ("a", "b")),
        ("(status IS NULL OR status IN ('a'))", ("a",)),
        ('("status" IN (0, 1, 2))', (0, 1, 2)),
        ("status <> 'a'", None),
        ("length(status) < 7", None),
        ("status NOT IN ('a')", None),
        ("status IN ('a') AND kind = 'b'", None),
        ("status >= 0", None),
    ],
)
def test_the_values_of_a_check(rule: str, values: tuple[Any, ...] | None) -> None:
    """Lists are understood as both databases print them; anything else is left to the trial."""
    assert parse_listed_values(rule, "status") == values


def test_values_are_normalised() -> None:
    """One spelling for all."""
    assert {plain(text) for text in ("In Progress", "IN-PROGRESS", "inProgress", "in_progress ")} == {"in_progress"}


def test_a_guess_fits_into_its_column(url: str) -> None:
    """A value too long for a varchar is replaced by a shorter one; where none fits, it is asked for."""
    run(
        url,
        "CREATE TABLE jobs (id KEY, status varchar(9) NOT NULL DEFAULT 'new')",
        "CREATE TABLE letters (id KEY, status char(1) NOT NULL DEFAULT 'N')",
        "INSERT INTO jobs (status) VALUES ('new')",
    )
    assert declared(adopted(url)).states["running"] == {"status": "running"}
    with pytest.raises(ConfigurationError, match="--running VALUE, --done VALUE and --failed VALUE"):
        adopted(url, "letters")


def test_padding_of_a_char_is_not_part_of_a_value(pg_url: str) -> None:
    """PostgreSQL adds spaces; the declaration has the values as people write them."""
    run(
        pg_url,
        "CREATE TABLE jobs (id KEY, status char(12) NOT NULL DEFAULT 'new')",
        "INSERT INTO jobs (status) VALUES ('new'), ('done')",
    )
    found = adopted(pg_url)
    assert (found.states["done"], found.seen, found.notes) == ("done", {"new": 1, "done": 1}, [])


def test_null_is_ready_where_no_value_is(url: str) -> None:
    """NULL is what such a table has for new rows; where a value means ready, NULL is listed as another."""
    run(
        url,
        "CREATE TABLE jobs (id KEY, status text)",
        "INSERT INTO jobs (status) VALUES (NULL), (NULL), ('done')",
        "CREATE TABLE letters (id KEY, status text)",
        "INSERT INTO letters (status) VALUES (NULL), ('pending')",
    )
    found = adopted(url)
    assert declared(found).states["ready"] == {"status": None}
    assert why(found, "ready") == "NULL in 2 rows, and no value means ready"
    assert found.problems == []
    [note] = adopted(url, "letters").notes
    assert note.endswith("NULL (1 row)")


def test_nullable_booleans_are_reported(url: str) -> None:
    """NULL is not a state, so such rows would wait forever."""
    run(
        url,
        "CREATE TABLE jobs (id KEY, processing boolean, processed boolean NOT NULL, failed boolean NOT NULL)",
        "INSERT INTO jobs (processed, failed) VALUES (false, false)",
    )
    [note] = adopted(url).notes
    assert "processing is NULL in 1 row" in note
    run(url, f"UPDATE{note.partition('UPDATE')[2].partition(';')[0]}")
    assert adopted(url).notes == []


@pytest.mark.parametrize("column", ["createdAt", "Created At", "inserted_at"])
def test_the_oldest_comes_first_whatever_its_column(url: str, column: str) -> None:
    """A random key says nothing about the order."""
    run(
        url,
        f"""CREATE TABLE jobs (id varchar(40) NOT NULL UNIQUE, status text DEFAULT 'new', "{column}" TIME)""",
        f"""INSERT INTO jobs (id, "{column}") VALUES ('b', '2024-01-01'), ('a', '2024-01-02')""",
    )
    assert declared(adopted(url)).order == ((column, False),)


def test_a_computed_status_is_not_used(url: str) -> None:
    """It cannot be written: the column behind it is asked for, or its booleans are used."""
    generated = "GENERATED ALWAYS AS (CASE WHEN code = 1 THEN 'new' ELSE 'done' END) STORED"
    flags = "processing boolean NOT NULL, processed boolean NOT NULL, failed boolean NOT NULL"
    run(
        url,
        f"CREATE TABLE jobs (id KEY, code integer, status text {generated})",
        f"CREATE TABLE mails (id KEY, {flags}, code integer, status text {generated})",
    )
    for given in (None, "status"):
        with pytest.raises(ConfigurationError, match=r"computed by the database.*--status.*one of id, code;"):
            adopted(url, status=given)
    assert adopted(url, "mails").status is None


def test_refused_manual_moves_are_noted(url: str) -> None:
    """A trigger that keeps failed rows failed does not stop a worker, but it stops `tabellion retry`."""
    body = "SELECT RAISE(ABORT, 'stays failed')" if dialect(url) == "sqlite" else ""
    trigger = f"""CREATE TRIGGER stay BEFORE UPDATE ON jobs FOR EACH ROW
WHEN (OLD.status = 'failed' AND NEW.status <> 'failed') {f"BEGIN {body}; END" if body else "EXECUTE FUNCTION stay()"}"""
    function = """CREATE FUNCTION stay() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION 'stays failed'; END $$"""
    run(
        url,
        "CREATE TABLE jobs (id KEY, status text DEFAULT 'new')",
        *([] if body else [function]),
        trigger,
        "INSERT INTO jobs (status) VALUES ('new')",
    )
    found = adopted(url)
    assert found.problems == []
    [note] = found.notes
    assert "failed → ready is refused: stays failed" in note


def test_a_view_is_rejected_first(url: str) -> None:
    """Nobody is told to add a status to a view."""
    run(url, "CREATE TABLE jobs (id KEY, status text)", "CREATE VIEW seen AS SELECT id FROM jobs")
    with pytest.raises(DeclarationError, match=r"on the table behind it \('jobs'\)"):
        adopted(url, "seen")
