"""The columns of a row type."""

from __future__ import annotations

from typing import TypedDict

from tabellion.engine.columns import columns_of


class Facts(TypedDict):
    """Some columns."""

    id: str
    created_at: float


class Whole(Facts):
    """All columns."""

    lease_until: float | None


def test_times_are_seconds_since_1970() -> None:
    """Each database returns times in its own way; rows have numbers."""
    assert columns_of(Facts, "t", "sqlite") == "t.id, t.created_at AS created_at"
    assert columns_of(Facts, "t", "postgresql") == "t.id, extract(epoch FROM t.created_at)::float8 AS created_at"


def test_a_row_has_the_columns_of_the_type_it_extends() -> None:
    """Inherited keys come first."""
    assert columns_of(Whole, "t", "sqlite") == "t.id, t.created_at AS created_at, t.lease_until AS lease_until"
