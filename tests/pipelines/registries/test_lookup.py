"""Searches are read by the indexes of their tables."""

from __future__ import annotations

from pathlib import Path

import pytest

from tabellion import Store, config
from tabellion.pipelines.registries import lookup
from tabellion.pipelines.registries.pipeline import PIPELINE
from tabellion.pipelines.registries.settings import settings_of
from tests.engine.made_tables import asynchronous
from tests.pipelines.registries.test_tables import handmade


@pytest.mark.parametrize("is_handmade", [True, False])
@asynchronous
async def test_sessions_are_read_by_an_index(
    tmp_path: Path, pg_url: str, is_handmade: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One session is found by its key, whatever the key's type; the newest ones by their time if we made the table."""
    settings = settings_of(config.load(variables={"TABELLION_DATA": str(tmp_path), "DATABASE_URL": pg_url}))
    async with Store(pg_url) as store:
        for text in handmade("postgresql") if is_handmade else ():
            await store.database.fetch(text)
        await PIPELINE.prepare(store)
        fetch = store.database.fetch
        plans: list[str] = []

        async def explain(text: str, *values: object) -> list[dict[str, object]]:
            if "FROM search_sessions" not in text:
                return await fetch(text, *values)
            off = ("SELECT set_config('enable_seqscan', 'off', true)", ())  # an empty table has no use for an index
            [_, plan] = await store.database.transact([off, (f"EXPLAIN {text}", values)])
            plans.append(str([dict(row) for row in plan]))
            return []

        monkeypatch.setattr(store.database, "fetch", explain)
        await lookup.get_session(store, settings, "5b4b7e0c-8f5f-4c7e-9d43-2f1f1f1f1f1f")
        if not is_handmade:
            await lookup.list_sessions(store, settings)
        monkeypatch.undo()
        assert "search_sessions_pkey" in plans[0]
        assert is_handmade or "search_sessions_newest" in plans[1]
