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


def test_every_change_binds_its_values() -> None:
    """Every placeholder has a value and every value a placeholder."""
    changes = [
        states.read_again("a", type="invoice", key="k"), states.read_with_more("a", "true"),
        states.wait_again("a", "failed"), states.removable("a"),
        *states.take_place("a", "b"), states.follow_heir("a", "b"), states.detach_failed("a"), states.rewrite("a"),
        states.fail_waiting("a", "k", "error"), states.rewrite_where("a", "true"), states.untold("a"),
        states.requeue_stranded("sqlite", 60.0), states.requeue_stranded("postgresql", 60.0),
    ]  # fmt: skip
    for text, values in changes:
        numbered, given = sql.bind(text, values)
        assert len(given) == len(values)
        assert ":id" not in numbered
