"""Nothing leaves this machine: neither the pages nor the service contact another host."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser

from tests.browser import isolated_network
from tests.browser.installation import Visitor


def test_every_page_contacts_its_own_server_only(visitor: Visitor) -> None:
    """Everything a browser fetches for all pages comes from their own origin."""
    for page in visitor.visit_all():
        assert page.url.startswith(visitor.installation.url)
    assert len(visitor.watch.asked) > 20
    assert {
        url for url in visitor.watch.asked if not url.startswith((f"{visitor.installation.url}/", "blob:"))
    } == set()


@pytest.mark.timeout(180)
def test_no_packet_leaves(chromium: Browser) -> None:
    """With every packet recorded, service and browser together send to loopback alone."""
    if sentence := isolated_network.why_not():
        pytest.skip(sentence)
    recorded = isolated_network.record_visit(within=170)
    assert recorded["outside"] == {}
    assert recorded["loopback"]["packets"] > 200
