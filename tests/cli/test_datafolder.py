"""The data folder: one process at a time owns it, and others learn its address."""

from __future__ import annotations

from pathlib import Path

import pytest

from tabellion.cli.datafolder import LOCK, address_in, lock_folder
from tabellion.errors import ConfigurationError


def test_the_owner_publishes_its_address(tmp_path: Path) -> None:
    """Once it listens, and as long as it runs."""
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


def test_the_address_of_a_killed_process_is_ignored(tmp_path: Path) -> None:
    """Its text is there and its lock is not."""
    (tmp_path / LOCK).write_text("http://127.0.0.1:8080")
    assert address_in(tmp_path) is None
    with lock_folder(tmp_path):
        assert address_in(tmp_path) is None
