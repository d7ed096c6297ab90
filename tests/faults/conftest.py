"""A PostgreSQL server that fault tests may crash, freeze and fill."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.servers import Postgres, postgres


@pytest.fixture(scope="session")
def own_server() -> Iterator[Postgres]:
    """A server with durable settings and few connections, for the tests that break it."""
    with postgres(durable=True, settings={"max_connections": "80"}) as server:
        yield server
