"""Nothing leaves this machine: neither the pages nor the service behind them ask anybody else for anything."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser

from tests.browser import island
from tests.browser.site import Visitor


def test_every_page_asks_its_own_server_only(visitor: Visitor) -> None:
    """All that a browser fetches for all pages comes from where the pages come from."""
    for page in visitor.stroll():
        assert page.url.startswith(visitor.site.url)
    assert len(visitor.watch.asked) > 20
    assert {url for url in visitor.watch.asked if not url.startswith((f"{visitor.site.url}/", "blob:"))} == set()


@pytest.mark.timeout(180)
def test_not_a_packet_leaves(chromium: Browser) -> None:
    """On a machine whose every packet is overheard, service and browser together write to loopback alone."""
    if sentence := island.why_not():
        pytest.skip(sentence)
    heard = island.visited(within=170)
    assert heard["outside"] == {}
    assert heard["loopback"]["packets"] > 200
