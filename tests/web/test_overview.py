"""/api/overview: everything the dashboard shows, once or as it changes."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

import pytest
from pydantic import TypeAdapter

from tabellion import Queue, Store
from tabellion.config import Config
from tabellion.engine.environment import Environment
from tabellion.engine.gates.row import GateRow
from tabellion.engine.gates.state import CallOutcomes, GateSettings
from tabellion.engine.worker import heartbeat as roster
from tabellion.monitor.overview import OverviewPicture
from tabellion.monitor.view import QueueView
from tabellion.pipelines.documents.pipeline import PIPELINE, DocumentsPipeline
from tabellion.web import health
from tabellion.web.app import make_app, serve_environment
from tests.models.bills import bill
from tests.monitor.test_workers import member
from tests.web.live import Live, live, problem
from tests.web.test_events import data, listening

EVENTS = "/api/overview/events"


def test_the_overview_has_all_parts(web_any: Live) -> None:
    """Its parts equal what the other routes return."""
    web_any.upload(bill())
    web_any.store("prod", lambda store: roster.enlist(store, member("w1")))
    gate = CallOutcomes(ok=1, spent=0.25)
    web_any.store("prod", lambda store: GateRow(store, "gemini", GateSettings()).turn(gate, 0))
    viewer = web_any.key("viewer")
    whole = web_any.get("/api/overview", key=viewer).json()
    assert whole["environment"] == "prod"
    assert [one["id"] for one in whole["workers"]] == ["w1"]
    assert [(one["name"], one["spent"]) for one in whole["gates"]] == [("gemini", 0.25)]
    assert (whole["sla"]["open"], whole["spend"]["today"]) == (0, 0)
    assert len(whole["series"]["minutes"]["done"]) == 60
    assert len(whole["series"]["hours"]["done"]) == 24
    assert web_any.get("/api/workers", key=viewer).json()["workers"][0]["state"] == "alive"
    assert web_any.get("/api/gates", key=viewer).json()["gates"] == whole["gates"]


def test_changes_are_streamed(web_any: Live) -> None:
    """The whole document first, then again when something has changed."""
    with listening(web_any, EVENTS) as stream:
        assert next(stream) == {"retry": "2000"}
        first = next(stream)
        assert first["event"] == "overview"
        assert data(first)["queues"][0]["ready"] == 0
        web_any.upload(bill())
        event = next(stream)
        while data(event)["queues"][0]["ready"] == 0:
            event = next(stream)
        assert data(event)["queues"][0]["ready"] == 1


def test_two_servers_show_the_same(web_any: Live) -> None:
    """An action on one is visible on the other: all state is in the database."""
    with live(web_any.folder / "second", web_any.urls) as other, listening(other, EVENTS) as stream:
        next(stream)
        assert data(next(stream))["queues"][0]["paused"] is False
        web_any.ask("POST", "/api/queues/documents/pause", json={"reason": "lunch"})
        overview = data(next(stream))
        while not overview["queues"][0]["paused"]:
            overview = data(next(stream))
        assert overview["queues"][0]["reason"] == "lunch"


def test_other_queues_can_be_configured(tmp_path: Path) -> None:
    """Beside those of pipelines."""
    config = Config(environments=(Environment("prod", f"sqlite:///{tmp_path}/p.db"),), data=tmp_path / "data")
    mine = Queue("mine", ready=1, running=2, done=3, failed=4)
    for pipelines, own in (([], [QueueView(mine)]), ([PIPELINE], []), ([PIPELINE], [QueueView(mine)])):
        environment = serve_environment(config, pipelines, "prod", Store(config.environments[0].url), own=own)
        make_app(config, [environment], pipelines)
        seen = {queue.name for queue in environment.monitor.overview.queues}
        assert ("mine" in seen) == bool(own)
        assert ({"documents", "review"} <= seen) == bool(pipelines)


def test_parts_of_missing_pipelines_are_left_out(tmp_path: Path) -> None:
    """Without documents there is no SLA and no lake, and responses still match OpenAPI."""
    config = Config(environments=(Environment("prod", f"sqlite:///{tmp_path}/p.db"),), data=tmp_path / "data")

    async def go() -> tuple[OverviewPicture, health.EnvironmentHealth]:
        async with Store(config.environments[0].url) as store:
            environment = serve_environment(config, [], "prod", store)
            make_app(config, [environment], [])
            return await environment.monitor.picture(), (await health.describe_environment(environment, []))[0]

    picture, station = asyncio.run(go())
    TypeAdapter(OverviewPicture).validate_python(picture)
    TypeAdapter(health.EnvironmentHealth).validate_python(station)
    assert "sla" not in picture


class Gated(DocumentsPipeline):
    """Documents, with its own gates."""

    def gates(self, config: Config) -> Mapping[str, GateSettings]:
        """Two gates, of which the configuration changes one."""
        return {"site": GateSettings(rate=2.0, min_rate=0.05, max_rate=5.0), "other": GateSettings(max_rate=5.0)}


def test_gates_have_the_settings_of_their_pipelines(tmp_path: Path) -> None:
    """The configuration overrides them."""
    urls = {"prod": f"sqlite:///{tmp_path}/prod.db"}
    with live(tmp_path, urls, pipelines=[Gated()], gates={"other": GateSettings(max_rate=7.0)}) as web:
        gates = {one["name"]: one for one in web.get("/api/gates", key=web.key("viewer")).json()["gates"]}
    assert (gates["site"]["min_rate"], gates["site"]["max_rate"]) == (0.05, 5.0)
    assert gates["other"]["max_rate"] == 7.0


def test_environments_are_separate(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Each key sees its own queues; gates are those of their home environment, even where it is not served."""
    folder = tmp_path_factory.mktemp("apart")
    urls = {name: f"sqlite:///{folder}/{name}.db" for name in ("prod", "dev")}
    home = Environment("home", f"sqlite:///{folder}/home.db")

    async def spend() -> None:
        async with home.store() as store:
            await GateRow(store, "gemini", GateSettings()).turn(CallOutcomes(ok=1, spent=2.5), 0)

    asyncio.run(spend())
    with live(folder, urls, gates_at=home) as web:
        web.upload(bill(), key=web.key("operator", "prod"))
        for name, ready in (("prod", 1), ("dev", 0)):
            body = web.get("/api/overview", key=web.key("viewer", name)).json()
            assert (body["environment"], body["queues"][0]["ready"]) == (name, ready)
            assert [one["spent"] for one in body["gates"]] == [2.5]
        problem(web.get("/api/overview?unknown=1"), 422, "value_unknown")
