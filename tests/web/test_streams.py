"""Event streams: they end with the right to hear them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tabellion.web import streams
from tabellion.web.api import events
from tests.waiting import eventually
from tests.web.browser import signed_in
from tests.web.live import Live, live


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Live]:
    """An application that looks often."""
    monkeypatch.setattr(streams, "AGAIN", 0.05)
    monkeypatch.setattr(events, "LOOK", 0.05)
    monkeypatch.setattr(events, "HEARTBEAT", 0.1)
    with live(tmp_path, {"prod": f"sqlite:///{tmp_path}/prod.db"}) as one:
        yield one


def test_who_is_signed_out_hears_no_more(place: Live) -> None:
    """The stream of a session that was ended ends soon; until then it goes on."""
    anna = signed_in(place, "viewer", name="anna")
    heard: list[str] = []
    with place._client.stream("GET", f"{place.url}/api/documents/events", headers=anna.cookie) as stream:
        lines = stream.iter_lines()
        while heard.count(": alive") < 3:
            heard.append(next(lines))
        assert anna.ask("POST", "/sign-out").status_code == 204
        heard.extend(lines)
    eventually(lambda: not place.app.state.streams._open)


def test_a_key_that_is_revoked_hears_no_more(place: Live) -> None:
    """As with a session."""
    key = place.make_key("viewer", "prod")
    with place._client.stream(
        "GET", f"{place.url}/api/documents/events", headers={"Authorization": f"Bearer {key}"}
    ) as stream:
        lines = stream.iter_lines()
        assert next(lines) == "retry: 2000"
        place.sql("UPDATE api_keys SET revoked_at = created_at WHERE name = 'viewer'")
        for _ in lines:
            pass
