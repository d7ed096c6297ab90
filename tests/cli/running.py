"""`tabellion up` in its own process, as people run it, and a way to talk to it."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.waiting import eventually

CLEAN = ("TABELLION_", "DATABASE_URL", "GEMINI_", "GOOGLE_", "OPENAI_", "DEEPINFRA_")  #: of the tester's own machine

SET = {"TABELLION_POLL": "0.1", "TABELLION_GRACE": "10", "PYTHONFAULTHANDLER": "1"}


class Service:
    """One `tabellion up`, with the JSON lines it prints."""

    def __init__(self, data: Path, *words: str, **variables: str) -> None:
        self.data = data
        kept = {name: value for name, value in os.environ.items() if not name.startswith(CLEAN)}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tabellion", "up", "--data", str(data), "--port", "0", "--json", *words],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL,
            start_new_session=True, env=kept | SET | variables,
        )  # fmt: skip
        self.lines: list[dict[str, Any]] = []
        self.errors = ""
        self._readers = [threading.Thread(target=one, daemon=True) for one in (self._read, self._read_errors)]
        for reader in self._readers:
            reader.start()

    def _read(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            with contextlib.suppress(ValueError):
                self.lines.append(json.loads(line))

    def _read_errors(self) -> None:
        assert self.process.stderr
        for line in self.process.stderr:
            self.errors += line

    def wait_for_line(self, event: str, within: float = 60) -> dict[str, Any]:
        """Return the printed line of this event, once it is there."""

        def look() -> dict[str, Any] | None:
            found = next((line for line in self.lines if line["event"] == event), None)
            if found is None and self.process.poll() is not None:
                raise AssertionError(f"it ended with {self.process.returncode}: {self.errors}")
            return found

        return eventually(look, within) or {}

    @property
    def url(self) -> str:
        """Its address."""
        return str(self.wait_for_line("started")["url"])

    @property
    def key(self) -> str:
        """Its admin key."""
        return Path(self.wait_for_line("started")["key_file"]).read_text().strip()

    def ask(self, method: str, path: str, body: bytes | None = None, **headers: str) -> tuple[int, Any]:
        """Send one request; return status and body."""
        connection = http.client.HTTPConnection(urlsplit(self.url).netloc, timeout=60)
        try:
            given = {"Authorization": f"Bearer {self.key}"} | headers
            connection.request(method, path, body, given)
            response = connection.getresponse()
            content = response.read()
            is_json = "json" in response.headers.get(
                "content-type", ""
            )  # which an answer without content does not have
            return response.status, json.loads(content) if is_json else content
        finally:
            connection.close()

    def upload(self, content: bytes, name: str, **wait_for_line: str) -> dict[str, Any]:
        """Upload a document; return the answer about it."""
        query = "&".join(f"{key}={value}" for key, value in {"name": name, **wait_for_line}.items())
        path = f"/api/documents?{query}"
        status, answer = self.ask("POST", path, content, **{"Content-Type": "application/octet-stream"})
        assert status == 202, answer
        return dict(answer["documents"][0])

    def stop(self, number: signal.Signals = signal.SIGINT, within: float = 60) -> int:
        """Send a signal and wait until it has ended."""
        self.process.send_signal(number)
        return self.wait(within)

    def wait(self, within: float = 60) -> int:
        """Wait until it has ended; return the exit code. If it does not end, say where its threads are."""
        try:
            code = self.process.wait(within)
        except subprocess.TimeoutExpired as error:
            self.process.send_signal(signal.SIGABRT)
            self.process.wait(10)
            for reader in self._readers:
                reader.join(10)
            raise AssertionError(f"it has not ended within {within:g} s: {self.lines[-3:]}\n{self.errors}") from error
        for reader in self._readers:
            reader.join(10)
        return code

    def kill(self) -> None:
        """Kill it and everything it has started, at once, as a power cut would."""
        for pid in [self.process.pid, *descendants(self.process.pid)]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait(10)

    def close(self) -> None:
        """End it, whatever its state."""
        if self.process.poll() is None:
            self.kill()
        for reader in self._readers:
            reader.join(10)
        for pipe in (self.process.stdout, self.process.stderr):
            if pipe:
                pipe.close()


@contextlib.contextmanager
def running(data: Path, *words: str, **variables: str) -> Iterator[Service]:
    """Run `tabellion up` for the duration of a block."""
    service = Service(data, *words, **variables)
    try:
        yield service
    finally:
        service.close()


def descendants(pid: int) -> list[int]:
    """Return every process that this one has started, and theirs."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(folder.name))
    found, todo = [], [pid]
    while todo:
        below = children.get(todo.pop(), [])
        found += below
        todo += below
    return found
