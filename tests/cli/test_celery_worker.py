"""`tabellion worker --celery` and `celery -A tabellion.celery worker`: options, refusals, pools, shutdown."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.brokers import Valkey
from tests.cli.project import QUEUES, Project
from tests.cli.running import CLEAN, descendants
from tests.flows.test_traces import collecting
from tests.servers import free_ports, valkey
from tests.waiting import eventually

CELERY = Path(sys.executable).parent / "celery"
#: A queue that the tests' nodes do not work on, with the same table.
OTHERS = """
others = Queue("invoices", name="others", ready="other", running="opening", done="opened", failed="closed")
"""
COUNT = "SELECT count(*) AS n FROM invoices WHERE status = 'read'"


@pytest.fixture(scope="module")
def redis() -> Iterator[str]:
    """A broker for these tests."""
    with valkey() as url:
        yield url


@pytest.fixture
def project(tmp_path: Path, sqlite_url: str) -> Project:
    return Project(tmp_path, sqlite_url)


def variables(redis: str, **more: str) -> dict[str, str]:
    """The environment of a node."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith((*CLEAN, "CELERY", "REDIS"))}
    return kept | {"REDIS_URL": redis, "PYTHONWARNINGS": "ignore", "TABELLION_GRACE": "5"} | more


def await_read(project: Project, count: int) -> None:
    """Return once so many invoices have been read."""
    eventually(lambda: project.sql(COUNT)[0]["n"] == count, every=0.05)


def test_a_broker_is_required(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a usable one, the error says where to name it; options that mean nothing to Celery are refused."""
    monkeypatch.delenv("REDIS_URL", raising=False)
    result = project.run("worker", "--celery")
    assert result.exit_code == 3
    assert "celery.broker" in str(result.exception)
    assert project.run("up", "--celery").exit_code == 3
    monkeypatch.setenv("REDIS_URL", "sentinel://:secret@127.0.0.1:1")
    unusable = str(project.run("worker", "--celery").exception)
    assert "it is set, but begins with none of redis://" in unusable
    assert "secret" not in unusable
    monkeypatch.setenv("REDIS_URL", "redis://127.0.0.1:1/0")
    for option in (["--id", "w1"], ["--until-idle"]):
        refused = project.run("worker", "--celery", *option)
        assert refused.exit_code == 2
        assert option[0] in refused.output


def test_a_cold_shutdown_releases_jobs_at_once(project: Project, redis: str) -> None:
    """SIGTERM and then SIGQUIT: the job is released without waiting for the grace time, and no process is left."""
    project.insert("slow")
    node = subprocess.Popen(
        [sys.executable, "-m", "tabellion", "--config", str(project.folder / "tabellion.toml"), "worker", "--celery",
         "--processes", "1", "--name", "reader"],
        env=variables(redis, TABELLION_GRACE="600"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        eventually(lambda: project.sql("SELECT status FROM invoices")[0]["status"] == "reading", every=0.05)
        assert project.sql("SELECT worker_id FROM invoices")[0]["worker_id"].startswith("reader-")
        children = descendants(node.pid)
        node.send_signal(signal.SIGTERM)
        eventually(lambda: not [pid for pid in children if "tabellion.celery" in command_of(pid)], every=0.05)
        node.send_signal(signal.SIGQUIT)
        node.wait(60)
    finally:
        node.kill()
    assert project.sql("SELECT status FROM invoices")[0]["status"] == "new"
    assert [row["outcome"] for row in project.sql("SELECT outcome FROM tabellion_attempts")] == ["released"]
    eventually(lambda: not [pid for pid in children if command_of(pid)], every=0.05)


def test_a_killed_node_releases_its_jobs(project: Project, redis: str) -> None:
    """When only the node's main process is killed, those of its pool release their jobs and end."""
    project.insert("slow")
    node = subprocess.Popen(
        [sys.executable, "-m", "tabellion", "--config", str(project.folder / "tabellion.toml"), "worker", "--celery",
         "--processes", "1"],
        env=variables(redis), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        eventually(lambda: project.sql("SELECT status FROM invoices")[0]["status"] == "reading", every=0.05)
        children = descendants(node.pid)
    finally:
        node.kill()
        node.wait(10)
    eventually(lambda: project.sql("SELECT status FROM invoices")[0]["status"] == "new", every=0.05)
    assert [row["outcome"] for row in project.sql("SELECT outcome FROM tabellion_attempts")] == ["released"]
    eventually(lambda: not [pid for pid in children if command_of(pid)], every=0.05)


@pytest.mark.parametrize("pool", ["threads", "solo"])
def test_celery_runs_the_application(project: Project, redis: str, pool: str, tmp_path: Path) -> None:
    """`celery -A tabellion.celery worker` works with its own options and pools, on the queues that it is told.

    The broker is the configured one, whatever other applications of Celery use here.
    """
    project.insert("a", "bc")
    with (tmp_path / "log").open("wb") as log:
        node = subprocess.Popen(
            [str(CELERY), "-A", "tabellion.celery", "worker", "-P", pool, "-c", "2", "-Q", "tabellion.invoices", "-E"],
            env=variables(redis, TABELLION_CONFIG=str(project.folder / "tabellion.toml"), CELERY_BROKER_URL="redis://none"),
            stdout=log, stderr=log,
        )  # fmt: skip
    try:
        await_read(project, 2)
        project.insert("def")
        await_read(project, 3)
        node.send_signal(signal.SIGTERM)
        assert node.wait(60) == 0, (tmp_path / "log").read_text()
    finally:
        node.kill()
    assert [row["ending"] for row in project.sql("SELECT ending FROM tabellion_workers")] == ["stopped normally"]


def test_its_processes_serve_metrics_and_send_traces(project: Project, redis: str) -> None:
    """Each process of the pool has a port for its counts, as without Celery, and the jobs of all of them are traced.

    The next port is of the process that sends hints, which knows the broker and often sees crashes first.
    """
    ports = free_ports(3)
    with collecting() as collector:
        traced = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, "OTEL_BSP_SCHEDULE_DELAY": "100"}
        node = subprocess.Popen(
            [sys.executable, "-m", "tabellion", "--config", str(project.folder / "tabellion.toml"), "worker",
             "--celery", "--processes", "2", "--metrics-port", str(ports[0])],
            env=variables(redis, **traced), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            project.insert("a", "bc", "empty")
            await_read(project, 2)
            eventually(lambda: sum(count_jobs(port, "done") for port in ports) == 2, every=0.05)
            eventually(lambda: sum(count_jobs(port, "failed") for port in ports) == 1, every=0.05)
            eventually(lambda: [span.name for span in collector.spans()].count("process invoices") == 3, every=0.05)
            assert [read_metric(port, "tabellion_broker_up") for port in ports] == [[], [], [1.0]]
            project.insert("kill")
            await_read(project, 3)
            eventually(lambda: sum(count_jobs(port, "crashed") for port in ports) == 1, every=0.05)
            node.send_signal(signal.SIGTERM)
            assert node.wait(60) == 0
        finally:
            node.kill()


def test_a_port_that_is_in_use_stops_no_work(project: Project, redis: str, tmp_path: Path) -> None:
    """Celery may start any number of processes: one without a port says so, and works."""
    project.insert("a")
    with socket.create_server(("127.0.0.1", 0)) as taken, (tmp_path / "log").open("wb") as log:
        port = str(taken.getsockname()[1])
        node = subprocess.Popen(
            [str(CELERY), "-A", "tabellion.celery", "worker", "-c", "1"],
            env=variables(redis, TABELLION_CONFIG=str(project.folder / "tabellion.toml"), TABELLION_METRICS_PORT=port),
            stdout=log, stderr=log,
        )  # fmt: skip
        try:
            await_read(project, 1)
            node.send_signal(signal.SIGTERM)
            assert node.wait(60) == 0
        finally:
            node.kill()
    assert f"cannot listen on 127.0.0.1:{port}" in (tmp_path / "log").read_text()


def test_too_few_ports_end_the_node_at_once(project: Project, redis: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process that sends hints needs one, too."""
    monkeypatch.setenv("REDIS_URL", redis)
    result = project.run("worker", "--celery", "--processes", "2", "--metrics-port", "65534")
    assert result.exit_code == 3
    assert "the ports from 65534 to 65536 are needed" in str(result.exception)


def count_jobs(port: int, outcome: str) -> float:
    """How many jobs the process at this port has ended in this way; 0 if it does not answer."""
    return sum(read_metric(port, "tabellion_jobs_total", f'outcome="{outcome}"'))


def read_metric(port: int, name: str, mark: str = "") -> list[float]:
    """The values of a metric at this port, of the series with this label; none if nothing answers."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            lines = answer.read().decode().splitlines()
    except OSError:
        return []
    return [
        float(line.rpartition(" ")[2]) for line in lines if line.startswith((f"{name} ", f"{name}{{")) and mark in line
    ]


def test_a_node_survives_a_failover_of_the_broker(project: Project, tmp_path: Path) -> None:
    """A primary that becomes a replica answers with errors: the node reconnects until it may write again."""
    server, log = Valkey(), tmp_path / "log"
    with log.open("wb") as out:
        node = subprocess.Popen(
            [sys.executable, "-m", "tabellion", "--config", str(project.folder / "tabellion.toml"), "worker",
             "--celery", "--processes", "1"],
            env=variables(server.url), stdout=out, stderr=out,
        )  # fmt: skip
    try:
        project.insert("a")
        await_read(project, 1)
        server.command("REPLICAOF 127.0.0.1 1")
        eventually(lambda: "read only replica" in log.read_text(), every=0.05)
        server.command("REPLICAOF NO ONE")
        project.insert("bc")
        await_read(project, 2)
        node.send_signal(signal.SIGTERM)
        assert node.wait(60) == 0, log.read_text()
    finally:
        node.kill()
        server.stop()


def test_a_node_that_breaks_says_so_to_its_supervisor(project: Project, redis: str) -> None:
    """Only a signal or a remote shutdown ends a node with 0: others restart what ended with an error."""
    script = (
        "import sys\n"
        "from celery.worker.consumer import consumer\n"
        "def start(self): raise RuntimeError('broken')\n"
        "consumer.Consumer.start = start\n"
        "from tabellion.cli import main\n"
        "main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, "--config", str(project.folder / "tabellion.toml"), "worker", "--celery",
         "--processes", "1"],
        env=variables(redis), capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert "RuntimeError: broken" in done.stderr
    assert done.returncode == 1, done.stderr


def test_a_node_that_is_stopped_while_its_processes_start_kills_none(
    project: Project, redis: str, tmp_path: Path
) -> None:
    """Celery calls that a critical error, with a traceback."""
    log, go = tmp_path / "log", tmp_path / "go"
    script = (
        "import os, time\n"
        "from celery.worker.consumer.consumer import Consumer\n"
        "from tabellion.cli import main\n"
        "from tabellion.engine.celery.node import Node\n"
        "from tabellion.engine.celery.process_worker import Processes\n"
        "def wait():\n"
        f"    while not os.path.exists({str(go)!r}): time.sleep(0.05)\n"
        "def start_late(self, start=Processes.on_process_start): wait(); start(self)\n"
        "def check_late(self): print('checks', flush=True); wait()\n"
        "def tell(self, stop=Node._stop_claiming): stop(self); print('told', flush=True)\n"
        "Processes.on_process_start, Consumer.on_ready, Node._stop_claiming = start_late, check_late, tell\n"
        "main()\n"
    )
    with log.open("wb") as out:
        node = subprocess.Popen(
            [sys.executable, "-c", script, "--config", str(project.folder / "tabellion.toml"), "worker", "--celery",
             "--processes", "1"],
            env=variables(redis), stdout=out, stderr=out,
        )  # fmt: skip
    try:
        eventually(lambda: "checks" in log.read_text(), every=0.05)
        node.send_signal(signal.SIGTERM)
        eventually(lambda: "told" in log.read_text(), every=0.05)
        go.touch()
        assert node.wait(60) == 0, log.read_text()
    finally:
        node.kill()
    assert "Traceback" not in log.read_text()


def test_a_node_that_cannot_stop_ends_soon_after_its_grace_time(project: Project, redis: str, tmp_path: Path) -> None:
    """A broker that hangs keeps the main thread waiting: the node ends all the same, and no process is left."""
    script = (
        "import time\n"
        "from celery.worker.consumer import consumer\n"
        "from tabellion.cli import main\n"
        "from tabellion.engine.celery import node\n"
        "node.LATEST = 0.0\n"
        "def start(self):\n"
        "    print('waits', flush=True)\n"
        "    while True: time.sleep(600)\n"
        "consumer.Consumer.start = start\n"
        "main()\n"
    )
    log = tmp_path / "log"
    with log.open("wb") as out:
        node = subprocess.Popen(
            [sys.executable, "-c", script, "--config", str(project.folder / "tabellion.toml"), "worker", "--celery",
             "--processes", "1", "--grace", "0"],
            env=variables(redis), stdout=out, stderr=out,
        )  # fmt: skip
    try:
        eventually(lambda: "waits" in log.read_text(), every=0.05)
        children = descendants(node.pid)
        node.send_signal(signal.SIGTERM)
        assert node.wait(60) == 0, log.read_text()
    finally:
        node.kill()
    eventually(lambda: not [pid for pid in children if command_of(pid)], every=0.05)


def test_a_part_of_a_configuration_runs_as_without_celery(project: Project, redis: str, tmp_path: Path) -> None:
    """A node that works on some queues of one environment keeps the gates where all others do, and minds no target of
    another queue; it consumes only the Celery queues of its environment."""
    (project.folder / "queues.py").write_text(QUEUES + OTHERS)
    config = project.folder / "tabellion.toml"
    config.write_text(
        f'queues = "{project.folder}/queues.py"\n[environments]\nmain = "sqlite:///{tmp_path / "main.db"}"\n'
        f'prod = "{project.url}"\n[sla.queues.others]\noldest = "1h"\n'
    )
    (tmp_path / "main.db").touch()
    log = tmp_path / "log"
    with log.open("wb") as out:
        node = subprocess.Popen(
            [sys.executable, "-m", "tabellion", "--config", str(config), "worker", "--celery", "--processes", "1",
             "--environment", "prod", "--only", "invoices"],
            env=variables(redis), stdout=out, stderr=out,
        )  # fmt: skip
    try:
        project.insert("a")
        await_read(project, 1)
    finally:
        node.terminate()
        node.wait(60)
    assert "ERROR" not in log.read_text()
    script = (
        "from tabellion.celery import Fleet; fleet = Fleet.load(); "
        "print(fleet.options()['gates_at'].name, [*fleet.lanes()], [queue.name for queue in fleet.declared])"
    )
    options = {"TABELLION_CELERY_ENVIRONMENTS": "prod", "TABELLION_CELERY_ONLY": "invoices"}
    given = variables(redis, TABELLION_CONFIG=str(config), **options)
    run = [sys.executable, "-c", script]
    printed = subprocess.run(run, env=given, capture_output=True, text=True, check=True, timeout=60).stdout
    assert printed == "main ['tabellion.prod.invoices'] ['invoices', 'others']\n"
    given["TABELLION_CELERY_SKIPPED"] = "main"
    script = "from tabellion.celery import Fleet; print(Fleet.load().options()['gates_at'])"
    run = [sys.executable, "-c", script]
    assert subprocess.run(run, env=given, capture_output=True, text=True, check=True, timeout=60).stdout == "None\n"


def test_a_target_of_an_unknown_queue_ends_the_node(project: Project, redis: str) -> None:
    """Celery's own command says which target is wrong, and does not start processes that could not work."""
    config = project.folder / "tabellion.toml"
    config.write_text(config.read_text() + '[sla.queues.invoicez]\noldest = "1h"\n')
    done = subprocess.run(
        [str(CELERY), "-A", "tabellion.celery", "worker", "-c", "1"],
        env=variables(redis, TABELLION_CONFIG=str(config)), capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode != 0
    assert "did you mean 'invoices'" in done.stderr + done.stdout


def test_a_wrong_configuration_ends_the_node(project: Project, redis: str) -> None:
    """A table that does not exist is reported in a sentence, by either command."""
    project.sql("DROP TABLE invoices")
    given = variables(redis, TABELLION_CONFIG=str(project.folder / "tabellion.toml"))
    for command in (
        [sys.executable, "-m", "tabellion", "worker", "--celery", "--processes", "1"],
        [str(CELERY), "-A", "tabellion.celery", "worker", "-c", "1"],
    ):
        done = subprocess.run(command, env=given, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 3
        assert "invoices" in done.stderr + done.stdout


def test_a_node_whose_environments_cannot_be_used_ends(project: Project, redis: str, tmp_path: Path) -> None:
    """It names the queues that it was told to consume, and does not pass for a worker of the other environments."""
    config = project.folder / "tabellion.toml"
    config.write_text(f'{config.read_text()}away = "sqlite:///{tmp_path / "gone.db"}"\n')
    done = subprocess.run(
        [str(CELERY), "-A", "tabellion.celery", "worker", "-c", "1", "-Q", "tabellion.away.invoices"],
        env=variables(redis, TABELLION_CONFIG=str(config)), capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode != 0
    assert "can use none of the environments of its Celery queues: tabellion.away.invoices" in done.stderr


@pytest.mark.parametrize("command", [[str(CELERY)], [sys.executable, "-m", "celery"]])
def test_what_is_missing_is_said_in_a_sentence(project: Project, redis: str, command: list[str]) -> None:
    """Celery's own command says which broker or which queues it needs, without a traceback."""
    given = variables(redis, TABELLION_CONFIG=str(project.folder / "tabellion.toml"))
    for wrong, words in (
        (given | {"TABELLION_QUEUES": "nosuch.module"}, "there is no module 'nosuch.module'"),
        ({name: value for name, value in given.items() if name != "REDIS_URL"}, "which broker?"),
    ):
        done = subprocess.run(
            [*command, "-A", "tabellion.celery", "worker"], env=wrong, capture_output=True, text=True, timeout=60,
            check=False,
        )  # fmt: skip
        assert (done.returncode, words in done.stderr) == (3, True), done.stderr
        assert "Traceback" not in done.stderr


def command_of(pid: int) -> str:
    """The command line of a process; empty when it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""
