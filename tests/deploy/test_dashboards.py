"""Dashboards name metrics and labels that are exported; a real Prometheus has a series for each of their queries."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from tabellion.config import Config
from tabellion.models.fake.serving import serving
from tabellion.monitor.metrics import worker_metrics
from tests.cli.running import Service, running
from tests.deploy.expressions import (
    DASHBOARDS,
    DEPLOY,
    FROM_PROMETHEUS,
    RULES,
    STANDARD,
    exported,
    grouped,
    panel_queries,
    rule_queries,
    selectors,
    variable_queries,
)
from tests.deploy.prometheus_server import Prometheus, find, prometheus, why_not
from tests.pipelines.documents.samples import many, samples
from tests.pipelines.websites.loopback import served
from tests.servers import free_ports
from tests.waiting import eventually
from tests.web.policy import EVERYTHING

EXPORTED = exported(EVERYTHING)
PANELS = [query for path in DASHBOARDS for query in panel_queries(path)]
ALERTS = [query for path in RULES for query in rule_queries(path)]
CONFIGURATIONS = sorted((DEPLOY / "prometheus").glob("prometheus*.yml"))
SETTINGS = """
pipelines = ["documents", "websites"]
[models.gemini]
key = "k"
[gates.gemini]
rate = 50
budget = 100
[server]
allow = ["127.0.0.0/8"]
[sla.queues.documents]
oldest = "1h"
[websites]
pause = 0.01
browser = "never"
"""
#: What a database says of itself, also in the tables of pipelines; a worker counts its own.
FIGURES = [name for name in EXPORTED if name not in {metric.name for metric in worker_metrics.METRICS}]
ONCE_PER_ENVIRONMENT = [
    name for name in FIGURES if name.startswith("tabellion_gate_") or re.search(r"_workers$|_slots$", name)
]
DOUBTFUL = "de-invoice-wrong-total.pdf"  #: a sample that a person must look at
needs_prometheus = pytest.mark.skipif(why_not() is not None, reason=why_not() or "")


def labels_of(metric: str) -> set[str] | None:
    """The labels of an exported metric; None if there is no such metric."""
    if metric in STANDARD:
        return FROM_PROMETHEUS
    name = re.sub(r"_(bucket|sum|count)$", "", metric)
    if name in EXPORTED and (name == metric) == (EXPORTED[name].kind != "histogram"):
        bounds = {"le"} if metric.endswith("_bucket") else set()
        return {*EXPORTED[name].labels, *FROM_PROMETHEUS, *bounds}
    return None


@pytest.mark.parametrize("query", [*PANELS, *ALERTS], ids=str)
def test_a_query_names_what_is_exported(query) -> None:  # type: ignore[no-untyped-def]
    """Every metric of every panel and alert is exported, with every label that the query or its text names."""
    found = selectors(query.text)
    assert found
    known: set[str] = set()
    for metric, matched in found:
        labels = labels_of(metric)
        assert labels is not None, f"{metric} is not exported"
        assert matched <= labels, f"{metric} has no label {matched - labels}"
        known |= labels
    assert grouped(query.text) <= known
    shown = set(re.findall(r"\{\{ ?(?:\$labels\.)?(\w+) ?\}\}", query.legend))
    assert shown <= (grouped(query.text) or known), f"{shown} is not in the result"


def test_an_unknown_metric_or_label_would_be_found() -> None:
    """The check can fail: neither a metric, a suffix nor a label that does not exist is accepted."""
    assert labels_of("tabellion_nothing") is None
    assert labels_of("tabellion_claims_total_bucket") is None
    assert labels_of("tabellion_handler_seconds") is None
    [(metric, matched)] = selectors('sum by (queue) (rate(tabellion_claims_total{key="7"}[5m]))')
    assert (metric, matched) == ("tabellion_claims_total", {"key"})
    assert "key" not in (labels_of(metric) or ())


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.name)
def test_a_dashboard_can_be_imported(path: Path) -> None:
    """Ids are unique, panels do not overlap, each names the chosen data source, and variables ask for real labels."""
    board = json.loads(path.read_text())
    assert board["uid"] == path.stem
    panels = board["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    cells: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        own = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert place["x"] + place["w"] <= 24
        assert not own & cells, panel["title"]
        cells |= own
        if panel["type"] != "row":
            assert panel["targets"]
            assert panel["datasource"]["uid"] == "${datasource}"
            assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])
    for selector, label in variable_queries(path):
        [(metric, matched)] = selectors(selector)
        assert {label, *matched} <= (labels_of(metric) or set())


@pytest.mark.parametrize("query", [*PANELS, *ALERTS], ids=str)
def test_a_figure_of_a_database_is_counted_once(query) -> None:  # type: ignore[no-untyped-def]
    """Several servers of one database report it: none adds them up. All environments report the same gates, and a
    worker may serve several environments: these are not added up over environments either."""
    ours = rf"(?:{'|'.join(FIGURES)})\b"
    assert not re.search(rf"\bsum(?: (?:by|without) ?\([^)]*\))? ?\((?:(?:rate|increase)\()?{ours}", query.text)
    for metric, _ in selectors(query.text):
        if metric in ONCE_PER_ENVIRONMENT:
            assert not re.search(r"\bsum\b", query.text)


def test_every_metric_is_shown_somewhere() -> None:
    """What is measured is on a dashboard or in an alert: a metric that nobody sees costs without use."""
    shown = {
        re.sub(r"_(bucket|sum|count)$", "", name) for query in [*PANELS, *ALERTS] for name, _ in selectors(query.text)
    }
    assert set(EXPORTED) <= shown, set(EXPORTED) - shown


@needs_prometheus
@pytest.mark.parametrize("path", RULES, ids=lambda path: path.name)
def test_promtool_accepts_the_alerts(path: Path) -> None:
    """`promtool check rules` finds no mistake."""
    done = subprocess.run([str(find("promtool")), "check", "rules", str(path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("path", CONFIGURATIONS, ids=lambda path: path.name)
def test_only_what_is_open_is_scraped(path: Path) -> None:
    """So that no alert fires out of the box: the server's port, and workers that are listed or found. Alerts and panels
    select jobs by names that these have."""
    config = yaml.safe_load(path.read_text())
    server, fleet = config["scrape_configs"]
    assert {"static_configs"} & set(fleet) == set()
    [[target]] = [one["targets"] for one in server["static_configs"]]
    expected = f"127.0.0.1:{Config.port}" if path.name == "prometheus.yml" else "tabellion.tabellion.svc:80"
    assert target == expected
    selected = {match for query in (*PANELS, *ALERTS) for match in re.findall(r'job=~"([^"]+)"', query.text)}
    assert selected == {"tabellion.*"}
    assert all(re.fullmatch("tabellion.*", job["job_name"]) for job in (server, fleet))
    assert {rules.name for rules in RULES} == set(config["rule_files"])


@needs_prometheus
@pytest.mark.parametrize("path", CONFIGURATIONS, ids=lambda path: path.name)
def test_promtool_accepts_the_configuration(path: Path, tmp_path: Path) -> None:
    """`promtool check config`, with the files beside it that the guide puts there; Debian's has no Kubernetes."""
    shutil.copytree(path.parent, tmp_path, dirs_exist_ok=True)
    shutil.copy(tmp_path / "workers.example.yml", tmp_path / "workers.yml")
    (tmp_path / "tabellion.key").write_text("key")
    config = yaml.safe_load(path.read_text())
    config["scrape_configs"][1].pop("kubernetes_sd_configs", None)
    (tmp_path / path.name).write_text(yaml.safe_dump(config))
    command = [str(find("promtool")), "check", "config", str(tmp_path / path.name)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@needs_prometheus
def test_alerts_fire_when_they_should() -> None:
    """`promtool test rules`: series that need attention raise their alert, ordinary ones none."""
    tests = Path(__file__).parent / "alerts_test.yml"
    done = subprocess.run([str(find("promtool")), "test", "rules", str(tests)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    tried = {
        case["alertname"] for test in yaml.safe_load(tests.read_text())["tests"] for case in test["alert_rule_test"]
    }
    assert tried == {query.where.partition(": ")[2] for query in ALERTS}, "every alert has a test"


@contextmanager
def workers(data: Path, port: int, variables: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """Two worker processes with their metrics on this port and the next."""
    command = [sys.executable, "-m", "tabellion", "--data", str(data), "worker", "--processes", "2"]
    process = subprocess.Popen([*command, "--metrics-port", str(port)], env=os.environ | variables)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(60)


def configuration(folder: Path, service: Service, ports: list[int]) -> Path:
    """The configuration in deploy/, with the ports of this test, and scrapes once a second."""
    config = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())
    config["global"] |= {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"}
    config["rule_files"] = [str(DEPLOY / "prometheus" / name) for name in config["rule_files"]]
    server, _ = config["scrape_configs"]
    server["static_configs"] = [{"targets": [service.url.partition("//")[2]]}]
    (folder / "workers.yml").write_text(yaml.safe_dump([{"targets": [f"127.0.0.1:{port}" for port in ports]}]))
    data = ["--data", str(service.data)]
    create = [sys.executable, "-m", "tabellion", *data, "keys", "create", "--role", "metrics", "--name", "prometheus"]
    key = subprocess.run(create, capture_output=True, text=True, check=True).stdout.strip()
    (folder / "tabellion.key").write_text(key)
    path = folder / "prometheus.yml"
    path.write_text(yaml.safe_dump(config))
    return path


def work(service: Service, site: str) -> None:
    """Have something of everything done: documents by a model, again from memos, a review, a website."""
    ids = [
        service.upload(sample.content, sample.name, model="gemini", type="invoice")["id"]
        for sample in list(many(6, seed=3))
    ]
    [doubtful] = [sample for sample in samples(scans=False) if sample.name == DOUBTFUL]
    ids += [service.upload(doubtful.content + b"\n" * number, doubtful.name)["id"] for number in range(2)]
    status, answer = service.ask("POST", "/api/websites", json.dumps({"url": site, "type": "seo"}).encode(),
                                 **{"Content-Type": "application/json"})  # fmt: skip
    assert status == 202, answer

    def ended(id_: str) -> bool:
        return service.ask("GET", f"/api/documents/{id_}")[1]["status"] not in ("queued", "processing")

    eventually(lambda: all(ended(id_) for id_ in ids), within=90, every=0.2)
    eventually(lambda: service.ask("GET", f"/api/websites/{answer['id']}")[1]["status"] in ("completed", "failed"),
               within=90, every=0.2)  # fmt: skip
    for id_ in ids:
        service.ask("POST", f"/api/documents/{id_}/reprocess")
    eventually(lambda: all(ended(id_) for id_ in ids), within=90, every=0.2)


def reject_one(service: Service) -> None:
    """Finish a review, and leave another one open."""
    text = {"Content-Type": "application/json"}
    assert service.ask("GET", "/api/review/items")[1]["items"][1:], "two documents need a review"
    status, item = service.ask("POST", "/api/review/claim")
    assert status == 200, item
    why = json.dumps({"code": "other", "reason": "a test"}).encode()
    status, answer = service.ask("POST", f"/api/review/items/{item['id']}/reject", why, **text)
    assert status == 200, answer


@needs_prometheus
@pytest.mark.timeout(300)
def test_every_panel_has_a_series(tmp_path: Path) -> None:
    """A real Prometheus with the configuration in deploy/ scrapes a service and its workers, and answers each query."""
    (tmp_path / "tabellion.toml").write_text(SETTINGS)
    ports = free_ports(2)
    with serving() as model, served(tmp_path / "site") as site:
        variables = model.environment | {"TABELLION_CONFIG": str(tmp_path / "tabellion.toml")}
        with running(tmp_path / "data", **variables) as service:
            service.wait_for_line("started")
            with workers(tmp_path / "data", ports[0], variables):
                config = configuration(tmp_path, service, ports)
                with prometheus(tmp_path, config) as server:
                    eventually(lambda: len(server.query("up == 1")) == 3, within=60, every=0.5)
                    work(service, site)
                    reject_one(service)
                    assert_series(server)
                    assert_rules(server)


def assert_series(server: Prometheus) -> None:
    """Every query of every panel has a series; rates need a second scrape."""
    left = list(PANELS)

    def answered() -> bool:
        left[:] = [query for query in left if not server.query(query.text)]
        return not left

    try:
        eventually(answered, within=90, every=1.0)
    except AssertionError:
        pytest.fail(f"no series: {[f'{query}: {query.text}' for query in left]}")
    for path in DASHBOARDS:
        for selector, label in variable_queries(path):
            assert all(label in series["metric"] for series in server.query(selector))


def assert_rules(server: Prometheus) -> None:
    """Prometheus has evaluated every alert without an error."""

    def evaluated() -> bool:
        groups = server.ask("/api/v1/rules")["data"]["groups"]
        rules = [rule for group in groups for rule in group["rules"]]
        assert {rule["name"] for rule in rules} == {query.where.partition(": ")[2] for query in ALERTS}
        assert {rule["health"] for rule in rules} <= {"ok", "unknown"}, [rule.get("lastError") for rule in rules]
        return all(rule["health"] == "ok" for rule in rules)

    eventually(evaluated, within=30, every=0.5)
