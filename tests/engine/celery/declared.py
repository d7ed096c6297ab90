"""The queues of the conformance suite: one table, and a queue for every behaviour that all engines must share."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path
from typing import Any

import tabellion
from tabellion import Job, Permanent, Queue, RateLimited
from tabellion.engine.context import asker_of
from tabellion.net.chromium import Chromium

TABLES = [
    """CREATE TABLE flows (id bigserial PRIMARY KEY, flow text NOT NULL, status text NOT NULL DEFAULT 'new',
  size integer NOT NULL DEFAULT 0, input text, result text, error text, worker text)""",
    "CREATE TABLE notes (id bigserial PRIMARY KEY, flow_id bigint NOT NULL)",
]
GATES = {"upstream": {"threshold": 1, "recovery": 1, "rate": 50}}
PACE = (2, 1.0)
SAMPLE = Path(tabellion.__file__).parent / "reading" / "samples" / "en-invoice-1.pdf"


def flow(name: str, **options: Any) -> Queue:
    """A queue on the rows of one flow."""
    settings: dict[str, Any] = {"retry_base": 0.05, "lease": 10.0, "worker": "worker", "error": "error"}
    return Queue(
        "flows", name=name, ready={"flow": name, "status": "new"}, running="running", done="done", failed="failed",
        **(settings | options),
    )  # fmt: skip


hogging = flow("hogging", concurrency=1)
plain, threaded, endings = flow("plain"), flow("threaded"), flow("endings")
in_order = flow("in_order", order="size DESC", limit=1)
paused, paced, gated, remembered = (
    flow("paused"),
    flow("paced", pace=[PACE]),
    flow("gated", uses="upstream"),
    flow("memo"),
)
blocking, slow, crashing = flow("blocking", lease=1.0), flow("slow", timeout=0.3, max_attempts=2), flow("crashing")
attached, reading, browsing, waiting = flow("attached"), flow("reading"), flow("browsing"), flow("waiting", lease=2.0)
first = Queue(
    "flows", name="first", ready={"flow": "stages", "status": "new"}, running="first", done="halfway", failed="failed"
)
second = Queue("flows", name="second", ready={"flow": "stages", "status": "halfway"}, running="second", done="done",
               failed="failed")  # fmt: skip


@plain.handler
async def run_plain(job: Job) -> dict[str, Any]:
    """Return the claim."""
    await asyncio.sleep(0.01)
    return {"result": f"{job.key}:{job.n}:{job.worker}"}


@threaded.handler
def run_threaded(job: Job) -> dict[str, Any]:
    """Return the claim, from a thread."""
    time.sleep(0.01)
    return {"result": f"{job.key}:{job.n}:{job.worker}"}


@endings.handler
async def run_endings(job: Job) -> dict[str, Any]:
    """End as the row says."""
    if job["input"] == "permanent":
        raise Permanent("told to fail")
    if job["input"] == "error" and job.attempt == 1:
        raise OSError("told to break")
    if job["input"] == "limited" and not job.deferrals:
        raise RateLimited(0.05)
    return {"result": f"attempt {job.attempt}"}


@in_order.handler
@paused.handler
@paced.handler
async def run_quickly(job: Job) -> None:
    """Do nothing for a moment."""
    await asyncio.sleep(0.01)


@gated.handler
async def run_gated(job: Job) -> dict[str, Any]:
    """Call the upstream, which fails the first time if the row says so."""
    assert job.context is not None
    call = await job.context.admit("upstream", job)
    if job["input"] == "outage" and job.attempt == 1:
        call.record_failure("told to fail")
        raise OSError("the upstream is down")
    call.record_success(0.0)
    return {"result": f"attempt {job.attempt}"}


@remembered.handler
async def run_remembered(job: Job) -> dict[str, Any]:
    """Pay for an answer, unless it is stored."""
    assert job.context is not None
    memo = await job.context.recall(job["input"], asker_of(job), "model", 10.0)
    if memo.reply is None:
        await job.context.remember(job["input"], asker_of(job), f"answer of {job.key}", 0.01)
        return {"result": f"answer of {job.key}"}
    return {"result": memo.reply}


@blocking.handler
async def run_blocking(job: Job) -> dict[str, Any]:
    """Block the handlers' event loop for longer than the lease."""
    time.sleep(1.6)
    return {"result": f"attempt {job.attempt}"}


@slow.handler
async def run_slow(job: Job) -> None:
    """Take longer than the timeout."""
    await asyncio.sleep(60)


@crashing.handler
async def run_crashing(job: Job) -> dict[str, Any]:
    """Kill the whole process the first time."""
    if job.attempt == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return {"result": f"attempt {job.attempt}"}


@attached.handler
async def run_attached(job: Job) -> dict[str, Any]:
    """Use what a job has: a folder, a note, a cost, and a statement that commits with its result."""
    (job.folder / "file").write_text("content")
    job.note("page 1 of 2")
    job.cost = 0.25
    job.also("INSERT INTO notes (flow_id) VALUES (:id)", id=job.key)
    return {"result": (job.folder / "file").read_text()}


@reading.handler
def run_reading(job: Job) -> dict[str, Any]:
    """Read a document in a child process."""
    return {"result": str(tabellion.read(SAMPLE).fields["total"].value)}


@browsing.handler
async def run_browsing(job: Job) -> dict[str, Any]:
    """Open a page in a browser."""
    async with Chromium() as chromium, chromium.open_session(job.folder) as session:
        page = await session.new_page()
        await page.set_content("<h1>hello</h1>")
        return {"result": await page.inner_text("h1")}


@hogging.handler
@waiting.handler
async def run_waiting(job: Job) -> dict[str, Any]:
    """Wait until the file exists that the row names."""
    while not Path(job["input"]).exists():
        await asyncio.sleep(0.02)
    return {"result": f"attempt {job.attempt}"}


@first.handler
@second.handler
async def run_stage(job: Job) -> None:
    """Lead to the next stage."""
