"""The document service under load: python -m bench.service [--documents 3000] [--latency 3] [--workers 2]

A real installation (`tabellion up` on PostgreSQL) with a fake model that takes three seconds for each call; one-page
PDFs come in over HTTP, each different. Counted is what ended: extracted, both outputs written, fields and review item
in the database.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import os
import queue
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.pipelines.documents import bills
from tests.servers import postgres
from tests.table_owner import Owner

from tabellion.models.fake.serving import serving

UPLOADERS = 8


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=3000)
    parser.add_argument("--latency", type=float, default=3.0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--concurrency", type=int, default=100, help="slots of each worker process")
    args = parser.parse_args()
    with (
        postgres(durable=True) as server,
        serving(latency=args.latency) as fake,
        tempfile.TemporaryDirectory() as folder,
    ):
        papers = [paper(number) for number in range(args.documents)]
        with run_service(Path(folder), server.url, fake.url, args) as service:
            measure(service, Owner(server.url), papers, fake)


def paper(number: int) -> bytes:
    """Return a unique one-page invoice."""
    return bills.invoice(bills.invent("en", random.Random(number)), look=number % 3).to_bytes()


@contextlib.contextmanager
def run_service(folder: Path, database: str, model: str, args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Run `tabellion up` for the duration of a block."""
    config = folder / "tabellion.toml"
    config.write_text(
        f'[worker]\nconcurrency = {args.concurrency}\n[environments]\nbench = "{database}"\n'
        f'[models.gemini]\nkey = "bench"\nbase_url = "{model}"\n'
        # One key uploads for a whole company here.
        "[server]\nrate = 0\n[gates.gemini]\nrate = 500\nmax_rate = 1000\n",
        encoding="utf-8",
    )
    command = [sys.executable, "-m", "tabellion", "--config", str(config), "up", "--port", "0", "--json"]
    command += ["--data", str(folder / "data"), "--workers", str(args.workers)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    try:
        assert process.stdout is not None
        for line in process.stdout:
            body = json.loads(line)
            if "url" in body:
                break
        threading.Thread(target=process.stdout.read, daemon=True).start()
        key = Path(body["key_file"]).read_text(encoding="utf-8").strip()
        yield {"url": body["url"], "key": key, "pid": process.pid}
    finally:
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(60)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def measure(service: dict[str, Any], owner: Owner, papers: list[bytes], fake: Any) -> None:
    """Upload everything, wait until all have ended, and print the rate."""
    waiting: queue.Queue[bytes] = queue.Queue()
    for one in papers:
        waiting.put(one)
    began = time.monotonic()
    threads = [threading.Thread(target=upload, args=(service, waiting), daemon=True) for _ in range(UPLOADERS)]
    for thread in threads:
        thread.start()
    memory: dict[int, float] = {}
    uploaded = 0.0
    while True:
        memory |= {pid: max(size, memory.get(pid, 0)) for pid, size in group_memory(service["pid"]).items()}
        if not uploaded and not any(thread.is_alive() for thread in threads):
            uploaded = time.monotonic() - began
        counts = {
            row["status"]: row["n"]
            for row in owner("SELECT status, count(*) AS n FROM tabellion_documents GROUP BY status")
        }
        ended = sum(counts.get(name, 0) for name in ("completed", "failed", "duplicate"))
        if ended >= len(papers):
            break
        time.sleep(0.5)
    taken = time.monotonic() - began
    hourly = len(papers) / taken * 3600
    reviews = owner("SELECT count(*) AS n FROM tabellion_review_items")[0]["n"]
    largest = sorted(memory.values(), reverse=True)[:6]
    print(
        f"{len(papers)} documents in {taken:.1f} s (uploaded after {uploaded:.1f} s): {hourly:,.0f} an hour; {counts}"
    )
    print(f"calls to the model: {fake.report()['requests']}; review items: {reviews}")
    print("highest memory of a process: " + ", ".join(f"{size:.0f} MB" for size in largest))


def upload(service: dict[str, Any], waiting: queue.Queue[bytes]) -> None:
    """Run one client with one connection."""
    address = urlsplit(service["url"])
    connection = http.client.HTTPConnection(address.hostname or "", address.port)
    headers = {"Authorization": f"Bearer {service['key']}", "Content-Type": "application/pdf"}
    while True:
        try:
            content = waiting.get_nowait()
        except queue.Empty:
            return
        connection.request("POST", "/api/documents?type=invoice&model=gemini&name=bench.pdf", content, headers)
        answer = connection.getresponse()
        body = answer.read()
        if answer.status != 202:
            raise RuntimeError(f"{answer.status}: {body[:300]!r}")


def group_memory(leader: int) -> dict[int, float]:
    """Return the resident megabytes of a process and its descendants."""
    parents, sizes = {}, {}
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError, IndexError):
            if entry.name.isdigit():
                parents[int(entry.name)] = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
                sizes[int(entry.name)] = int((entry / "statm").read_text().split()[1]) * 4096 / 1e6
    family = {leader}
    while more := {pid for pid, parent in parents.items() if parent in family and pid not in family}:
        family |= more
    return {pid: sizes[pid] for pid in family if pid in sizes}


if __name__ == "__main__":
    main()
