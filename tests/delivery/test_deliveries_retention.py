"""Accepted deliveries are removed after a while; the others stay."""

from __future__ import annotations

import time

from tabellion import Store
from tabellion.delivery import endpoints
from tabellion.delivery.deliveries_retention import DeliveriesRule
from tabellion.engine.retention import PruneStep
from tests.workers import ask

MONTH = 30 * 86_400.0


def test_deliveries_are_kept_for_a_while(url: str) -> None:
    """Accepted ones for the time given; failed ones until someone resends or deletes them."""
    now = "0.0 + $4" if url.startswith("sqlite") else "to_timestamp(CAST($4 AS double precision))"
    insert = f"""INSERT INTO tabellion_webhook_deliveries
  (id, endpoint_id, document_id, event, body, status, finished_at) VALUES ($1, 'e', 'd', $2, 'b', $3, {now})"""

    async def story(store: Store) -> None:
        await endpoints.SCHEMA.prepare(store)
        statuses = ["failed", "pending", "sending", *["delivered"] * 2501]
        ages = [2, 2, 2, 0, *[2] * 2500]
        await store.database.transact(
            [
                (insert, (f"{number:04}", "document.completed", status, time.time() - age * MONTH))
                for number, (status, age) in enumerate(zip(statuses, ages, strict=True))
            ]
        )
        for dry_run, expected in ((True, 2500), (False, 2500), (False, 0)):
            total = await DeliveriesRule(MONTH).step(store, None, dry_run=dry_run)
            while total.position is not None:
                total += await DeliveriesRule(MONTH).step(store, total.position, dry_run=dry_run)
            assert total.removed == expected
        left = await store.database.fetch("SELECT id FROM tabellion_webhook_deliveries ORDER BY id")
        assert [row["id"] for row in left] == ["0000", "0001", "0002", "0003"]

    ask(url, story)


def test_without_webhooks_there_is_nothing_to_do(url: str) -> None:
    """Their tables are created with the first endpoint."""

    async def story(store: Store) -> None:
        await store.open()
        assert await DeliveriesRule(MONTH).step(store, None) == PruneStep()

    ask(url, story)
