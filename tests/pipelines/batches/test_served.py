"""What the web application holds for batches: whether its staging store accepts texts."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from tabellion.config import load
from tabellion.engine.store import Store
from tabellion.pipelines.batches.served import serve
from tabellion.storage.lake import Lake
from tabellion.web import storage_check


def check_health(folder: Path) -> list[str]:
    """Return why batches are not ready."""
    config = load(None, {"TABELLION_DATA": str(folder)})

    async def go() -> list[str]:
        async with Store(f"sqlite:///{folder}/work.db") as store:
            served = serve(config, "default", store)
            try:
                return list((await served.health()).reasons)
            finally:
                await served.close()

    return asyncio.run(go())


def test_a_store_that_cannot_be_written_is_a_reason(tmp_path: Path) -> None:
    """A file is where its folder should be."""
    assert check_health(tmp_path) == []
    (tmp_path / "other" / "batches").mkdir(parents=True)
    (tmp_path / "other" / "batches" / "staging").write_bytes(b"")
    assert "staging store" in check_health(tmp_path / "other")[0]


def test_a_store_that_hangs_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The probe is answered while the check still waits, and nothing waits for it at the end."""
    held = threading.Event()
    monkeypatch.setattr(Lake, "check", lambda _: held.wait(60))
    monkeypatch.setattr(storage_check, "SECONDS", 0.1)
    try:
        assert "staging store" in check_health(tmp_path)[0]
        assert not held.is_set()
    finally:
        held.set()
