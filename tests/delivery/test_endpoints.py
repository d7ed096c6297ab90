"""The tables of webhooks and the types of their rows."""

from __future__ import annotations

import pytest

from tabellion.delivery import endpoints
from tabellion.delivery.deliveries import STATES, DeliveryRow
from tabellion.delivery.endpoints import EndpointRow
from tabellion.delivery.outbox import DeliveryResult
from tabellion.engine.store import Store
from tests.workers import ask

ROWS = {"tabellion_webhook_endpoints": EndpointRow, "tabellion_webhook_deliveries": DeliveryRow}


@pytest.mark.parametrize("table", ROWS)
def test_a_row_type_has_the_columns_of_its_table(url: str, table: str) -> None:
    """A column that is added to one of them must be added to the other."""
    assert set(ROWS[table].__annotations__) == ask(url, lambda store: columns(store, table))


def test_a_handler_sets_columns_of_its_delivery() -> None:
    """The result of a delivery is written to its row."""
    assert DeliveryResult.__annotations__.keys() <= DeliveryRow.__annotations__.keys()


def test_an_endpoint_counts_every_delivery(url: str) -> None:
    """Including those being sent: each is in one of its four states."""

    async def story(store: Store) -> None:
        endpoint = await endpoints.add(store, "https://example.com/hook")
        for number, status in enumerate(["pending", "sending", "sending", "delivered", "failed"]):
            await store.database.fetch(
                "INSERT INTO tabellion_webhook_deliveries (id, endpoint_id, document_id, event, body, status) "
                "VALUES ($1, $2, 'd1', 'document.completed', '{}', $3)",
                str(number), endpoint.id, status,
            )  # fmt: skip
        [listed] = await endpoints.list_endpoints(store)
        assert [listed[state] for state in STATES] == [1, 2, 1, 1]

    ask(url, story)


async def columns(store: Store, name: str) -> set[str]:
    await endpoints.SCHEMA.prepare(store)
    table = await store.database.table(name)
    assert table is not None
    return set(table.columns)
