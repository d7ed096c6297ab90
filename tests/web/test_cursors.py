"""Cursors: ours, for one question, in one environment."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabellion.web import cursors
from tabellion.web.problems import Problem

KEY = b"k" * 32


def test_a_cursor_leads_back_to_its_place() -> None:
    """With the same question, in whatever order it is asked."""
    made = cursors.make_cursor(KEY, "prod", {"status": "queued", "type": "invoice"}, "01abc")
    assert cursors.place(KEY, "prod", {"type": "invoice", "status": "queued"}, made) == "01abc"
    assert "01abc" not in made


@pytest.mark.parametrize(
    ("key", "environment", "question"),
    [(b"o" * 32, "prod", {}), (KEY, "dev", {}), (KEY, "prod", {"status": "failed"})],
)
def test_a_cursor_is_good_for_nothing_else(key: bytes, environment: str, question: dict[str, str]) -> None:
    """Another installation, environment or filter."""
    made = cursors.make_cursor(KEY, "prod", {}, "01abc")
    with pytest.raises(Problem):
        cursors.place(key, environment, question, made)


@given(st.text(max_size=80) | st.binary(max_size=60).map(lambda raw: raw.hex()))
def test_nothing_else_is_a_cursor(text: str) -> None:
    """A Problem, whatever was sent."""
    with pytest.raises(Problem):
        cursors.place(KEY, "prod", {}, text)


def test_the_key_is_made_once_and_readable_by_nobody_else(tmp_path: Path) -> None:
    """And no half of it is left beside it."""
    folder = tmp_path / "data"
    first = cursors.installation_key(folder)
    assert len(first) == 32
    assert cursors.installation_key(folder) == first
    assert os.listdir(folder) == [cursors.FILE]
    assert (folder / cursors.FILE).stat().st_mode & 0o077 == 0
