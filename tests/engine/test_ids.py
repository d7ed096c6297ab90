"""Ids that sort by time."""

from __future__ import annotations

from tabellion.engine.ids import is_id, new_id


def test_ids_sort_by_time_and_look_like_ids() -> None:
    """26 characters that may be typed, later ones greater."""
    ids = [new_id() for _ in range(1000)]
    assert len(set(ids)) == 1000
    assert all(map(is_id, ids))
    assert sorted(ids) == ids
    assert not any(map(is_id, ("", "x", "i" * 26, "0" * 27, "../" + "0" * 23)))
