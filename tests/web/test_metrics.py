"""/api/metrics: who may read it, of which environment, and what it says while the database is away."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tabellion.accounts import keys
from tabellion.monitor.metrics.worker_metrics import CLAIMS
from tabellion.web.auth import is_local
from tests.cli.running import descendants
from tests.models.bills import bill
from tests.servers import postgres
from tests.waiting import eventually
from tests.web.live import Live, live, problem
from tests.web.policy import EVERYTHING

Values = dict[tuple[str, ...], float]


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """An application with two environments, whose metrics need no key on this machine."""
    folder = tmp_path_factory.mktemp("two")
    urls = {name: f"sqlite:///{folder}/{name}.db" for name in ("prod", "dev")}
    with live(folder, urls, pipelines=EVERYTHING, metrics="loopback") as one:
        yield one


def values(answer: httpx2.Response) -> Values:
    """Every sample by its name and labels."""
    assert answer.status_code == 200, answer.text
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


def environments(answer: httpx2.Response) -> set[str]:
    return {
        sample.labels["environment"]
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
        if "environment" in sample.labels
    }


def test_a_key_reads_its_own_environment(two: Live) -> None:
    """Also of the worker in the same process: other environments' series are left out."""
    two.upload(bill(), key=two.key("operator", "prod"))
    two.app.state.process_samples = lambda: [
        CLAIMS.sample(7, environment=name, queue="documents") for name in ("prod", "dev")
    ]
    try:
        answer = two.get("/api/metrics", key=two.key("metrics", "prod"))
    finally:
        two.app.state.process_samples = tuple
    assert environments(answer) == {"prod"}
    found = values(answer)
    assert found["tabellion_claims_total", "prod", "documents"] == 7
    assert found["tabellion_queue_rows", "prod", "documents", "ready"] == 1
    assert answer.headers["content-type"].startswith("text/plain")
    other = values(two.get("/api/metrics", key=two.key("viewer", "dev")))
    assert other["tabellion_queue_rows", "dev", "documents", "ready"] == 0


def test_loopback_reads_everything_without_a_key(two: Live) -> None:
    """A program on this machine; not through a proxy, not for another host, not with a wrong key."""
    answer = two.get("/api/metrics", key=None)
    assert environments(answer) == {"prod", "dev"}
    for headers in ({"X-Forwarded-For": "127.0.0.1"}, {"Forwarded": "for=127.0.0.1"}, {"Via": "1.1 proxy"},
                    {"X-Real-IP": "127.0.0.1"}, {"Host": "tabellion.example"}, {"Host": "10.0.0.7:8080"}):  # fmt: skip
        problem(two.get("/api/metrics", key=None, headers=headers), 401, "auth_missing")
    problem(two.get("/api/metrics", key="tab_nonsense"), 401, "auth_invalid")
    problem(two.get("/api/overview", key=None), 401, "auth_missing")


def test_without_the_setting_a_key_is_required(web: Live) -> None:
    """Loopback is no exception unless somebody asked for it."""
    problem(web.get("/api/metrics", key=None), 401, "auth_missing")
    assert web.get("/api/metrics", key=web.key("metrics")).status_code == 200


def test_prometheus_may_choose_the_format(web: Live) -> None:
    """With the header that Prometheus sends; what it cannot read is refused."""
    sent = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,*/*;q=0.1"
    answer = web.get("/api/metrics", headers={"Accept": sent})
    assert answer.headers["content-type"].startswith("application/openmetrics-text")
    assert answer.text.endswith("# EOF\n")
    problem(web.get("/api/metrics", headers={"Accept": "image/png"}), 406, "not_acceptable")


def test_a_dead_database_is_reported_and_delays_nothing(tmp_path: Path) -> None:
    """A key that was valid within the hour still reads that the database is down; an unknown key does not."""
    with postgres() as server, live(tmp_path, {"prod": server.create_database("prod")}, metrics="loopback") as web:
        key = web.key("metrics")
        assert values(web.get("/api/metrics", key=key))["tabellion_database_up", "prod"] == 1
        unknown = web.make_key("metrics", "prod")
        web.sql("CHECKPOINT")  # a test's keys are written without waiting for the disk
        server.crash()
        for how in (key, None):
            found = values(web.get("/api/metrics", key=how))
            assert found["tabellion_database_up", "prod"] == 0
            assert not [name for name, *_ in found if name.startswith("tabellion_queue")]
        problem(web.get("/api/metrics", key=unknown), 503, "database_unreachable")
        problem(web.get("/api/metrics", key="tab_x"), 401, "auth_invalid")
        server.start()
        eventually(lambda: values(web.get("/api/metrics", key=key))["tabellion_database_up", "prod"] == 1, every=0.1)


def test_a_frozen_database_is_reported(tmp_path: Path) -> None:
    """It holds its connections and says nothing: each scrape is answered all the same, and it is up when it wakes."""
    with postgres() as server, live(tmp_path, {"prod": server.create_database("prod")}) as web:
        key = web.key("metrics")
        assert values(web.get("/api/metrics", key=key))["tabellion_database_up", "prod"] == 1
        assert server.process is not None
        processes = [server.process.pid, *descendants(server.process.pid)]
        for process in processes:
            os.kill(process, signal.SIGSTOP)
        try:
            for _ in range(2):
                assert values(web.get("/api/metrics", key=key))["tabellion_database_up", "prod"] == 0
        finally:
            for process in processes:
                os.kill(process, signal.SIGCONT)
        eventually(lambda: values(web.get("/api/metrics", key=key))["tabellion_database_up", "prod"] == 1, every=0.1)


def test_a_revoked_key_is_forgotten(tmp_path: Path) -> None:
    """It is not valid in an outage after the server has seen that it is revoked."""
    with live(tmp_path, {"prod": f"sqlite:///{tmp_path}/prod.db"}) as web:
        key = web.make_key("metrics", "prod")
        assert web.get("/api/metrics", key=key).status_code == 200
        parsed = keys.parse(key)
        assert parsed is not None
        web.store("prod", lambda store: keys.revoke(store, "prod", parsed.id))
        problem(web.get("/api/metrics", key=key), 401, "auth_invalid")
        assert not web.app.state.auth._scrapers


@pytest.mark.parametrize(
    ("client", "host", "local"),
    [
        ("127.0.0.1", "localhost", True),
        ("::1", "[::1]:8080", True),
        ("10.0.0.7", "localhost", False),
        ("", "localhost", False),
    ],
)
def test_who_is_on_this_machine(client: str, host: str, local: bool) -> None:
    """By the address of the connection and by the name that was asked for."""
    from starlette.requests import Request

    scope = {"type": "http", "method": "GET", "path": "/", "query_string": b"", "scheme": "http",
             "headers": [(b"host", host.encode())], "server": ("127.0.0.1", 8080),
             "client": (client, 5) if client else None}  # fmt: skip
    assert is_local(Request(scope)) == local
