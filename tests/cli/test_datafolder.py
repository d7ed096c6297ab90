"""The data folder: one at a time has it, and others learn where that one can be reached."""

from __future__ import annotations

from pathlib import Path

import pytest

from tabellion.cli.datafolder import LOCK, address_in, lock_folder
from tabellion.errors import ConfigurationError


def test_whoever_has_it_says_where_they_are(tmp_path: Path) -> None:
    """Once they listen, and for as long as they run."""
    data = tmp_path / "data"
    assert address_in(data) is None
    with lock_folder(data) as note:
        assert address_in(data) is None
        note("http://127.0.0.1:8080")
        note("http://[::1]:99")
        assert address_in(data) == "http://[::1]:99"
        with pytest.raises(ConfigurationError, match="another `tabellion up` is using"), lock_folder(data):
            raise AssertionError
        assert address_in(data) == "http://[::1]:99"
    assert address_in(data) is None


def test_what_a_killed_one_said_is_not_believed(tmp_path: Path) -> None:
    """Its text is there and its lock is not."""
    (tmp_path / LOCK).write_text("http://127.0.0.1:8080")
    assert address_in(tmp_path) is None
    with lock_folder(tmp_path):
        assert address_in(tmp_path) is None
