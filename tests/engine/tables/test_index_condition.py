"""The condition of a partial index: what it requires of a column, and what only looks like it."""

from __future__ import annotations

import pytest

from tabellion import Queue, Store
from tabellion.engine.sql import Dialect, Scalar
from tabellion.engine.tables.index_condition import requires_value
from tests.engine.made_tables import asynchronous, run

COLUMNS = """id integer PRIMARY KEY, status text, other_status text, code varchar(20), "Odd" text, n integer,
done boolean, at timestamp, phase integer"""


@pytest.mark.parametrize(
    ("ready", "condition", "serves"),
    [
        ({"status": "new"}, "status = 'new'", True),
        ({"status": "new"}, "status = 'new' AND n = 1", True),
        ({"status": "new"}, "(n > 5 AND (status = 'new'))", True),
        ({"status": "new"}, "other_status = 'new'", False),
        ({"status": "new"}, "status = 'new''s'", False),
        ({"status": "new"}, "status <> 'new'", False),
        ({"status": "new"}, "lower(status) = 'new'", False),
        ({"status": "new"}, "status = 'old' AND other_status = 'new'", False),
        ({"status": "new"}, "NOT (status = 'new' AND n = 1)", False),
        ({"status": "it's"}, "status = 'it''s'", True),
        ({"code": "new"}, "code = 'new'", True),
        ({"Odd": "new"}, "\"Odd\" = 'new'", True),
        ({"n": 1}, "n = 1", True),
        ({"n": 1}, "n = 10", False),
        ({"n": -1}, "n = -1", True),
        ({"n": 1}, "n = -1", False),
        ({"at": None}, "at IS NULL", True),
        ({"at": None}, "at IS NOT NULL", False),
        ({"at": None}, "status IS NULL AND at > '2020-01-01'", False),
    ],
)
@asynchronous
async def test_an_index_is_suitable_by_its_condition(
    store: Store, ready: dict[str, Scalar], condition: str, serves: bool
) -> None:
    """Only a condition on the column itself, with exactly this value, leads to the ready rows."""
    await run(store, f"CREATE TABLE t ({COLUMNS})", f"CREATE INDEX i ON t (phase, id) WHERE {condition}")
    assert (await store.bind(queue_of(ready))).has_index() is serves


@pytest.mark.parametrize("value", [False, True])
@pytest.mark.parametrize("required", [False, True])
@asynchronous
async def test_a_boolean_is_not_its_opposite(store: Store, value: bool, required: bool) -> None:
    """An index of finished rows is not suitable for unfinished ones."""
    literal = str(required).upper() if store.dialect == "postgresql" else str(int(required))
    await run(store, f"CREATE TABLE t ({COLUMNS})", f"CREATE INDEX i ON t (phase, id) WHERE done = {literal}")
    assert (await store.bind(queue_of({"done": value}))).has_index() is (value is required)


@pytest.mark.parametrize(
    ("condition", "column", "value", "dialect", "requires"),
    [
        ("(NOT done)", "done", False, "postgresql", True),
        ("(NOT done)", "done", True, "postgresql", False),
        ("done", "done", True, "postgresql", True),
        ("((status)::text = ANY ((ARRAY['new'::character varying, 'old'::character varying])::text[]))",
         "status", "new", "postgresql", True),
        ("((status)::text = ANY ((ARRAY['newer'::character varying, 'old'::character varying])::text[]))",
         "status", "new", "postgresql", False),
        ("(status = 'new'::work.\"Mood\")", "status", "new", "postgresql", True),
        ("((status = 'new'::text) OR (n = 1))", "status", "new", "postgresql", False),
        ("NOT done", "done", False, "sqlite", False),
        ("status IN ('new', 'old')", "status", "new", "sqlite", False),
        ("[STATUS] == 'new'", "status", "new", "sqlite", False),
        ("STATUS == 'new'", "status", "new", "sqlite", True),
        ("", "status", "new", "sqlite", False),
    ],
)  # fmt: skip
def test_each_database_prints_and_recognises_its_own_forms(
    condition: str, column: str, value: Scalar, dialect: Dialect, requires: bool
) -> None:
    """SQLite uses the index only if it is spelled as the claim is; PostgreSQL also understands lists and booleans."""
    assert requires_value(condition, column, value, dialect) is requires


def queue_of(ready: dict[str, Scalar]) -> Queue:
    """A queue on the table, ready in this state and in its first phase."""
    return Queue("t", ready=ready | {"phase": 0}, running={"phase": 1}, done={"phase": 2}, failed={"phase": 3})
