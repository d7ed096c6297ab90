"""Runs a fake model for a test or a benchmark: in a separate process for the duration of a block."""

from __future__ import annotations

import contextlib
import http.client
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tabellion.models.fake.address import ServerAddress

PATIENCE = 10.0  # seconds in which a server must answer or end


@dataclass(frozen=True, slots=True)
class Serving:
    """A running fake model: its address and its log."""

    url: str
    log: Path
    environment: dict[str, str]  #: variables that point clients to it

    def change(self, **settings: Any) -> dict[str, Any]:
        """Changes `rate`, `latency` or `knobs` for the whole server at once."""
        return self._ask("PUT", json.dumps(settings))

    def report(self) -> dict[str, Any]:
        """Its settings and counts."""
        return self._ask("GET", None)

    def lines(self) -> list[dict[str, Any]]:
        """Its log so far, one entry per request."""
        return [json.loads(line) for line in self.log.read_text().splitlines(keepends=True) if line.endswith("\n")]

    def _ask(self, method: str, body: str | None) -> dict[str, Any]:
        connection = http.client.HTTPConnection(urlsplit(self.url).netloc, timeout=PATIENCE)
        try:
            connection.request(method, "/fake", body)
            answer = json.loads(connection.getresponse().read())
        finally:
            connection.close()
        if "error" in answer:
            raise ValueError(answer["error"])
        return dict(answer)


@contextlib.contextmanager
def serving(
    port: int = 0, *, host: str = "127.0.0.1", rate: float | None = None, latency: float | str | None = None,
    knobs: str = "", seed: int = 0, log: Path | str | None = None,
) -> Iterator[Serving]:  # fmt: skip
    """A fake model in a separate process, which ends with the block, or when this process dies.

    >>> with serving(rate=20, latency="0.5-2") as fake:
    ...     client = genai.Client(api_key="fake", http_options={"base_url": fake.url})
    ...     fake.change(rate=5)
    """
    with tempfile.TemporaryDirectory(prefix="fake-model-") as folder:
        path = Path(log) if log is not None else Path(folder) / "requests.jsonl"
        options = {
            "port": port, "host": host, "rate": rate, "latency": latency, "knobs": knobs, "seed": seed,
            "log": str(path),
        }  # fmt: skip
        command = [sys.executable, "-m", "tabellion.models.fake", json.dumps(options)]
        with subprocess.Popen(  # noqa: S603 - this package itself
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as process:
            try:
                line = process.stdout.readline() if process.stdout else ""
                if not line:
                    raise RuntimeError("the fake model did not start: its standard error says why")
                address = ServerAddress(json.loads(line)["url"])
                yield Serving(address.url, path, address.environment)
            finally:
                _end(process)


def _end(process: subprocess.Popen[str]) -> None:
    """Ends the server, which stops when its standard input is closed."""
    with contextlib.suppress(OSError):
        if process.stdin:
            process.stdin.close()
    try:
        process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
