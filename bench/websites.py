"""Websites in three phases: python -m bench.websites [--sites 1000] [--slots 10] [--fetch 1.0] [--model 3.0]

Sites on loopback, each at an address of its own, that take a second to answer; a model that takes three; PostgreSQL;
one worker. The ideal is a pipeline in which no slot is ever idle: the slowest phase times the sites, divided by its
slots, and once the time of the other. The gate is wide open, no page is rendered, no pause is made between requests.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import resource
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from tests.servers import postgres
from tests.workers import EventRecorder, RunningWorker, make_worker

from tabellion import Store
from tabellion.config import Config, model
from tabellion.engine.gates.state import GateSettings
from tabellion.models.fake.serving import serving
from tabellion.net.guard import Rules
from tabellion.pipelines.websites.pipeline import PIPELINE
from tabellion.pipelines.websites.queues import website_queues
from tabellion.pipelines.websites.settings import WebsiteSettings
from tabellion.pipelines.websites.site.settings import VisitSettings
from tabellion.pipelines.websites.states import ANALYSIS, INFO, MODELS, PROMPTS
from tabellion.pipelines.websites.submit import submit
from tabellion.storage.blobs import Blobs

TARGET = 1.3  #: times the ideal
FAST = {"openai": GateSettings(rate=1000, max_rate=10_000)}  #: the gate must not be what is measured
PAGE = """<!doctype html><html lang="en"><head><title>Workshop {n} | Wooden toys</title>
<meta name="description" content="Wooden toys made by hand in workshop {n}, for families and schools."></head>
<body><main><h1>Workshop {n}</h1>{paragraphs}</main></body></html>"""
PARAGRAPH = "<p>Workshop {n} builds toy number {k} for families and schools, of beech, sanded and oiled by hand.</p>"


def main() -> None:
    """Prints the time and how it compares with the ideal."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sites", type=int, default=1000)
    parser.add_argument("--slots", type=int, default=10, help="of each phase")
    parser.add_argument("--fetch", type=float, default=1.0, help="seconds that a site takes to answer")
    parser.add_argument("--model", type=float, default=3.0, help="seconds that the model takes to answer")
    args = parser.parse_args()
    slowest, other = max(args.fetch, args.model), min(args.fetch, args.model)
    ideal = args.sites * slowest / args.slots + other
    with postgres() as server, serving(latency=args.model) as fake, sites(args.sites, args.fetch) as urls:
        took, cpu = measure(server.create_database("websites"), fake.environment["OPENAI_BASE_URL"], urls, args.slots)
    print(
        f"{args.sites} websites, {args.slots} slots a phase, fetch {args.fetch:g} s, model {args.model:g} s: "
        f"{took:.1f} s, ideal {ideal:.1f} s: {took / ideal:.2f} times (target: {TARGET}); "
        f"{args.sites / took:.1f} websites a second; {cpu / args.sites * 1000:.0f} ms of processor time each"
    )


def measure(database: str, model_url: str, urls: list[str], slots: int) -> tuple[float, float]:
    """Seconds from the start of the worker to the last result, and its processor time with that of its children."""
    os.environ["OPENAI_API_KEY"] = "bench"
    with tempfile.TemporaryDirectory() as folder:
        config = Config(models={"openai": {"base_url": model_url, "model": "gpt-4o-mini"}})
        settings = WebsiteSettings(
            Blobs(Path(folder) / "blobs"), models={"openai": "openai"}, make_model=partial(model, config=config),
            slots=dict.fromkeys((INFO.queue, PROMPTS.queue, ANALYSIS.queue, MODELS), slots), backlog=len(urls) + 1,
            visit=VisitSettings(
                guard=Rules.of(["127.0.0.0/8"]), pages=1, pause=0.0, browser="never", screenshot=False
            ),
        )  # fmt: skip

        async def fill() -> None:
            async with Store(database) as store:
                await PIPELINE.prepare(store)
                for url in urls:
                    await submit(store, settings, url, models=["openai"])

        asyncio.run(fill())
        diary = EventRecorder()
        before, began = times(), time.monotonic()
        worker = make_worker(database, *website_queues(settings), gates=FAST, listeners=[diary])
        shift = RunningWorker(worker)
        ended = 0
        while ended < len(urls):
            time.sleep(0.1)
            ended = sum(event.queue == ANALYSIS.queue for event in diary.of("done")) + len(diary.of("failed"))
        took = time.monotonic() - began
        worker.stop()
        shift.end()
        if failed := diary.of("failed"):
            raise SystemExit(f"{len(failed)} websites failed, the first: {failed[0].error}")
        return took, times() - before


def times() -> float:
    """Processor seconds of this process and its children."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


@contextmanager
def sites(count: int, seconds: float) -> Iterator[list[str]]:
    """So many websites on loopback, each at its own address; a page takes so many seconds."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 8192)), hard))
    hosts = [f"127.1.{number // 250}.{number % 250 + 1}" for number in range(count)]
    loop = asyncio.new_event_loop()
    ready: threading.Event = threading.Event()
    ports: list[int] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = (await reader.readuntil(b"\r\n\r\n")).split(b" ")
        host = writer.get_extra_info("sockname")[0]
        if request[1] == b"/":
            await asyncio.sleep(seconds)
            paragraphs = "".join(PARAGRAPH.format(n=host, k=number) for number in range(20))
            body, status = PAGE.format(n=host, paragraphs=paragraphs).encode(), "200 OK"
        else:
            body, status = b"", "404 Not Found"
        head = (
            f"HTTP/1.1 {status}\r\nContent-Type: text/html\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        )
        writer.write(head.encode() + body)
        await writer.drain()
        writer.close()

    async def listen() -> None:
        first = await asyncio.start_server(answer, hosts[0], 0)
        ports.append(first.sockets[0].getsockname()[1])
        others = await asyncio.start_server(answer, hosts[1:], ports[0]) if hosts[1:] else None
        ready.set()
        await asyncio.gather(*(server.serve_forever() for server in (first, others) if server is not None))

    def serve() -> None:
        asyncio.set_event_loop(loop)
        listening = loop.create_task(listen())
        loop.run_forever()
        listening.cancel()
        loop.run_until_complete(asyncio.gather(listening, return_exceptions=True))

    threading.Thread(target=serve, name="sites", daemon=True).start()
    ready.wait(60)
    try:
        yield [f"http://{host}:{ports[0]}/" for host in hosts]
    finally:
        loop.call_soon_threadsafe(loop.stop)


if __name__ == "__main__":
    main()
