"""File names: displayed, never used as paths."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tabellion.web.names import LONGEST, UNNAMED, escape_name


@given(st.text(max_size=600))
def test_any_name_can_be_displayed(name: str) -> None:
    """One line, no control or direction characters, no path, not too long, never empty."""
    shown = escape_name(name)
    assert 1 <= len(shown) <= LONGEST
    assert "/" not in shown
    assert all(letter.isprintable() for letter in shown)
    assert shown.strip(".")
    shown.encode()


def test_a_plain_name_is_unchanged() -> None:
    """It is shown as it was given."""
    for name in ("invoice.pdf", "Rechnung März 2026.pdf", "請求書.pdf", "a.b.c"):
        assert escape_name(name) == name
    assert escape_name("") == escape_name("..") == escape_name("a/..") == UNNAMED
