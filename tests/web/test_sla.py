"""/api/sla and /api/trends: targets measured now, and every queue by hour."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from tabellion import Store
from tabellion.config import load
from tabellion.engine.counts import HOUR
from tabellion.installed_pipelines import find_pipelines
from tabellion.monitor.sla.checks import SlaChecks
from tabellion.monitor.sla.compliance import TargetPicture
from tabellion.web.app import make_app, serve_environment
from tests.web.live import Live

SETTINGS = '[sla]\nfor = 0\n[sla.queues.documents]\noldest = "15m"\n[sla.types.invoice]\nreviewed = 0.95\n'


def test_without_targets(web: Live) -> None:
    """Everything is kept, and nobody but those who may look sees it."""
    found = web.ask("GET", "/api/sla", key=web.key("viewer")).json()
    assert (found["kept"], found["targets"]) == (True, [])
    assert web.ask("GET", "/api/sla", key=web.key("metrics")).status_code == 403


def test_trends_of_a_queue(web: Live) -> None:
    """The hours of a week, the current one last; throughput is of the hour before its snapshot."""
    hour = int(time.time() // HOUR) * HOUR

    async def put(store: Store) -> None:
        for at, ready, done in ((hour - 2 * HOUR, 7, 3), (hour - HOUR, None, 4)):
            await store.database.fetch(
                """INSERT INTO tabellion_snapshots (at, queue, ready, hour_done, hour_failed, hour_retried, hour_cost)
VALUES ($1, 'documents', $2, $3, 1, 0, 0.5)""",
                at, ready, done,
            )  # fmt: skip

    web.store("prod", put)
    found = web.ask("GET", "/api/trends", key=web.key("viewer")).json()
    [queue] = [one for one in found["queues"] if one["queue"] == "documents"]
    assert len(queue["ready"]) == len(queue["done"]) == 7 * 24
    assert (queue["ready"][-4:], queue["done"][-4:]) == ([None, 7, None, None], [3, 4, None, None])
    assert (queue["failed"][-3], queue["cost"][-3], queue["oldest_seconds"][-3]) == (1, 0.5, None)
    assert len(web.ask("GET", "/api/trends?days=1").json()["queues"][0]["done"]) == 24
    assert web.ask("GET", "/api/trends?days=32").status_code == 422


def test_targets_are_measured_and_shown(tmp_path: Path) -> None:
    """Now, with the state of the last check; the overview has the last check only."""
    file = tmp_path / "tabellion.toml"
    file.write_text(f'data = "{tmp_path}/data"\n[environments]\nprod = "sqlite:///{tmp_path}/p.db"\n{SETTINGS}')
    config, pipelines = load(file, {}), find_pipelines(["documents"])

    async def go() -> tuple[list[TargetPicture], list[TargetPicture]]:
        async with Store(config.environments[0].url) as store:
            for pipeline in pipelines:
                await pipeline.prepare(store)
            environment = serve_environment(config, pipelines, "prod", store)
            make_app(config, [environment], pipelines)
            before = (await environment.monitor.overview.look())["targets"]
            await SlaChecks("prod", environment.views, environment.targets, 0.0).run(store, lambda name, *, note: None)
            return before, (await environment.monitor.overview.look())["targets"]

    before, after = asyncio.run(go())
    assert [one["target"] for one in after] == ["queues.documents.oldest", "types.invoice.reviewed"]
    assert [one["kept"] for one in before] == [None, None]
    assert [one["kept"] for one in after] == [True, True]
