"""`tabellion fake-model`: one line to wait for, a clean stop, a clear error."""

from __future__ import annotations

import http.client
import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

Process = subprocess.Popen[str]


@pytest.fixture
def started(tmp_path: Path) -> Iterator[tuple[Process, Path]]:
    """The command on a free port, with a log."""
    log = tmp_path / "requests.jsonl"
    command = [sys.executable, "-m", "tabellion", "fake-model", "--port", "0", "--log", str(log), "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        yield process, log
        process.kill()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_prints_its_address_and_stops_cleanly(started: tuple[Process, Path], number: signal.Signals) -> None:
    """The address as JSON, an answer, a line in the log; a signal ends it with 0 even with a hanging request."""
    process, log = started
    assert process.stdout
    output = json.loads(process.stdout.readline())
    port = int(output["url"].rpartition(":")[2])
    assert output["environment"]["GEMINI_BASE_URL"] == output["url"]
    hanging = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    for model in ("m", "m@hang"):
        body = json.dumps({"contents": [{"parts": [{"text": "hello"}]}]})
        hanging.request("POST", f"/v1beta/models/{model}:generateContent?key=k", body)
        if model == "m":
            assert hanging.getresponse().read()
    process.send_signal(number)
    _, errors = process.communicate(timeout=20)
    hanging.close()
    assert (process.returncode, errors) == (0, "")
    assert json.loads(log.read_text().splitlines()[0])["status"] == 200


def test_a_port_in_use_is_exit_code_3() -> None:
    """With what to do about it, and no traceback."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        done = subprocess.run(
            [sys.executable, "-m", "tabellion", "fake-model", "--port", port],
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 3
    assert done.stderr.startswith(f"error: cannot listen on 127.0.0.1:{port}: Address already in use")


def test_an_unknown_option_is_exit_code_3() -> None:
    """The error lists the valid ones."""
    done = subprocess.run(
        [sys.executable, "-m", "tabellion", "fake-model", "--port", "0", "--knobs", "slow"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 3
    assert "unknown knob 'slow'" in done.stderr
