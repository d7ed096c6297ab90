"""Brokers and fleets for the tests of Celery."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.brokers import NO_RABBIT, Broker, broker, has_rabbitmq
from tests.engine.celery.fleets import Fleet, create_tables, fleet_of
from tests.servers import Postgres


@pytest.fixture(scope="session")
def valkey_broker() -> Iterator[Broker]:
    """A Valkey server for the whole run."""
    with broker("valkey") as server:
        yield server


@pytest.fixture(scope="session")
def rabbitmq_broker() -> Iterator[Broker]:
    """A RabbitMQ node for the whole run, where the system has its programs."""
    if not has_rabbitmq():
        pytest.skip(NO_RABBIT)
    with broker("rabbitmq") as server:
        yield server


@pytest.fixture(scope="module", params=["embedded", "valkey", "rabbitmq"])
def fleet(
    request: pytest.FixtureRequest, postgres18: Postgres, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Fleet]:
    """A node with two processes: the embedded worker, and Celery with each broker."""
    engine = request.param
    server = None if engine == "embedded" else request.getfixturevalue(f"{engine}_broker")
    url = postgres18.create_database(f"conformance_{engine}")
    create_tables(url)
    with fleet_of(url, tmp_path_factory.mktemp(engine), server) as fleet:
        yield fleet
