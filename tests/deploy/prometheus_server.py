"""Finds a real Prometheus, unpacks Debian's package where there is none, and says clearly when there is no way."""

from __future__ import annotations

import contextlib
import functools
import http.client
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from tests.servers import die_with_parent, free_port
from tests.waiting import eventually

ROOT = Path(__file__).parent.parent.parent
CACHE = ROOT / ".cache" / "prometheus"  #: where the package is unpacked: no root, and no service that Debian starts
HOW = "run `make dashboards`, which unpacks Debian's package prometheus, or put `prometheus` and `promtool` in PATH"


@functools.cache
def find(program: str) -> str | None:
    """Return the path of `prometheus` or `promtool`, if there is one."""
    path = shutil.which(program)
    kept = CACHE / "usr" / "bin" / program
    return path or (str(kept) if kept.exists() else None)


def why_not() -> str | None:
    """Return why these tests are skipped and how to run them; None when they run."""
    return None if find("prometheus") and find("promtool") else f"there is no Prometheus on this machine: {HOW}"


def install() -> None:
    """Download and unpack Debian's package, unless there is a Prometheus."""
    if why_not() is None or not shutil.which("apt-get") or not shutil.which("dpkg-deb"):
        return
    CACHE.mkdir(parents=True, exist_ok=True)
    steps = [["apt-get", "-qq", "download", "prometheus"]]
    if os.geteuid() == 0:
        steps += [["apt-get", "-qq", "update"], steps[0]]  # its lists may be older than what there is
    for step in steps:
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            subprocess.run(step, cwd=CACHE, timeout=300, check=False, stdin=subprocess.DEVNULL, capture_output=True)
        for package in CACHE.glob("prometheus_*.deb"):
            subprocess.run(["dpkg-deb", "-x", package.name, "."], cwd=CACHE, check=True)
            find.cache_clear()
            return


class Prometheus:
    """A running Prometheus on loopback."""

    def __init__(self, port: int) -> None:
        self.port = port

    def query(self, expression: str) -> list[dict[str, Any]]:
        """Return the series that an expression has now."""
        answer = self.ask(f"/api/v1/query?{urlencode({'query': expression})}")
        assert answer["status"] == "success", f"{expression}: {answer}"
        assert answer["data"]["resultType"] in ("vector", "scalar")
        return list(answer["data"]["result"])

    def ask(self, path: str) -> Any:
        """Return an answer of its API."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            connection.request("GET", path)
            return json.loads(connection.getresponse().read())
        finally:
            connection.close()


@contextlib.contextmanager
def prometheus(folder: Path, config: Path) -> Iterator[Prometheus]:
    """Run a Prometheus with this configuration for the duration of a block."""
    program, port = find("prometheus"), free_port()
    assert program is not None
    command = [
        program, f"--config.file={config}", f"--storage.tsdb.path={folder / 'tsdb'}",
        f"--web.listen-address=127.0.0.1:{port}", "--log.level=warn", "--query.lookback-delta=5m",
    ]  # fmt: skip
    with (folder / "prometheus.log").open("w") as log:
        process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log, preexec_fn=die_with_parent)
    try:
        eventually(lambda: _is_ready(port) or process.poll() is not None, within=60, every=0.1)
        assert process.poll() is None, (folder / "prometheus.log").read_text()
        yield Prometheus(port)
    finally:
        process.terminate()
        process.wait(30)


def _is_ready(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/-/ready")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


if __name__ == "__main__":
    install()
    if sentence := why_not():
        print(f"The tests with a real Prometheus are skipped: {sentence}.", file=sys.stderr)
