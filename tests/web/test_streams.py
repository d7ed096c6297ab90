"""Event streams: they end when the right to read them ends."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tabellion.pipelines.documents.routes import events
from tabellion.pipelines.documents.routes import review_statistics as review_numbers
from tabellion.web import streams
from tabellion.web.api import overview
from tests.models.bills import bill
from tests.waiting import eventually
from tests.web.browser import signed_in
from tests.web.live import Live, live
from tests.web.policy import POLICY

WATCHED = sorted(path for _, path in POLICY if path.endswith("/events"))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """An application that polls often, with a document that no worker reads."""
    folder = tmp_path_factory.mktemp("streams")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(streams, "AGAIN", 0.05)
        for module in (events, overview, review_numbers):
            for name, seconds in (("LOOK", 0.05), ("HEARTBEAT", 0.1)):
                patch.setattr(module, name, seconds)
        with live(folder, {"prod": f"sqlite:///{folder}/prod.db"}) as one:
            yield one


@pytest.mark.parametrize("path", WATCHED)
def test_a_stream_ends_after_sign_out(place: Live, path: str) -> None:
    """The stream of an ended session ends soon; until then it continues."""
    where = place.url + path.replace("{id}", place.upload(bill(path))["id"])
    anna = signed_in(place, "viewer", name="anna")
    with place._client.stream("GET", where, headers=anna.cookie) as stream:
        lines = stream.iter_lines()
        received: list[str] = []
        while received.count(": alive") < 3:
            received.append(next(lines))
        assert anna.ask("POST", "/sign-out").status_code == 204
        received.extend(lines)
    eventually(lambda: not place.app.state.streams._open)


@pytest.mark.parametrize("path", WATCHED)
def test_a_stream_ends_after_its_key_is_revoked(place: Live, path: str) -> None:
    """As with a session."""
    where = place.url + path.replace("{id}", place.upload(bill(f"{path} by key"))["id"])
    key = place.make_key("viewer", "prod")
    with place._client.stream("GET", where, headers={"Authorization": f"Bearer {key}"}) as stream:
        lines = stream.iter_lines()
        assert next(lines) == "retry: 2000"
        place.sql("UPDATE tabellion_api_keys SET revoked_at = created_at WHERE id = $1", key.split("_")[2])
        for _ in lines:
            pass
