"""States of documents: one module writes them, with the values its queues use."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tabellion.engine import sql
from tabellion.pipelines import documents
from tabellion.pipelines.documents import states
from tabellion.pipelines.documents.written_columns import NewDocument, WrittenColumns

STATE = ("status", "chore", "told", "duplicate_of", "former")
SOURCES = sorted(Path(documents.__file__).parent.rglob("*.py"))
WRITES = re.compile(r"UPDATE (?:tabellion_documents\b|\{TABLE\})(?: AS \w+)?\s+SET\s(.*?)(?:WHERE|\"\"\"|$)", re.DOTALL)
#: What handlers return as columns; `former` and `duplicate_of` are also keys of other dicts.
RETURNS = re.compile(r"[\"'](?:chore|told)[\"'](?:\]\s*=[^=]|:)")
FORMER: WrittenColumns = {"type": "t", "type_key": "t", "model": "m", "asked_model": None, "key": "l"}
DIALECTS: tuple[sql.Dialect, ...] = ("postgresql", "sqlite")
ROW: NewDocument = {
    "id": "a", "type": None, "type_key": "t", "model": "local", "asked_model": None, "sha256": "s", "bytes": 1,
    "name": "n", "media": "m", "blob": "b", "key": "k", "webhook": None, "max_attempts": 4,
}  # fmt: skip


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
        states.record_postponement("a", "w", "error", 0.1), states.limit_attempts("a", 3),
        states.restore_duplicates("a", "k", FORMER),
        *(states.store_progress(dialect, "[]") for dialect in DIALECTS),
        *(states.point_outputs(dialect, "[]") for dialect in DIALECTS),
    ]  # fmt: skip
    for text, values in changes:
        numbered, given = sql.bind(text, values)
        assert len(given) == len(values)
        assert ":id" not in numbered
