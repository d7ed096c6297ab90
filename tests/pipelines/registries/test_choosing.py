"""Names chosen in tables made by hand: keys without a default, columns with other names."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tabellion import Store, config
from tabellion.pipelines.registries import choosing, lookup, submit
from tabellion.pipelines.registries.choosing import NotYetFound, UnknownCompanyName
from tabellion.pipelines.registries.pipeline import PIPELINE
from tabellion.pipelines.registries.settings import settings_of
from tests.engine.made_tables import asynchronous
from tests.pipelines.registries.test_tables import handmade


@pytest.mark.parametrize(
    ("database", "changes"),
    [
        ("sqlite", {}),
        ("postgresql", {}),
        ("postgresql", {"search_name text": "search_name varchar(80)"}),
        ("postgresql", {"uuid PRIMARY KEY DEFAULT gen_random_uuid()": "uuid PRIMARY KEY"}),
        ("postgresql", {"uuid PRIMARY KEY DEFAULT gen_random_uuid()": "bigserial PRIMARY KEY", " uuid": " bigint"}),
        ("postgresql", {"DEFAULT now()": "NOT NULL"}),
        ("sqlite", {"DEFAULT CURRENT_TIMESTAMP": "NOT NULL"}),
    ],
)
@asynchronous
async def test_names_are_chosen_in_tables_made_by_hand(
    tmp_path: Path, database: str, changes: dict[str, str], request: pytest.FixtureRequest
) -> None:
    """A session is submitted and its names become searches, once, with keys and columns as the tables have them."""
    url = request.getfixturevalue("pg_url" if database == "postgresql" else "sqlite_url")
    settings = settings_of(config.load(variables={"TABELLION_DATA": str(tmp_path), "DATABASE_URL": url}))
    async with Store(url) as store:
        for text in handmade(database):
            for old, new in changes.items():
                text = text.replace(old, new)
            await store.database.fetch(text)
        await PIPELINE.prepare(store)
        id_ = await submit.add_session(store, settings, "Désilets")
        assert await lookup.get_session(store, settings, "none") is None
        with pytest.raises(NotYetFound):
            await choosing.choose_names(store, settings, id_, ["Désilets Express"])
        await store.database.fetch("UPDATE search_sessions SET status = 'pending_name_selection'")
        names = json.dumps([{"name": "Désilets Express", "state": ""}, {"name": "Transports Désilets", "state": ""}])
        clock = "now()" if database == "postgresql" else "1.0"
        await store.database.fetch(
            f"""INSERT INTO tabellion_registry_companies (search_session_id, data, names, found_at)
VALUES ($1, '{{}}', $2, {clock})""",
            id_,
            names,
        )
        with pytest.raises(UnknownCompanyName):
            await choosing.choose_names(store, settings, id_, ["Désilets Express", "Autre"])
        assert await lookup.list_rights(store, settings) == []
        for _ in range(2):
            searches = await choosing.choose_names(store, settings, id_, ["Désilets Express"])
        [search] = searches
        assert (search["name"], search["status"], search["search_session_id"]) == (
            "Désilets Express", "pending", id_,
        )  # fmt: skip
        assert search["id"] not in ("", "None")
