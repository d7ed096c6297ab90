"""Alive, ready, idle, working, unreachable: told apart."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Any

from tabellion.engine import roster
from tabellion.engine.roster import Member
from tabellion.engine.store import Store
from tests.faults.proxy import proxied
from tests.servers import Postgres
from tests.waiting import eventually
from tests.web.live import Live, live, problem


def member(queues: str = "documents", busy: int = 0) -> Member:
    """A worker that tells of itself."""
    return Member("w", "h", 1, "b", "1", queues, 4, busy=busy)


def test_a_process_that_answers_is_alive(web: Live) -> None:
    """Whatever the database does."""
    answer = web.get("/healthz", key=None)
    assert (answer.status_code, answer.json()) == (200, {"status": "alive"})


def test_ready_needs_a_worker_for_documents(web_any: Live) -> None:
    """503 with the reason without one; with one, idle and working are told apart."""
    answer = web_any.get("/readyz", key=None)
    assert answer.status_code == 503
    assert "no worker for documents" in answer.json()["reasons"][0]

    def seen(one: Member) -> Any:
        async def story(store: Store) -> None:
            await roster.enlist(store, one)
            await roster.beat(store, one)

        web_any.store("prod", story)
        return web_any.get("/readyz", key=None)

    assert seen(member("other")).status_code == 503
    answer = seen(member())
    assert (answer.status_code, answer.json()["status"], answer.json()["reasons"]) == (200, "ready", [])
    assert answer.json()["environments"] == [{"name": "prod", "database": "ok", "workers": 1, "state": "idle"}]
    assert seen(member(busy=3)).json()["environments"][0]["state"] == "working"


def test_a_database_without_tables_is_told(tmp_path: Path) -> None:
    """Not migrated is not unreachable."""
    url = f"sqlite:///{tmp_path}/p.db"
    with live(tmp_path, {"prod": url}) as web:
        web.sql("DROP TABLE documents_schema")
        answer = web.get("/readyz", key=None)
        assert answer.status_code == 503
        assert answer.json()["environments"][0]["database"] == "not_migrated"
        assert "tabellion migrate" in answer.json()["reasons"][0]


def test_a_database_that_is_away_is_told_and_found_again(tmp_path: Path, postgres18: Postgres) -> None:
    """503 without its address; 200 for being alive; and no restart is needed when it is back."""
    with proxied(postgres18.create_database("away")) as proxy, live(tmp_path, {"prod": proxy.url}) as web:
        web.store("prod", lambda store: roster.enlist(store, member()))
        assert web.get("/readyz", key=None).status_code == 200
        proxy.refuse()
        answer = web.get("/readyz", key=None)
        assert answer.status_code == 503
        assert answer.json()["environments"][0] == {
            "name": "prod", "database": "unreachable", "workers": None, "state": "unreachable"
        }  # fmt: skip
        assert str(proxy.port) not in answer.text
        assert web.get("/healthz", key=None).status_code == 200
        problem(web.get("/api/documents"), 503, "database_unreachable")
        proxy.refuse(False)
        eventually(lambda: web.get("/readyz", key=None).status_code == 200)
        assert web.get("/api/documents").status_code == 200


def test_an_environment_that_is_away_does_not_hide_the_others(tmp_path: Path) -> None:
    """Each is told by name, and none of their addresses is."""
    urls = {"prod": f"sqlite:///{tmp_path}/p.db", "dev": f"sqlite:///{tmp_path}/gone/d.db"}
    with live(tmp_path, urls) as web:
        for name in urls:
            web.store(name, lambda store: roster.enlist(store, member()))
        assert web.get("/readyz", key=None).status_code == 200
        asyncio.run(_spoil(tmp_path / "gone" / "d.db"))
        answer = web.get("/readyz", key=None)
        assert answer.status_code == 503
        states = {one["name"]: one["database"] for one in answer.json()["environments"]}
        assert states["prod"] == "ok"
        assert states["dev"] in ("unreachable", "not_migrated")
        assert str(tmp_path) not in answer.text


async def _spoil(path: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        for name in ("", "-wal", "-shm"):
            file = path.with_name(path.name + name)
            if file.exists():
                file.write_bytes(b"not a database" * 1000)
