"""Finding the modules that change a table."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.table_writers import changed_tables


@pytest.mark.parametrize(
    ("text", "tables"),
    [
        ('X = "INSERT INTO notes (a) VALUES (1)"', {"notes"}),
        ('X = f"WITH c AS (UPDATE {TABLE} AS t SET a = 1) DELETE FROM {states.TABLE}"', {"tabellion_documents"}),
        ('X = "INSERT INTO " "notes SELECT 1 ON CONFLICT DO UPDATE SET a = 1"', {"notes"}),
        ('X = "SELECT a FROM notes FOR UPDATE OF notes"', set()),
        ('def f(table):\n    return f"DELETE FROM {table}"', set()),
        ("async def f():\n    await prune_window(store, TABLE, position)", {"tabellion_documents"}),
    ],
)
def test_changes_are_found_in_texts(tmp_path: Path, text: str, tables: set[str]) -> None:
    """Also if the table is a constant of another module; a name that is known only at run time is not found."""
    path = tmp_path / "module.py"
    path.write_text(
        "from tabellion.pipelines.documents import states\nfrom tabellion.pipelines.documents.states import TABLE\n"
        + text
    )
    assert changed_tables("module", path) == tables
