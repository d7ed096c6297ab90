"""The ids of a trace follow from the row."""

from __future__ import annotations

from tabellion.monitor.tracing.subject import Subject


def test_ids_are_the_same_everywhere_and_different_for_each_row() -> None:
    """In every process and version: a change would break the traces of rows that wait."""
    one = Subject("prod", "tabellion_documents", "01K")
    assert one.trace_id == 0x0AFDE72401DBAB3047C34D7B335C61D4
    others = [Subject("dev", one.table, one.key), Subject("prod", "tasks", one.key), Subject("prod", one.table, "01L"),
              Subject("prodtabellion_", "documents", "01K")]  # fmt: skip
    ids = {subject.trace_id for subject in (one, *others)} | {subject.root_id for subject in (one, *others)}
    assert len(ids) == 10
    assert 0 < one.trace_id < 2**128
    assert 0 < one.root_id < 2**64
