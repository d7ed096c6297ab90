"""Alive, ready, idle, working and unreachable are distinguished."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from pathlib import Path
from typing import Any

import pytest

from tabellion.engine.store import Store
from tabellion.engine.worker import heartbeat as roster
from tabellion.engine.worker.heartbeat import WorkerRecord
from tabellion.storage.lake import Lake
from tabellion.web import health, storage_check
from tabellion.web.environment import ServedEnvironment
from tests.faults.proxy import proxied
from tests.servers import Postgres
from tests.waiting import eventually
from tests.web.live import Live, live, problem


def make_worker(queues: str = "documents", busy: int = 0) -> WorkerRecord:
    """A worker that reports its state."""
    return WorkerRecord("w", "h", 1, "b", "1", queues, 4, busy=busy)


def test_a_process_that_answers_is_alive(web: Live) -> None:
    """Whatever the state of the database."""
    answer = web.get("/healthz", key=None)
    assert (answer.status_code, answer.json()) == (200, {"status": "alive"})


def test_ready_needs_a_worker_for_documents(web_any: Live) -> None:
    """503 with the reason without one; with one, idle and working are distinguished."""
    answer = web_any.get("/readyz", key=None)
    assert answer.status_code == 503
    assert "no worker for documents" in answer.json()["reasons"][0]

    def seen(one: WorkerRecord) -> Any:
        async def story(store: Store) -> None:
            await roster.enlist(store, one)
            await roster.beat(store, one)

        web_any.store("prod", story)
        return web_any.get("/readyz", key=None)

    assert seen(make_worker("other")).status_code == 503
    assert seen(make_worker("documents_gemini")).status_code == 200
    answer = seen(make_worker())
    assert (answer.status_code, answer.json()["status"], answer.json()["reasons"]) == (200, "ready", [])
    assert answer.json()["environments"] == [
        {"name": "prod", "database": "ok", "workers": 1, "state": "idle", "blobs": "ok", "lake": "ok", "disk": "ok"}
    ]
    assert seen(make_worker(busy=3)).json()["environments"][0]["state"] == "working"


def test_missing_tables_are_reported(tmp_path: Path) -> None:
    """Not migrated is not the same as unreachable."""
    url = f"sqlite:///{tmp_path}/p.db"
    with live(tmp_path, {"prod": url}) as web:
        web.sql("DROP TABLE tabellion_documents_schema")
        answer = web.get("/readyz", key=None)
        assert answer.status_code == 503
        assert answer.json()["environments"][0]["database"] == "not_migrated"
        assert "tabellion migrate" in answer.json()["reasons"][0]


def test_a_missing_register_is_reported_without_a_pipeline_too(tmp_path: Path) -> None:
    """With own queues only, `tabellion migrate` creates it."""

    async def ask() -> tuple[health.EnvironmentHealth, str]:
        store = Store(f"sqlite:///{tmp_path}/p.db")
        try:
            return await health.describe_environment(ServedEnvironment("prod", store), [])
        finally:
            await store.close()

    report, reason = asyncio.run(ask())
    assert (report["database"], reason) == ("not_migrated", "the database is not migrated: run `tabellion migrate`")


def test_a_database_that_is_down_is_reported_and_recovers(tmp_path: Path, postgres18: Postgres) -> None:
    """503 without its address; liveness stays 200; no restart is needed when it is back."""
    with proxied(postgres18.create_database("away")) as proxy, live(tmp_path, {"prod": proxy.url}) as web:
        web.store("prod", lambda store: roster.enlist(store, make_worker()))
        assert web.get("/readyz", key=None).status_code == 200
        proxy.refuse()
        answer = web.get("/readyz", key=None)
        assert answer.status_code == 503
        assert answer.json()["environments"][0] == {
            "name": "prod", "database": "unreachable", "workers": None, "state": "unreachable", "blobs": "ok",
            "lake": "ok", "disk": "ok",
        }  # fmt: skip
        assert str(proxy.port) not in answer.text
        assert web.get("/healthz", key=None).status_code == 200
        problem(web.get("/api/documents"), 503, "database_unreachable")
        proxy.refuse(False)
        eventually(lambda: web.get("/readyz", key=None).status_code == 200)
        assert web.get("/api/documents").status_code == 200


def test_an_environment_that_is_down_does_not_hide_the_others(tmp_path: Path) -> None:
    """Each is reported by name, without its address."""
    urls = {"prod": f"sqlite:///{tmp_path}/p.db", "dev": f"sqlite:///{tmp_path}/gone/d.db"}
    with live(tmp_path, urls) as web:
        for name in urls:
            web.store(name, lambda store: roster.enlist(store, make_worker()))
        assert web.get("/readyz", key=None).status_code == 200
        asyncio.run(_spoil(tmp_path / "gone" / "d.db"))
        answer = web.get("/readyz", key=None)
        assert answer.status_code == 503
        states = {one["name"]: one["database"] for one in answer.json()["environments"]}
        assert states == {"prod": "ok", "dev": "unreachable"}
        assert str(tmp_path) not in answer.text


def test_a_lake_that_cannot_be_written_is_reported_and_recovers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """503 with the reason, without its path; ready again once it can be written."""
    monkeypatch.setattr(storage_check, "KEPT", 0.0)
    with live(tmp_path, {"prod": f"sqlite:///{tmp_path}/p.db"}) as web:
        web.store("prod", lambda store: roster.enlist(store, make_worker()))
        assert web.get("/readyz", key=None).status_code == 200
        (tmp_path / "prod" / "lake").rmdir()
        (tmp_path / "prod" / "lake").touch()
        answer = web.get("/readyz", key=None)
        assert (answer.status_code, answer.json()["environments"][0]["lake"]) == (503, "unwritable")
        [reason] = answer.json()["reasons"]
        assert reason.startswith("prod: the lake is not writable")
        assert str(tmp_path) not in answer.text
        (tmp_path / "prod" / "lake").unlink()
        assert web.get("/readyz", key=None).status_code == 200


def test_a_lake_that_does_not_answer_blocks_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is reported after the timeout, and one check runs at a time however many clients ask; load balancers, which
    do not mind, start none."""
    monkeypatch.setattr(storage_check, "SECONDS", 0.2)
    looks, answers = [], threading.Event()

    def hang(lake: Lake) -> None:
        looks.append(lake)
        answers.wait(30)

    monkeypatch.setattr(Lake, "check", hang)
    with live(tmp_path, {"prod": f"sqlite:///{tmp_path}/p.db"}) as web:
        assert web.get("/readyz?for=requests", key=None).status_code == 200
        assert looks == []
        for _ in range(3):
            assert web.get("/readyz", key=None).json()["environments"][0]["lake"] == "unwritable"
        assert len(looks) == 1
        answers.set()
        eventually(lambda: web.get("/readyz", key=None).json()["environments"][0]["lake"] == "ok")


def test_a_nearly_full_disk_is_reported(tmp_path: Path) -> None:
    """When there is no room for one upload of the largest size."""
    with live(tmp_path, {"prod": f"sqlite:///{tmp_path}/p.db"}, upload_bytes=1 << 60) as web:
        web.store("prod", lambda store: roster.enlist(store, make_worker()))
        answer = web.get("/readyz", key=None)
        assert (answer.status_code, answer.json()["environments"][0]["disk"]) == (503, "full")
        assert "the disk is nearly full" in answer.json()["reasons"][0]


async def _spoil(path: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        for name in ("", "-wal", "-shm"):
            file = path.with_name(path.name + name)
            if file.exists():
                file.write_bytes(b"not a database" * 1000)


def ready(web: Live) -> tuple[int, list[str]]:
    """The readiness response, with a worker."""

    async def story(store: Store) -> None:
        await roster.enlist(store, make_worker())
        await roster.beat(store, make_worker())

    web.store("prod", story)
    answer = web.get("/readyz", key=None)
    return answer.status_code, answer.json()["reasons"]


def test_a_paused_queue_is_not_ready(web_any: Live) -> None:
    """Uploads would wait until it is resumed."""
    assert ready(web_any) == (200, [])
    assert web_any.ask("POST", "/api/queues/documents/pause", json={}).status_code == 200
    status, [reason] = ready(web_any)
    assert (status, reason.startswith("prod: the queue documents is paused")) == (503, True)
    assert web_any.ask("POST", "/api/queues/documents/resume").status_code == 200
    assert ready(web_any) == (200, [])


def test_a_missing_database_file_is_not_ready(tmp_path: Path) -> None:
    """The open file still answers, but what is written to it is lost."""
    with live(tmp_path, {"prod": f"sqlite:///{tmp_path}/p.db"}) as web:
        assert ready(web) == (200, [])
        (tmp_path / "p.db").rename(tmp_path / "gone.db")
        answer = web.get("/readyz", key=None)
        assert (answer.status_code, answer.json()["environments"][0]["database"]) == (503, "unreachable")
        (tmp_path / "gone.db").rename(tmp_path / "p.db")


def test_unwritable_uploads_are_not_ready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder of blobs that cannot be written is reported."""
    monkeypatch.setattr(storage_check, "KEPT", 0.0)
    with live(tmp_path, {"prod": f"sqlite:///{tmp_path}/p.db"}) as web:
        assert ready(web) == (200, [])
        [blobs] = [path for path in tmp_path.rglob("blobs") if path.is_dir()]
        blobs.rename(tmp_path / "aside")
        blobs.write_text("not a folder")
        status, [reason] = ready(web)
        assert (status, "is not writable: nothing can be uploaded" in reason) == (503, True)


def test_a_load_balancer_asks_only_whether_requests_are_answered(tmp_path: Path) -> None:
    """Without a worker, or with one of two databases, pages are still served; without any, they are not."""
    urls = {name: f"sqlite:///{tmp_path}/{name}/d.db" for name in ("prod", "dev")}
    with live(tmp_path, urls) as web:
        assert web.get("/readyz", key=None).status_code == 503
        assert web.get("/readyz?for=requests", key=None).status_code == 200
        asyncio.run(_spoil(tmp_path / "dev" / "d.db"))
        answer = web.get("/readyz?for=requests", key=None)
        assert (answer.status_code, answer.json()["reasons"]) == (200, [])
        asyncio.run(_spoil(tmp_path / "prod" / "d.db"))
        assert web.get("/readyz?for=requests", key=None).status_code == 503
        assert web.get("/readyz?for=fun", key=None).status_code == 422
