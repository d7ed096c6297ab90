"""Several environments on the embedded worker and on Celery: earlier ones come first, whatever waits in later ones."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest

from tests.brokers import Broker
from tests.engine.celery.fleets import PROCESSES, create_tables, fleet_of
from tests.servers import Postgres
from tests.table_owner import owning
from tests.waiting import eventually

pytestmark = pytest.mark.timeout(180)
ROWS = 60
STATES = "SELECT id, status FROM flows WHERE flow = 'hogging' ORDER BY id"


@pytest.mark.parametrize("engine", ["embedded", "valkey", "rabbitmq"])
def test_an_earlier_environment_comes_first(
    engine: str, request: pytest.FixtureRequest, postgres18: Postgres, tmp_path: Path
) -> None:
    """A backlog in a later environment does not delay a row of an earlier one for longer than a few of its jobs."""
    server: Broker | None = None if engine == "embedded" else request.getfixturevalue(f"{engine}_broker")
    prod, dev = (postgres18.create_database(f"{name}_{engine}") for name in ("prod", "dev"))
    create_tables(prod)
    create_tables(dev)
    with (
        owning(dev, create=False) as owner,
        fleet_of(prod, tmp_path, server, later=dev, settings="poll = 0.1") as fleet,
    ):
        owner(
            "INSERT INTO flows (flow, input) SELECT 'hogging', $1::text || n FROM generate_series(1, $2::int) AS n",
            f"{tmp_path}/go-", ROWS,
        )  # fmt: skip
        eventually(lambda: [row["status"] for row in owner(STATES)].count("running") == PROCESSES)
        (tmp_path / "now").touch()
        [key] = fleet.insert("hogging", given=str(tmp_path / "now"))
        for number, row in enumerate(owner(STATES), start=1):
            (tmp_path / f"go-{number}").touch()
            done = "SELECT 1 FROM flows WHERE id = $1 AND status = 'done'"
            eventually(functools.partial(owner, done, row["id"]))
            if fleet.row(key)["status"] == "done":
                break
        assert fleet.row(key)["status"] == "done"
        assert [row["status"] for row in owner(STATES)].count("new") > ROWS // 4
        for number in range(1, ROWS + 1):
            (tmp_path / f"go-{number}").touch()
