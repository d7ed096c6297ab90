"""API keys: their form, their hash, their lifetime."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator

import pytest

from tabellion.accounts import audit, keys
from tabellion.accounts.roles import Role
from tabellion.engine.postgres.database import PostgreSQL
from tabellion.engine.store import Store
from tabellion.errors import ConfigurationError
from tests.workers import ask


def test_a_key_names_its_environment_and_hides_its_secret(url: str) -> None:
    """32 random bytes, stored as a hash only; printing a parsed key shows no secret."""

    async def story(store: Store) -> None:
        id_, text = await keys.create(store, "prod_eu", "operator", "scanner")
        assert re.fullmatch(rf"tab_prod_eu_{id_}_[0-9a-f]{{64}}", text)
        key = keys.parse(text)
        assert key is not None
        assert (key.environment, key.id, str(key)) == ("prod_eu", id_, text)
        assert key.secret not in repr(key)
        holder = await keys.holder(store, key)
        assert holder == keys.Holder(id_, "prod_eu", Role.OPERATOR, "scanner")
        dump = str(await store.database.fetch("SELECT * FROM tabellion_api_keys"))
        assert key.secret not in dump
        assert key.hash in dump

    ask(url, story)


def test_a_key_is_valid_until_revoked_or_expired(url: str) -> None:
    """And the list says which."""

    async def story(store: Store) -> None:
        created = {}
        for name, seconds in (("lasting", None), ("short", 0.001), ("long", 3600.0), ("revoked", None)):
            created[name] = await keys.create(store, "prod", "viewer", name, seconds=seconds)
        assert await keys.revoke(store, "prod", created["revoked"][0])
        assert not await keys.revoke(store, "prod", created["revoked"][0])
        assert not await keys.revoke(store, "other", created["lasting"][0])
        after = await store.now() + 0.002  # later than the key of a millisecond, by the clock that judges it
        while await store.now() < after:
            pass
        states = {row["name"]: row["state"] for row in await keys.list_keys(store, "prod")}
        assert states == {"lasting": "active", "short": "expired", "long": "active", "revoked": "revoked"}
        for name, (_, text) in created.items():
            key = keys.parse(text)
            assert key is not None
            assert (await keys.holder(store, key) is not None) == (states[name] == "active")
        assert await keys.list_keys(store, "other") == []
        assert await keys.any_alive(store, "prod")
        assert not await keys.any_alive(store, "other")

    ask(url, story)


def test_a_key_of_another_environment_or_secret_is_invalid(url: str) -> None:
    """Even if two environments share a database."""

    async def story(store: Store) -> None:
        _, text = await keys.create(store, "prod", "admin")
        key = keys.parse(text)
        assert key is not None
        assert await keys.holder(store, keys.ApiKey("dev", key.id, key.secret)) is None
        assert await keys.holder(store, keys.ApiKey("prod", key.id, "0" * 64)) is None
        assert await keys.holder(store, keys.ApiKey("prod", "0" * 12, key.secret)) is None
        await store.database.fetch("UPDATE tabellion_api_keys SET role = 'emperor'")
        assert await keys.holder(store, key) is None

    ask(url, story)


def test_the_last_use_of_a_key_is_recorded(url: str) -> None:
    """So that unused keys can be found."""

    async def story(store: Store) -> None:
        id_, _ = await keys.create(store, "prod", "admin")
        assert (await keys.list_keys(store, "prod"))[0]["last_used_at"] is None
        await keys.note(store, id_)
        [listed] = await keys.list_keys(store, "prod")
        assert listed["last_used_at"] is not None
        assert abs(listed["last_used_at"] - await store.now()) < 60

    ask(url, story)


@pytest.mark.parametrize(
    "text",
    ["", "tab", "tab_prod", "tab__0_0", "tab_prod_" + "0" * 12 + "_" + "0" * 63, "TAB_x_" + "0" * 12 + "_" + "0" * 64],
)
def test_an_invalid_key_is_not_looked_up(text: str) -> None:
    """Nothing is queried for it."""
    assert keys.parse(text) is None


def test_a_name_belongs_to_one_key_at_a_time(url: str) -> None:
    """A caller is known by its key's name; once it is revoked, the name is free. All of it is audited."""

    async def story(store: Store) -> None:
        first, _ = await keys.create(store, "prod", "reviewer", "bob")
        with pytest.raises(keys.NameTaken, match="a key named 'bob' already exists"):
            await keys.create(store, "prod", "viewer", "bob")
        await keys.create(store, "test", "viewer", "bob")
        for _ in range(2):
            await keys.create(store, "prod", "viewer")
        assert await keys.revoke(store, "prod", first)
        assert not await keys.revoke(store, "prod", first)
        await keys.create(store, "prod", "viewer", "bob")
        actions = await store.database.fetch("SELECT action FROM tabellion_audit_log ORDER BY n")
        assert [row["action"] for row in actions] == [*["key_made"] * 4, "key_revoked", "key_made"]
        assert (await audit.verify(store)).whole

    ask(url, story)


def test_of_concurrent_keys_with_one_name_one_is_created(url: str) -> None:
    """One of them gets it, and the audit log has only that one."""

    async def story(store: Store) -> None:
        await keys.create(store, "prod", "viewer")
        async with audit_held(store):
            attempts = [asyncio.create_task(keys.create(store, "prod", "viewer", "bob")) for _ in range(2)]
            if store.dialect == "postgresql":
                await both_waiting(store)
        created = await asyncio.gather(*attempts, return_exceptions=True)
        assert sum(isinstance(one, tuple) for one in created) == 1
        assert sum(isinstance(one, keys.NameTaken) for one in created) == 1
        assert len(await store.database.fetch("SELECT n FROM tabellion_audit_log")) == 2

    ask(url, story)


@contextlib.asynccontextmanager
async def audit_held(store: Store) -> AsyncIterator[None]:
    """Block transactions that write to the audit log; SQLite has one writer at a time anyway."""
    if isinstance(store.database, PostgreSQL):
        async with store.database.connection() as connection, connection.transaction():
            await connection.execute("SELECT id FROM tabellion_audit_head FOR UPDATE")
            yield
    else:
        yield


async def both_waiting(store: Store) -> None:
    """Return when two transactions wait for a lock."""
    waiting = """SELECT count(*) AS n FROM pg_stat_activity
WHERE datname = current_database() AND wait_event_type = 'Lock'"""
    async with asyncio.timeout(30):
        while (await store.database.fetch(waiting))[0]["n"] < 2:
            await asyncio.sleep(0.01)


def test_a_name_that_is_too_long_is_rejected(sqlite_url: str) -> None:
    """Truncated, two keys would be one in the audit log."""

    async def story(store: Store) -> None:
        await keys.create(store, "prod", "viewer", "n" * 100)
        with pytest.raises(ConfigurationError, match="at most 100 characters"):
            await keys.create(store, "prod", "viewer", "n" * 101)

    ask(sqlite_url, story)


def test_an_invalid_role_or_lifetime_is_rejected(sqlite_url: str) -> None:
    """With the known roles."""

    async def story(store: Store) -> None:
        with pytest.raises(ConfigurationError, match="viewer, reviewer, operator, admin"):
            await keys.create(store, "prod", "root")
        with pytest.raises(ConfigurationError, match="positive time"):
            await keys.create(store, "prod", "admin", seconds=-1)

    ask(sqlite_url, story)
