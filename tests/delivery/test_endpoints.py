"""The tables of webhooks and the types of their rows."""

from __future__ import annotations

import pytest

from tabellion.delivery import endpoints
from tabellion.delivery.endpoints import EndpointRow
from tabellion.delivery.outbox import DeliveryResult, DeliveryRow
from tabellion.engine.store import Store
from tests.working import ask

ROWS = {"tabellion_webhook_endpoints": EndpointRow, "tabellion_webhook_deliveries": DeliveryRow}


@pytest.mark.parametrize("table", ROWS)
def test_a_row_type_has_the_columns_of_its_table(url: str, table: str) -> None:
    """A column that is added to one of them must be added to the other."""
    assert set(ROWS[table].__annotations__) == ask(url, lambda store: columns(store, table))


def test_a_handler_sets_columns_of_its_delivery() -> None:
    """What a delivery results in is written to its row."""
    assert DeliveryResult.__annotations__.keys() <= DeliveryRow.__annotations__.keys()


async def columns(store: Store, name: str) -> set[str]:
    await endpoints.SCHEMA.prepare(store)
    table = await store.database.table(name)
    assert table is not None
    return set(table.columns)
