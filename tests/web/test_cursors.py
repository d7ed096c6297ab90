"""Cursors: issued by us, for one query, in one environment."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabellion.web import cursors
from tabellion.web.problems import Problem

KEY = b"k" * 32


def test_a_cursor_returns_to_its_position() -> None:
    """With the same query, whatever the order of its parameters."""
    cursor = cursors.make_cursor(KEY, "prod", {"status": "queued", "type": "invoice"}, "01abc")
    assert cursors.place(KEY, "prod", {"type": "invoice", "status": "queued"}, cursor) == "01abc"
    assert "01abc" not in cursor


@pytest.mark.parametrize(
    ("key", "environment", "question"),
    [(b"o" * 32, "prod", {}), (KEY, "dev", {}), (KEY, "prod", {"status": "failed"})],
)
def test_a_cursor_is_valid_for_its_query_only(key: bytes, environment: str, question: dict[str, str]) -> None:
    """Not for another installation, environment or filter."""
    cursor = cursors.make_cursor(KEY, "prod", {}, "01abc")
    with pytest.raises(Problem):
        cursors.place(key, environment, question, cursor)


@given(st.text(max_size=80) | st.binary(max_size=60).map(lambda raw: raw.hex()))
def test_anything_else_is_not_a_cursor(text: str) -> None:
    """Whatever was sent, it raises a Problem."""
    with pytest.raises(Problem):
        cursors.place(KEY, "prod", {}, text)
