"""States of documents: one module writes them, with the values its queues use."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tabellion.engine import sql
from tabellion.pipelines import documents
from tabellion.pipelines.documents import states

STATE = ("status", "chore", "told", "duplicate_of", "former")
SOURCES = sorted(Path(documents.__file__).parent.rglob("*.py"))
WRITES = re.compile(r"UPDATE (?:tabellion_documents\b|\{TABLE\})(?: AS \w+)?\s+SET\s(.*?)(?:WHERE|\"\"\"|$)", re.DOTALL)
#: What handlers return as columns; `former` and `duplicate_of` are also keys of other dicts.
RETURNS = re.compile(r"[\"'](?:chore|told)[\"'](?:\]\s*=[^=]|:)")
#: The module that has every statement that changes a table; tables.py creates them.
OWNERS = {
    "tabellion_documents": "states.py",
    "tabellion_extracted_fields": "extracted_fields.py",
    "tabellion_processed_documents": "processed_documents.py",
    "tabellion_review_items": "item_changes.py",
}
DIALECTS: tuple[sql.Dialect, ...] = ("postgresql", "sqlite")
ROW = {"id": "a", "key": "k", "bytes": 1}


def inserts(dialect: sql.Dialect) -> list[states.Change]:
    """Both ways to add a document."""
    return [states.insert(dialect, ROW), states.insert_by_key(dialect, ROW, reports=True, rejects=True)]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_only_one_module_writes_the_state_of_a_document(path: Path) -> None:
    """Every UPDATE of the five columns is a named change of `states.py`."""
    written = [
        name
        for items in WRITES.findall(path.read_text())
        for name in STATE
        if re.search(rf"(?<![\w.]){name}\s*=", items)
    ]
    assert bool(written) == (path.name == "states.py")
    assert path.name == "states.py" or not RETURNS.search(path.read_text())


@pytest.mark.parametrize("table", OWNERS)
def test_only_one_module_adds_and_removes_rows_of_a_table(table: str) -> None:
    """INSERT and DELETE of the four tables, and every UPDATE but those of documents, are in the owner's module."""
    name = r"(?:tabellion_documents\b|\{TABLE\})" if table == "tabellion_documents" else rf"{table}\b"
    verbs = r"INSERT INTO|DELETE FROM" + ("" if table == "tabellion_documents" else "|UPDATE")
    change = re.compile(rf"(?<!DO )(?:{verbs})\s+{name}")
    found = {path.name for path in SOURCES if path.name != "tables.py" and change.search(path.read_text())}
    assert found == {OWNERS[table]}


def test_every_change_binds_its_values() -> None:
    """Every placeholder has a value and every value a placeholder."""
    changes = [
        states.read_again("a", type="invoice", key="k"), states.read_with_more("a", "true"),
        states.wait_again("a", "failed"), states.delete("a"),
        *states.take_place("a", "b"), states.follow_heir("a", "b"), states.detach_failed("a"), states.rewrite("a"),
        states.fail_waiting("a", "k", "error"), states.rewrite_where("a", "true"), states.forget_report("a"),
        states.discard("a"), states.change_duplicates("a", type="invoice"),
        *(insert for dialect in DIALECTS for insert in inserts(dialect)),
        states.requeue_stranded("sqlite", 60.0), states.requeue_stranded("postgresql", 60.0),
    ]  # fmt: skip
    for text, values in changes:
        numbered, given = sql.bind(text, values)
        assert len(given) == len(values)
        assert ":id" not in numbered
