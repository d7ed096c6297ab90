"""`tabellion metrics`, and the metrics of `tabellion worker`."""

from __future__ import annotations

import re
import signal
import subprocess
import urllib.request

from tests.cli.project import Project
from tests.servers import free_port, free_ports
from tests.waiting import eventually


def scrape(address: str) -> str:
    """The metrics there; empty while nobody answers."""
    try:
        with urllib.request.urlopen(address, timeout=10) as answer:
            return str(answer.read().decode())
    except OSError:
        return ""


def end(process: subprocess.Popen[str]) -> str:
    """Stop a process cleanly; return what it wrote to standard error."""
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 0, errors
    return errors


def test_metrics_are_printed_once(project: Project) -> None:
    """The figures of the database, and nothing is changed or created there."""
    project.insert("ok", "empty")
    process = project.start("worker", "--until-idle")
    process.communicate(timeout=60)
    project.insert("later")
    done = project.start("metrics")
    output, errors = done.communicate(timeout=60)
    assert done.returncode == 0, errors
    assert 'tabellion_database_up{environment="prod"} 1.0' in output
    assert 'tabellion_queue_rows{environment="prod",queue="invoices",state="ready"} 1.0' in output
    assert 'tabellion_queue_rows{environment="prod",queue="invoices",state="failed"} 1.0' in output
    assert "process_" not in output


def test_metrics_are_served(project: Project) -> None:
    """On a port, until the process is stopped; each scrape reads the database."""
    project.insert("ok")
    project.start("migrate").communicate(timeout=60)
    port = free_port()
    process = project.start("metrics", "--port", str(port))
    address = f"http://127.0.0.1:{port}/metrics"
    eventually(lambda: "tabellion_queue_rows" in scrape(address) or process.poll() is not None, within=60, every=0.1)
    assert f"metrics at {address}" in end(process)


def test_each_worker_process_has_its_port(project: Project) -> None:
    """The first has the given one, the second the next; both are gone when the worker has ended."""
    project.insert("ok", "empty", "ok")
    ports = free_ports(2)
    process = project.start("worker", "--processes", "2", "--metrics-port", str(ports[0]))
    addresses = [f"http://127.0.0.1:{port}/metrics" for port in ports]

    def done() -> float:
        counts = [re.findall(r'tabellion_jobs_total\{.*outcome="done".*\} ([0-9.]+)', scrape(one)) for one in addresses]
        return sum(float(count) for (count,) in counts) if all(counts) else 0.0

    try:
        eventually(lambda: done() == 2, within=60, every=0.1)
        assert all('tabellion_worker_slots{state="free"}' in scrape(address) for address in addresses)
    finally:
        end(process)
    assert not any(scrape(address) for address in addresses)


def test_a_port_in_use_stops_no_work(project: Project) -> None:
    """The process says that it serves no metrics, and works."""
    import socket

    project.insert("ok")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        process = project.start("worker", "--until-idle", "--metrics-port", str(taken.getsockname()[1]))
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "choose another port" in errors
    assert project.sql("SELECT status FROM invoices")[0]["status"] == "read"
