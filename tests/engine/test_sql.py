"""Identifiers, literals and conditions as SQL text."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabellion import Store
from tabellion.engine import sql
from tests.engine.made_tables import asynchronous

texts = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]))


def test_a_dot_separates_schema_and_table() -> None:
    """Table names may be qualified; columns keep their dots."""
    assert sql.name("public.tasks") == '"public"."tasks"'
    assert sql.column("a.b") == '"a.b"'


@given(texts.filter(bool))
def test_any_identifier_survives_quoting(identifier: str) -> None:
    """No name can end its quotes: the database returns the name it was given."""
    with sqlite3.connect(":memory:") as connection:
        cursor = connection.execute(f"SELECT 1 AS {sql.column(identifier)}")
        assert cursor.description[0][0] == identifier
    connection.close()


# SQLite before 3.47 reads very small and very large decimals inexactly; nobody uses them as states.
decimals = st.floats(-1e9, 1e9).map(lambda number: round(number, 4))


@given(texts | st.integers(-(2**63), 2**63 - 1) | st.booleans() | st.none() | decimals)
def test_any_literal_survives_quoting(value: sql.Scalar) -> None:
    """A constant written into the statement is read back as itself."""
    connection = sqlite3.connect(":memory:")
    try:
        [found] = connection.execute(f"SELECT {sql.literal(value, 'sqlite')}").fetchone()
        assert found == value
    finally:
        connection.close()


@asynchronous
async def test_literals_on_each_database(store: Store) -> None:
    """Texts with quotes and backslashes, numbers and booleans are read back unchanged on both databases."""
    for value in ("it's", 'say "x"', "back\\slash", "$1 :a ?1 --", "żółw 🐢", 4, -7, 2.5, 1e-7, True, False, None):
        [found] = await store.database.fetch(f"SELECT {sql.literal(value, store.dialect)} AS v")
        assert (float(found["v"]) if isinstance(value, float) else found["v"]) == value


def test_a_nul_cannot_be_a_literal() -> None:
    """No database accepts a NUL in a text."""
    with pytest.raises(ValueError, match="NUL"):
        sql.literal("a\x00b", "postgresql")


def test_a_state_is_a_condition_and_an_assignment() -> None:
    """NULL is compared with IS and written with =."""
    state = {"status": "it's", "gone": None, "busy": False}
    assert sql.holds(state, "postgresql") == """t."status" = 'it''s' AND t."gone" IS NULL AND t."busy" = FALSE"""
    assert sql.holds(state, "sqlite", "x") == """x."status" = 'it''s' AND x."gone" IS NULL AND x."busy" = 0"""
    assert sql.assign(state, "sqlite") == ["\"status\" = 'it''s'", '"gone" = NULL', '"busy" = 0']


def test_named_placeholders_become_numbers() -> None:
    """Each name gets one number, in the order of first use."""
    text, values = sql.bind("INSERT INTO p (a, b, c) VALUES (:a, :b, :a)", {"b": 2, "a": 1})
    assert text == "INSERT INTO p (a, b, c) VALUES ($1, $2, $1)"
    assert values == [1, 2]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 'at 12:30' || ''':x'",
        'SELECT ":x" FROM t',
        "SELECT a::text",
        "SELECT 1 -- :x\n",
        "SELECT 1 /* see http://host:port */",
    ],
)
def test_what_only_looks_like_a_placeholder(text: str) -> None:
    """Quoted texts, quoted names, casts and comments are left alone."""
    assert sql.bind(text, {}) == (text, [])


def test_a_missing_or_unused_value_is_named() -> None:
    """A statement and its values must match."""
    with pytest.raises(ValueError, match=":b"):
        sql.bind("SELECT :a, :b", {"a": 1})
    with pytest.raises(ValueError, match="c"):
        sql.bind("SELECT :a", {"a": 1, "c": 2})


def test_question_marks_for_sqlite() -> None:
    """Numbers keep their places; quoted texts are left alone."""
    assert sql.question_marks("SELECT $2, '$1', \"$3\", $1") == "SELECT ?2, '$1', \"$3\", ?1"


@asynchronous
async def test_times_on_each_database(store: Store) -> None:
    """Now, later and conversion to seconds agree on both databases, using the test's clock."""
    later = sql.later("90.5", store.dialect)
    [found] = await store.database.fetch(
        f"SELECT {sql.epoch(sql.NOW, store.dialect)} AS now, {sql.epoch(later, store.dialect)} AS later"
    )
    assert (found["now"], found["later"]) == (1_000_000_000.0, 1_000_000_090.5)


@pytest.mark.parametrize(
    ("family", "type_name"),
    [("time", "timestamp with time zone"), ("time", "timestamp without time zone"), ("text", "text"),
     ("integer", "bigint"), ("number", "double precision")],
)  # fmt: skip
@asynchronous
async def test_a_mirrored_time_is_read_back(store: Store, family: str, type_name: str) -> None:
    """What a move writes into a time mirror of any type is the same instant when read."""
    await store.open()
    await store.database.transact([(f"CREATE TABLE x (at {type_name})", ())])
    stamp = sql.stamp(family, type_name, store.dialect)
    await store.database.transact([(f"INSERT INTO x VALUES ({stamp})", ())])
    back = sql.mirror_epoch("at", family, type_name, store.dialect)
    [found] = await store.database.fetch(f"SELECT {back} AS at FROM x")
    assert abs(found["at"] - 1_000_000_000.0) < 0.01


def test_only_this_module_quotes() -> None:
    """No other module of the engine doubles quotes by hand."""
    folder = Path(sql.__file__).parent
    quoting = re.compile(r"""replace\((?:"'"|'"'),""")
    found = [file.name for file in folder.glob("*.py") if file.name != "sql.py" and quoting.search(file.read_text())]
    assert found == []
