"""Serving: never to other machines without a key, and a clean stop."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import httpx2
import pytest

from tabellion.accounts import keys
from tabellion.engine.store import Store
from tabellion.errors import ConfigurationError
from tabellion.web.server import check_listening, listening
from tests.waiting import eventually
from tests.web.live import live
from tests.workers import ask

ROOT = Path(__file__).parent.parent.parent
PROGRAM = """
import asyncio, sys
from pathlib import Path
from tabellion.config import Config
from tabellion.engine.environment import Environment
from tabellion.engine.store import Store
from tabellion.pipelines.documents.pipeline import PIPELINE
from tabellion.web.app import make_app, serve_environment
from tabellion.web.server import serve

async def main(folder, url):
    config = Config(environments=(Environment("prod", url),), data=folder)
    async with Store(url) as store:
        app = make_app(config, [serve_environment(config, [PIPELINE], "prod", store)], [PIPELINE])
        await serve(app, "127.0.0.1", 0, started=lambda address: print(address, flush=True))

asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
"""


def test_responses_are_sent_at_once() -> None:
    """Head and body of a response are two writes: the second does not wait for an acknowledgement."""

    async def accepted() -> int:
        found: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        def came(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            one = writer.get_extra_info("socket")
            found.set_result(one.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            writer.close()

        with listening("127.0.0.1", 0) as one:
            async with await asyncio.start_server(came, sock=one):
                _, writer = await asyncio.open_connection(*one.getsockname())
                writer.close()
                return await found

    assert asyncio.run(accepted())


def test_other_machines_are_not_served_without_a_key(sqlite_url: str) -> None:
    """The error names the command that creates one; a revoked key does not count."""

    async def story(store: Store) -> None:
        await check_listening("127.0.0.1", [("prod", store)])
        with pytest.raises(ConfigurationError, match="tabellion keys create --environment prod --role admin"):
            await check_listening("0.0.0.0", [("prod", store)])
        id_, _ = await keys.create(store, "prod", "viewer")
        await check_listening("0.0.0.0", [("prod", store)])
        await keys.revoke(store, "prod", id_)
        with pytest.raises(ConfigurationError):
            await check_listening("0.0.0.0", [("prod", store)])

    ask(sqlite_url, story)


def test_a_port_in_use_is_reported() -> None:
    """With host and port."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        one.listen()
        port = one.getsockname()[1]
        with pytest.raises(ConfigurationError, match=f"cannot listen on 127.0.0.1:{port}"):
            listening("127.0.0.1", port)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_it_despite_open_streams(tmp_path: Path, number: signal.Signals) -> None:
    """The stream ends and the program ends, within seconds."""
    url = f"sqlite:///{tmp_path}/p.db"
    key = ask(url, lambda store: keys.create(store, "prod", "viewer"))[1]
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(tmp_path), url], stdout=subprocess.PIPE, text=True, cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
    ) as process:  # fmt: skip
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        headers = {"Authorization": f"Bearer {key}"}
        with httpx2.Client(trust_env=False, timeout=20, headers=headers) as client:
            with client.stream("GET", f"{address}/api/documents/events") as answer:
                lines = answer.iter_lines()
                assert next(lines) == "retry: 2000"
                process.send_signal(number)
                assert [line for line in lines if line] == []
            eventually(lambda: process.poll() is not None, within=15)
    assert process.returncode in (0, -number)


def test_a_caller_without_signals_stops_it_itself(tmp_path: Path) -> None:
    """As `tabellion up` does, which has more to stop than a server."""
    with live(tmp_path, {"prod": f"sqlite:///{tmp_path}/p.db"}) as web:
        assert web.get("/healthz").status_code == 200
        web.stop()
        with pytest.raises(httpx2.ConnectError):
            httpx2.get(web.url + "/healthz", trust_env=False)
