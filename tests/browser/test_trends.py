"""Targets and the last seven days on the dashboard, in a real browser."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import expect

from tabellion import Queue, Store
from tabellion.engine.counts import HOUR
from tabellion.engine.sql import NOW
from tabellion.messages import Message
from tabellion.monitor.sla.compliance import dump_problem
from tabellion.monitor.sla.queue_targets import queue_target
from tabellion.monitor.view import QueueView
from tests.browser import axe
from tests.browser.test_dashboard import OVERFLOW, PAINTING, TABLET, Gallery, gallery
from tests.browser.watch import until

if TYPE_CHECKING:
    from playwright.sync_api import Page

__all__ = ["gallery"]  # the fixture


def rise(gallery: Gallery, done: int) -> None:
    """Add a snapshot of paintings for the last full hour, and one of another queue."""
    hour = int(time.time() // HOUR) * HOUR

    async def put(store: Store) -> None:
        for queue, count in (("paintings", done), ("webhooks", 5)):
            await store.database.fetch(
                """INSERT INTO tabellion_snapshots (at, queue, ready, hour_done, hour_failed, hour_retried, hour_cost)
VALUES ($1, $2, 9, $3, 2, 0, 0)""",
                hour, queue, count,
            )  # fmt: skip

    gallery.store(put)


def sums(page: Page, chart: str) -> str:
    """Return the description of a chart for screen readers."""
    return page.locator(f"#{chart} desc").text_content() or ""


@pytest.mark.parametrize("dark", [False, True])
def test_the_last_seven_days_by_queue(gallery: Gallery, *, dark: bool) -> None:
    """The sum of all queues, or one of them; also as a table, on a tablet, and without a fault for axe."""
    rise(gallery, 37)
    options: dict[str, Any] = {"viewport": TABLET, "color_scheme": "dark"} if dark else {}
    with gallery.visit("/dashboard", **options) as page:
        until(page, lambda: "42" in sums(page, "trend-settled"))
        page.locator("#trend-queue").select_option("paintings")
        until(page, lambda: "37" in sums(page, "trend-settled"))
        assert "9" in sums(page, "trend-ready")
        page.locator("#trend-settled summary").click()
        expect(page.locator("#trend-settled tbody tr")).to_have_count(7 * 24)
        expect(page.locator("#trend-settled tbody tr").nth(0)).to_contain_text("–")
        expect(page.locator("#trend-settled tbody tr").nth(1)).to_contain_text("37")
        assert page.evaluate(OVERFLOW) <= 0
        assert axe.findings(page) == []


def test_without_snapshots(gallery: Gallery) -> None:
    """It says when there will be one; without targets their card is hidden."""
    with gallery.visit("/dashboard") as page:
        expect(page.locator("#trends-none")).to_be_visible()
        expect(page.locator("#trends-charts")).to_be_hidden()
        expect(page.locator("#targets-card")).to_be_hidden()


def test_targets_in_french(gallery: Gallery) -> None:
    """Their last value, their limit, the state that alerts are based on, and why one cannot be measured."""
    overview = gallery.live.app.state.auth.environments["prod"].monitor.overview
    view = QueueView(PAINTING)
    sketches = Queue("sketches", ready="new", running="drawn", done="done", failed="torn")
    other = queue_target(QueueView(sketches), "oldest", 900.0)
    overview._targets = [queue_target(view, "oldest", 900.0), queue_target(view, "failed", 0.05), other]

    async def put(store: Store) -> None:
        await store.database.fetch(
            f"""INSERT INTO tabellion_sla (target, state, since, value, checked_at, turn)
VALUES ('queues.paintings.oldest', 'breached', {NOW}, 1260, {NOW}, 1)"""
        )
        await store.database.fetch(
            f"""INSERT INTO tabellion_sla (target, state, since, problem, checked_at, turn)
VALUES ('queues.sketches.oldest', 'ok', {NOW}, $1, {NOW}, 1)""",
            dump_problem(Message("sla.no_created_at", table="sketches")),
        )

    gallery.store(put)
    with gallery.visit("/dashboard", locale="fr-FR") as page:
        rows = page.locator("#targets tr")
        expect(rows).to_have_count(3)
        for text in ("queues.paintings.oldest", "non respecté", "21 min", "≤ 15 min"):
            expect(rows.nth(0)).to_contain_text(text)
        expect(rows.nth(1)).to_contain_text("pas encore vérifié")
        why = "aucune colonne de sketches n’a l’heure de création d’une ligne"
        expect(rows.nth(2).locator(".badge")).to_have_attribute("title", why)
        assert axe.findings(page) == []
