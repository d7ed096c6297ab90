"""The manifests: they build, fit together, and run commands, probes and queries that exist."""

from __future__ import annotations

import asyncio
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest
import yaml

from tabellion.config import Config
from tabellion.pipelines.documents import tables
from tabellion.web.policy import API, OPEN
from tests.deploy.command_lines import all_queues, check, check_variable, served_queues
from tests.pipelines.documents.papers import settings_in, submit_bills
from tests.workers import ROOT, ask

FOLDER = ROOT / "deploy" / "kubernetes"


def objects() -> Iterator[dict[str, Any]]:
    """Return every object of every file."""
    for path in sorted(FOLDER.glob("*.yaml")):
        yield from yaml.safe_load_all(path.read_text())


PODS = {one["metadata"]["name"]: one["spec"]["template"] for one in objects() if one["kind"] in ("Deployment", "Job")}


def named(kind: str) -> dict[str, dict[str, Any]]:
    """Return the objects of a kind by name."""
    return {one["metadata"]["name"]: one for one in objects() if one["kind"] == kind}


def test_everything_is_listed_or_an_alternative() -> None:
    """Kustomize applies each file, except examples and autoscalers, which need what a cluster may not have."""
    text = (FOLDER / "kustomization.yaml").read_text()
    autoscalers = set(re.findall(r"(?m)^  # - (\S+)", text))
    assert autoscalers == {"autoscaler-keda.yaml", "hpa.yaml"}
    left = {path.name for path in FOLDER.glob("*.yaml")} - set(yaml.safe_load(text)["resources"])
    assert left == {"kustomization.yaml", "secret.example.yaml", "ingress.example.yaml", *autoscalers}


def test_they_can_be_built() -> None:
    """By kubectl, which resolves names and images."""
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("kubectl is not on this machine")
    built = subprocess.run([kubectl, "kustomize", str(FOLDER)], capture_output=True, text=True, check=True).stdout
    kinds = [one["kind"] for one in yaml.safe_load_all(built)]
    assert kinds.count("Deployment") == 3
    assert "image: tabellion\n" not in built


@pytest.mark.parametrize("name", PODS)
def test_a_pod_runs_a_command_that_exists(name: str) -> None:
    """With options, pipelines and queues that exist."""
    [container] = PODS[name]["spec"]["containers"]
    check(container["args"])


def test_every_queue_is_served() -> None:
    """Also those of the models whose API keys are in the secret, and where they are empty."""
    keys = {name for name in named("Secret")["tabellion"]["stringData"] if name.endswith("API_KEY")}
    assert "documents_gemini" in all_queues(sorted(keys))
    workers = [PODS[name]["spec"]["containers"][0]["args"] for name in PODS if "worker" in name]
    for chosen in ([], sorted(keys)):
        assert set().union(*(served_queues(words, chosen) for words in workers)) == all_queues(chosen)


@pytest.mark.parametrize("name", PODS)
def test_a_pod_is_set_up_completely(name: str) -> None:
    """Its variables, volumes, probes and grace time fit; it may do nothing that it does not need."""
    pod = PODS[name]["spec"]
    [container] = pod["containers"]
    config, secret = named("ConfigMap")["tabellion"], named("Secret")["tabellion"]
    sources = [source for one in container["envFrom"] for source in one.values()]
    assert [source["name"] for source in sources] == ["tabellion", "tabellion"]
    for variable in (*config["data"], *secret["stringData"]):
        check_variable(variable)
    assert {mount["name"] for mount in container["volumeMounts"]} == {volume["name"] for volume in pod["volumes"]}
    assert {mount["mountPath"] for mount in container["volumeMounts"]} == {"/data", "/tmp"}
    cache = int(config["data"]["TABELLION_CACHE_BYTES"])
    sizes = {volume["name"]: int(volume["emptyDir"]["sizeLimit"].removesuffix("Gi")) << 30 for volume in pod["volumes"]}
    assert pod["securityContext"]["runAsNonRoot"]
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert not container["securityContext"]["allowPrivilegeEscalation"]
    if pod.get("restartPolicy") is None:
        assert cache < sizes["data"]
        assert pod["terminationGracePeriodSeconds"] > float(config["data"]["TABELLION_GRACE"]) + 15
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        if probe in container:
            target = container[probe]["httpGet"]
            assert target["path"] == "/metrics" or API["GET", target["path"].partition("?")[0]] is OPEN
            assert target["port"] in {port["name"] for port in container["ports"]}
    assert ("readinessProbe" in container) is (container["args"][0] == "up")


@pytest.mark.parametrize("name", [name for name in PODS if "worker" in name])
def test_a_worker_serves_its_metrics(name: str) -> None:
    """Where its probe and Prometheus look for them, from outside of the pod."""
    [container] = PODS[name]["spec"]["containers"]
    words = container["args"]
    [port] = [port["containerPort"] for port in container["ports"] if port["name"] == "metrics"]
    assert words[words.index("--metrics-port") + 1] == str(port)
    assert PODS[name]["metadata"]["annotations"]["prometheus.io/port"] == str(port)
    assert container["livenessProbe"]["httpGet"] == {"path": "/metrics", "port": "metrics"}
    assert named("ConfigMap")["tabellion"]["data"]["TABELLION_METRICS_HOST"] == "0.0.0.0"


def test_selectors_find_their_pods() -> None:
    """Those of deployments, of the service and of the disruption budget; the port has a name."""
    labels = {name: template["metadata"]["labels"] for name, template in PODS.items()}
    for name, one in named("Deployment").items():
        assert one["spec"]["selector"]["matchLabels"] == labels[name]
    service = named("Service")["tabellion"]["spec"]
    assert service["selector"] == labels["tabellion-web"]
    [port] = PODS["tabellion-web"]["spec"]["containers"][0]["ports"]
    assert (service["ports"][0]["targetPort"], port["containerPort"]) == (port["name"], Config.port)
    assert named("PodDisruptionBudget")["tabellion-web"]["spec"]["selector"]["matchLabels"] == labels["tabellion-web"]
    backend = named("Ingress")["tabellion"]["spec"]["rules"][0]["http"]["paths"][0]["backend"]["service"]
    assert (backend["name"], backend["port"]["name"]) == ("tabellion", service["ports"][0]["name"])


def test_both_autoscalers_scale_the_readers() -> None:
    """Their target exists and leaves the number of pods to them."""
    for one in (named("ScaledObject"), named("HorizontalPodAutoscaler")):
        [scaler] = one.values()
        target = named("Deployment")[scaler["spec"]["scaleTargetRef"]["name"]]
        assert "replicas" not in target["spec"]
    [authentication] = named("TriggerAuthentication").values()
    [source] = authentication["spec"]["secretTargetRef"]
    assert source["key"] in named("Secret")[source["name"]]["stringData"]
    [trigger] = next(iter(named("ScaledObject").values()))["spec"]["triggers"]
    assert trigger["authenticationRef"]["name"] == authentication["metadata"]["name"]


def test_the_query_of_the_autoscaler_counts_waiting_documents(pg_url: str, tmp_path: Path) -> None:
    """On a real database: those that are queued or being read, by an index."""
    [trigger] = next(iter(named("ScaledObject").values()))["spec"]["triggers"]
    query = trigger["metadata"]["query"]

    def fetch(text: str) -> list[dict[str, Any]]:
        return ask(pg_url, lambda store: store.database.fetch(text))

    ask(pg_url, tables.SCHEMA.prepare)
    assert fetch(query) == [{"count": 0}]
    submit_bills(pg_url, settings_in(tmp_path), 0, 1, 2)
    fetch("UPDATE tabellion_documents SET status = 'completed' WHERE id = (SELECT min(id) FROM tabellion_documents)")
    assert fetch(query) == [{"count": 2}]
    assert "Index" in asyncio.run(explain(pg_url, query))


async def explain(url: str, query: str) -> str:
    """Return the plan that PostgreSQL would choose for a large table."""
    connection = await asyncpg.connect(url)
    try:
        await connection.execute("SET enable_seqscan = off")
        return "\n".join(row["QUERY PLAN"] for row in await connection.fetch(f"EXPLAIN {query}"))
    finally:
        await connection.close()
