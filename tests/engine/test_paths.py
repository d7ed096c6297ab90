"""Paths in messages that others see."""

from __future__ import annotations

from tabellion.engine.paths import hide_folders


def test_folders_of_this_machine_are_hidden() -> None:
    """Only the last part of a path stays; URLs, dates and fractions are not paths."""
    assert hide_folders("[Errno 2] No such file: '/srv/data/blobs/ab/cd'") == "[Errno 2] No such file: '…/cd'"
    assert hide_folders("/srv/tabellion/ cannot be written") == "…/ cannot be written"
    for kept in ("https://example.com/a/b", "and/or", "12/03/2026", "2/3", "/readyz", "…/a/b"):
        assert hide_folders(kept) == kept
