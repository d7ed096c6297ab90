"""Batches through one gate: python -m bench.batches [--rate 250] [--latency 1.0] [--pis 500] [--refs 5]

The sizing example of the chunked OCR service: 500 entities with 5 images each, read by a model that allows so many
requests a second and takes so long for each; images on loopback; PostgreSQL; some worker processes. The ideal is the
number of refs divided by the rate, and once the latency. `--known` tells the gate the rate, as an operator with a
contract would; without it the gate has to find it.

`--submit N` measures instead how long a batch of N refs takes to be submitted over HTTP, the memory of the server
before and after, and the status of a chunk and of the batch while it is worked on.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
from tests.servers import postgres

from bench.usage import processor_seconds
from tabellion.engine.store import Store
from tabellion.models.fake.serving import Serving, serving
from tabellion.pipelines.batches.lookup import get_batch
from tabellion.storage.lake import Lake

TARGETS = {True: 1.25, False: 1.1}  #: times the ideal, with and without a known rate
#: The smallest PNG there is: one white pixel.
PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c4944415478da63f8ffff3f0005fe02fe0d"
    "ef46b80000000049454e44ae426082"
)


def main() -> None:
    """Prints the time and how it compares with the ideal."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pis", type=int, default=500)
    parser.add_argument("--refs", type=int, default=5, help="of each entity")
    parser.add_argument("--rate", type=float, default=250.0, help="requests a second that the model allows")
    parser.add_argument("--latency", type=float, default=1.0, help="seconds that the model takes")
    parser.add_argument("--processes", type=int, default=3, help="worker processes")
    parser.add_argument("--known", action="store_true", help="tell the gate the rate")
    parser.add_argument("--submit", type=int, metavar="REFS", help="measure submitting a batch of so many refs")
    args = parser.parse_args()
    with postgres() as server, tempfile.TemporaryDirectory() as folder, images() as url:
        database = server.create_database("batches")
        with serving(rate=args.rate, latency=args.latency) as fake:
            write_config(Path(folder), database, fake, args)
            if args.submit:
                measure_submit(Path(folder), url, args)
            else:
                measure(Path(folder), database, url, fake, args)


def write_config(folder: Path, database: str, fake: Serving, args: argparse.Namespace) -> None:
    known = f"[gates.openai]\nrate = {args.rate * 0.98}\nmax_rate = {args.rate * 0.98}\n" if args.known else ""
    (folder / "tabellion.toml").write_text(
        f"""pipelines = ["batches"]
data = "{folder}/data"
environments = {{ prod = "{database}" }}
{known}
[batches]
model = "openai"
slots = {max(20, round(args.rate * (args.latency + 0.5) / args.processes))}
[models.openai]
base_url = "{fake.environment["OPENAI_BASE_URL"]}"
model = "gpt-4o-mini"
key = "bench"
[server]
allow = ["127.0.0.0/8"]
port = 0
[worker]
concurrency = 1000
"""
    )


def measure(folder: Path, database: str, url: str, fake: Serving, args: argparse.Namespace) -> None:
    """Submits the batch to running workers, and waits for its end."""
    total = args.pis * args.refs
    pis = [pi_of(url, number, args.refs) for number in range(args.pis)]
    asyncio.run(stage(folder, pis))
    with (
        running(folder, "up", "--workers", "0") as api,
        running(folder, "worker", "--processes", str(args.processes)),
    ):
        address, key = api
        http = httpx2.Client(base_url=address, headers={"Authorization": f"Bearer {key}"}, timeout=120)
        await_workers(http, args.processes)
        before, used, began = fake.report()["requests"], processor_seconds_by_part(), time.monotonic()
        http.post("/api/batches", json={"batch_id": "sizing", "pis": pis}).raise_for_status()
        submitted = time.monotonic() - began
        batch = asyncio.run(await_end(database))
        took = time.monotonic() - began
        used = {part: seconds - used[part] for part, seconds in processor_seconds_by_part().items()}
    ideal = total / args.rate + args.latency
    calls = fake.report()["requests"] - before
    wasted, target = calls - total, TARGETS[args.known]
    print(
        f"{total} refs, {args.rate:g} requests/s, {args.latency:g} s each, {args.processes} processes"
        f"{', known rate' if args.known else ''}: {took:.1f} s (submitted in {submitted:.1f} s), ideal {ideal:.1f} s: "
        f"{took / ideal:.2f} times (target: {target}); {calls} calls, {wasted} wasted ({wasted / calls:.2%}, target: "
        f"1 %); "
        f"{batch['progress']['failed']} refs failed; {batch['status']}"
    )
    parts = ", ".join(f"{part} {seconds / total * 1000:.2f}" for part, seconds in used.items())
    print(f"ms of processor time for each ref: {parts}; all {sum(used.values()) / total * 1000:.2f}")


def measure_submit(folder: Path, url: str, args: argparse.Namespace) -> None:
    """Streams a large batch to the API, and asks for its status while workers begin with it."""
    count = args.submit // args.refs
    lines = folder / "batch.jsonl"
    with lines.open("w") as file:
        for number in range(count):
            file.write(json.dumps(pi_of(url, number, args.refs)) + "\n")
    asyncio.run(stage(folder, [pi_of(url, number, args.refs) for number in range(min(count, 2000))]))
    with (
        running(folder, "up", "--workers", "0") as api,
        running(folder, "worker", "--processes", str(args.processes)),
    ):
        address, key = api
        http = httpx2.Client(base_url=address, headers={"Authorization": f"Bearer {key}"}, timeout=600)
        await_workers(http, args.processes)
        before = memory_of(api_process.pid)
        began = time.monotonic()
        with lines.open("rb") as file:
            answer = http.post(
                "/api/batches?batch_id=large", content=iter(lambda: file.read(1 << 20), b""),
                headers={"Content-Type": "application/x-ndjson"},
            )  # fmt: skip
        answer.raise_for_status()
        took = time.monotonic() - began
        peak = peak_of(api_process.pid)
        waits: dict[str, list[float]] = {"/status/large/7": [], "/api/batches/large": []}
        until = time.monotonic() + 20
        while time.monotonic() < until:
            for path, times in waits.items():
                asked = time.monotonic()
                http.get(path).raise_for_status()
                times.append(time.monotonic() - asked)
            time.sleep(0.2)
    print(
        f"{count * args.refs} refs ({lines.stat().st_size / 1e6:.0f} MB): submitted in {took:.1f} s (target: 60); "
        f"memory of the server {before:.0f} MB before, {peak:.0f} MB at most"
    )
    for path, times in waits.items():
        times.sort()
        print(
            f"{path} while it is worked on: median {times[len(times) // 2] * 1000:.0f} ms, "
            f"95 % {times[int(len(times) * 0.95)] * 1000:.0f} ms, longest {times[-1] * 1000:.0f} ms (target: 100)"
        )


def pi_of(url: str, number: int, refs: int) -> dict[str, Any]:
    names = [f"{number}-{place}" for place in range(refs)]
    return {
        "pi": f"pi{number}", "current_tip": f"tip{number}",
        "refs": [
            {"filename": f"{name}.png.ref.json", "staging_key": f"refs/{number % 100}/{name}.png.ref.json",
             "cdn_url": f"{url}/asset/{name}"}
            for name in names
        ],
    }  # fmt: skip


async def stage(folder: Path, pis: list[dict[str, Any]]) -> None:
    root = folder / "data" / "batches" / "staging"
    Lake(str(root)).check()
    for pi in pis:
        for ref in pi["refs"]:
            path = root / ref["staging_key"]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps({"url": ref["cdn_url"]}))


async def await_end(database: str) -> Any:
    async with Store(database) as store:
        while True:
            batch = await get_batch(store, "sizing")
            if batch is not None and batch["status"] in ("complete", "incomplete"):
                return batch
            await asyncio.sleep(0.1)


def await_workers(http: httpx2.Client, count: int) -> None:
    while len(http.get("/api/workers").json()["workers"]) < count:
        time.sleep(0.1)


api_process: subprocess.Popen[str]
workers_process: subprocess.Popen[str]


@contextmanager
def running(folder: Path, *command: str) -> Iterator[tuple[str, str]]:
    """A tabellion command within a block; the address and key of `up`."""
    global api_process, workers_process
    process = subprocess.Popen(
        [sys.executable, "-m", "tabellion", *command], cwd=folder, text=True, env={**os.environ, "LOG_LEVEL": "error"},
        stdout=subprocess.PIPE if command[0] == "up" else subprocess.DEVNULL, stderr=None,
    )  # fmt: skip
    try:
        address = key = ""
        if command[0] == "up":
            api_process = process
            assert process.stdout is not None
            for line in process.stdout:
                if "http://" in line:
                    address = "http://" + line.partition("http://")[2].split()[0].rstrip("/")
                    break
            key = (folder / "data" / "admin.key").read_text().strip()
        else:
            workers_process = process
        yield address, key
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


#: What is in the command of a process that this program has started, and what it is called in the output.
PARTS = {
    "tabellion worker": "workers", "tabellion up": "api", "tabellion.models.fake": "fake model",
    "bin/postgres": "postgres", "spawn_main": "images",
}  # fmt: skip


def processor_seconds_by_part() -> dict[str, float]:
    """The processor seconds of this program's children, with all below them, and of this program itself."""
    used = dict.fromkeys(PARTS.values(), 0.0)
    for path in Path(f"/proc/{os.getpid()}/task").glob("*/children"):
        for child in path.read_text().split():
            command = Path(f"/proc/{child}/cmdline").read_text().replace("\0", " ")
            for words, part in PARTS.items():
                if words in command:
                    used[part] += processor_seconds([int(child)])
    own = os.times()
    return {**used, "this program": own.user + own.system}


def memory_of(pid: int) -> float:
    return _status(pid, "VmRSS")


def peak_of(pid: int) -> float:
    return _status(pid, "VmHWM")


def _status(pid: int, name: str) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) / 1024
    raise ValueError(name)


@contextmanager
def images() -> Iterator[str]:
    """One small image at every path, served by another process."""
    receiving, sending = multiprocessing.get_context("spawn").Pipe(duplex=False)
    process = multiprocessing.get_context("spawn").Process(target=serve_images, args=(sending,), daemon=True)
    process.start()
    try:
        yield f"http://127.0.0.1:{receiving.recv()}"
    finally:
        process.terminate()
        process.join()


def serve_images(sending: Any) -> None:
    """Keeps connections as a CDN does. Every path has its own bytes: no answer is remembered for another."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (8192, 8192))

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):  # the client has closed it
            while True:
                path = (await reader.readuntil(b"\r\n\r\n")).split(b" ")[1]
                body = PIXEL + path
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
                await writer.drain()
        writer.close()

    async def listen() -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", 0, backlog=2000)
        sending.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(listen())


if __name__ == "__main__":
    main()
