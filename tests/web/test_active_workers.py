"""The active workers of all environments: for admins of the served one, read-only, and only if switched on."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from tabellion import Store
from tabellion.engine.worker import heartbeat as roster
from tabellion.engine.worker.heartbeat import WorkerRecord
from tests.waiting import eventually
from tests.web.browser import signed_in
from tests.web.live import Live, live, problem

PATH = "/api/active-workers"
SECTION = 'id="all-workers"'


async def enlist(url: str, worker: str) -> None:
    """Register a live worker of documents in this database."""
    async with Store(url) as store:
        await roster.enlist(store, WorkerRecord(worker, "host", 1, f"boot of {worker}", "0.1", "documents", 4))


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """One environment is served; of the others in its configuration, one works and two do not."""
    folder = tmp_path_factory.mktemp("several")
    urls = {name: f"sqlite:///{folder}/{name}.db" for name in ("prod", "dev", "bare")}
    for name in ("prod", "dev"):
        asyncio.run(enlist(urls[name], f"worker of {name}"))
    (folder / "bare.db").touch()
    unserved = {"dev": urls["dev"], "bare": urls["bare"], "away": "postgresql://p:secret@127.0.0.1:9/nothing"}
    with live(folder, {"prod": urls["prod"]}, unserved=unserved) as web:
        yield web


def test_an_admin_sees_the_workers_of_all_environments(several: Live) -> None:
    """In configuration order; an environment's problem is one word, without its address."""
    answer = eventually(lambda: "too_slow" not in (latest := several.get(PATH)).text and latest, every=1)
    idle = {"queue": None, "jobs": 0, "oldest_at": None, "newest_at": None, "note": None, "translatable": None}
    assert answer
    assert answer.json() == {
        "workers": [
            {"environment": name, "worker": f"worker of {name}", **idle, "registered": True} for name in ("prod", "dev")
        ],
        "problems": [
            {"environment": "bare", "problem": "not_migrated"},
            {"environment": "away", "problem": "unreachable"},
        ],
    }


@pytest.mark.parametrize("role", ["viewer", "reviewer", "operator"])
def test_only_admins_see_them(several: Live, role: str) -> None:
    """Neither the API nor the dashboard shows them to other roles."""
    problem(several.get(PATH, key=several.key(role)), 403, "role_required")
    assert SECTION not in signed_in(several, role).get("/dashboard").text
    assert SECTION in signed_in(several, "admin").get("/dashboard").text


def test_it_can_be_switched_off(tmp_path: Path) -> None:
    """Then the route does not exist, and the dashboard does not request it."""
    unserved = {"dev": f"sqlite:///{tmp_path}/dev.db"}
    with live(tmp_path, {"prod": f"sqlite:///{tmp_path}/prod.db"}, unserved=unserved, all_workers=False) as web:
        assert "server.all_workers" in problem(web.get(PATH), 404, "not_found")["fix"]
        assert SECTION not in signed_in(web, "admin").get("/dashboard").text


def test_the_dashboard_of_a_single_environment_has_no_second_list(web: Live) -> None:
    """The list would repeat that of its workers; the API still has it."""
    assert SECTION not in signed_in(web, "admin").get("/dashboard").text
    assert web.get(PATH).json() == {"workers": [], "problems": []}
