"""Seed 004: a batch whose workers and API are killed again and again; its orchestrator is down half the time."""

from __future__ import annotations

import asyncio
import copy
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tabellion.engine.store import Store
from tabellion.models.fake.serving import serving
from tabellion.pipelines.batches.pipeline import PIPELINE
from tabellion.pipelines.batches.receiving import receive_callback
from tests.flows.batch_api import Api, Client
from tests.flows.batch_history import History, read_history, violations
from tests.flows.batch_worker import settings_of
from tests.http_server import QuietHandler, serving_http
from tests.pipelines.batches.material import SECRET, rows, serving_images, stage
from tests.waiting import eventually
from tests.workers import ROOT

#: `make chaos-batches` runs the whole of it: 2,500 refs, 40 kills.
REFS = int(os.environ.get("TABELLION_CHAOS_REFS", "200"))
KILLS = int(os.environ.get("TABELLION_CHAOS_KILLS", "6"))
SEED = int(os.environ.get("TABELLION_CHAOS_SEED", "1"))
WORKERS = 3
KILLS_OF_API = 3  #: every third kill
REFS_OF_PI, PIS_OF_CHUNK, BATCHES_OF_PI = 5, 2, 2
PATIENCE = 60.0 + REFS / 5 + KILLS * 2


class Orchestrator:
    """Receives callbacks; down half the time, and sometimes it dies after it has stored one but before it answers."""

    def __init__(self, chance: random.Random) -> None:
        self.accepted: list[tuple[str, dict[str, Any]]] = []
        self.refused = self.unanswered = 0
        self.period = 1.0
        outer = self

        class Handler(QuietHandler):
            def do_POST(self) -> None:  # noqa: N802 - the name of the library
                body = self.body()
                status = 200
                if time.monotonic() % outer.period < outer.period / 2:
                    outer.refused += 1
                    status = 503
                else:
                    id_, callback = receive_callback(dict(self.headers.items()), body, SECRET)
                    outer.accepted.append((id_, dict(callback)))
                    if chance.random() < 0.2:
                        outer.unanswered += 1
                        status = 500
                self.answer(status)

        self._server = ExitStack()
        self.url = self._server.enter_context(serving_http(Handler)) + "/callback"

    def close(self) -> None:
        """Stop the server."""
        self._server.close()


class Fleet:
    """Worker processes; each one that is killed is replaced."""

    def __init__(self, url: str, folder: Path, model_url: str) -> None:
        self._words = [sys.executable, "-m", "tests.flows.batch_worker", url, str(folder), model_url]
        self._errors = (folder / "workers.log").open("wb")
        self._workers = [self._start() for _ in range(WORKERS)]

    def _start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(self._words, cwd=ROOT, stdout=self._errors, stderr=self._errors)

    def kill(self, number: int) -> None:
        """Kill one with SIGKILL, and start another in its place."""
        self.end(number)
        self._workers[number] = self._start()

    def end(self, number: int) -> None:
        """Kill one."""
        os.kill(self._workers[number].pid, signal.SIGKILL)
        self._workers[number].wait()

    def close(self) -> None:
        """Kill all."""
        for number in range(WORKERS):
            self.end(number)
        self._errors.close()


def batches_of(images: str) -> dict[str, list[dict[str, Any]]]:
    """Return entities by batch: each entity is in two batches with other refs, so that chunks race for its tip."""
    count = REFS // (REFS_OF_PI * BATCHES_OF_PI)
    return {
        f"b{batch}": [
            {"pi": f"pi{number}", "current_tip": f"tip{number}",
             "refs": [
                 {"filename": f"{name}.png.ref.json", "staging_key": f"refs/{name}.ref.json",
                  "cdn_url": f"{images}/asset/{name}"}
                 for name in (f"{batch}-{number}-{place}" for place in range(REFS_OF_PI))
             ]}
            for number in range(count)
        ]
        for batch in range(BATCHES_OF_PI)
    }  # fmt: skip


def prepare(url: str) -> None:
    """Create the tables."""

    async def create() -> None:
        async with Store(url) as store:
            await PIPELINE.prepare(store)

    asyncio.run(create())


@contextmanager
def closing(one: Any) -> Iterator[Any]:
    """Close something at the end of a block."""
    try:
        yield one
    finally:
        one.close()


def run(url: str, folder: Path, *, kills: int) -> tuple[History, str]:
    """Work on the batches while workers and the API are killed; return what they left, and a summary."""
    chance = random.Random(SEED)
    with (
        serving(latency="0.02-0.2") as fake,
        serving_images() as images,
        closing(Orchestrator(random.Random(SEED))) as orchestrator,
    ):
        model_url = fake.environment["OPENAI_BASE_URL"]
        settings = settings_of(folder, model_url)
        pis = batches_of(images.url)
        for entities in pis.values():
            stage(settings, entities)
        prepare(url)
        began, killed = time.monotonic(), 0
        with (
            closing(Api(url, folder, model_url, orchestrator.url)) as api,
            closing(Fleet(url, folder, model_url)) as fleet,
            closing(Client(api, pis, chunk_size=PIS_OF_CHUNK, callback_url=orchestrator.url)) as client,
        ):
            api.service.wait_for_line("started")
            for number in range(kills):
                # Each kill falls into another part of the run: the first into the submission, the last ones into the
                # publishing of its end.
                eventually(partial(has_ended, url, REFS * number / (kills + 1)), within=PATIENCE)
                time.sleep(chance.uniform(0.0, 0.4))
                if number % KILLS_OF_API == 0:
                    api.kill()
                else:
                    fleet.kill(chance.randrange(WORKERS))
                    killed += 1
            eventually(lambda: client.is_done and is_over(url), within=PATIENCE, every=0.1)
        assert client.ended == dict.fromkeys(pis, "complete")
        seconds = time.monotonic() - began
        calls = int(fake.report()["requests"])
        history = read_history(url, settings, orchestrator.accepted, calls)
    retold = sum(one["previous"] != f"tip{one['pi'][2:]}" for one in history.versions)
    summary = (
        f"{REFS} refs in {len(history.chunks)} chunks of {BATCHES_OF_PI} batches, {killed} kills of {WORKERS} workers, "
        f"{api.kills} of the API ({client.unanswered} requests not answered), {seconds:.1f} s: "
        f"{calls} calls ({calls - REFS} lost with their workers), {len(history.versions)} versions of "
        f"{len(history.entities)} entities ({retold} appended to a newer tip than the request named), "
        f"{len(orchestrator.accepted)} callbacks accepted ({orchestrator.unanswered} of them not answered, "
        f"{orchestrator.refused} refused while down), {len({id_ for id_, _ in orchestrator.accepted})} after "
        f"de-duplication"
    )
    return history, summary


def has_ended(url: str, count: float) -> bool:
    """Return whether so many refs have been read."""
    [row] = rows(url, "SELECT count(*) AS n FROM batch_refs WHERE status NOT IN ('pending', 'processing')")
    return bool(row["n"] >= count)


def is_over(url: str) -> bool:
    """Return whether no batch is open and no callback waits."""
    [row] = rows(
        url,
        """SELECT (SELECT count(*) FROM batches WHERE status NOT IN ('complete', 'incomplete')) AS batches,
  (SELECT count(*) FROM tabellion_webhook_deliveries WHERE status NOT IN ('delivered', 'failed')) AS callbacks""",
    )
    return not row["batches"] and not row["callbacks"]


@pytest.mark.timeout(PATIENCE * 2)
def test_a_batch_whose_processes_are_killed_again_and_again(url: str, tmp_path: Path) -> None:
    """Every ref has one result, every history is linear, and each chunk is reported once after de-duplication by id."""
    history, summary = run(url, tmp_path, kills=KILLS)
    print(f"{url.partition(':')[0]}: {summary}")
    assert violations(history) == []
    assert len(history.refs) == REFS
    moved = [one for one in history.versions if one["previous"] != f"tip{one['pi'][2:]}"]
    assert moved, "no two chunks met at one entity: compare-and-swap was not tried"


@pytest.fixture(scope="module")
def quiet(tmp_path_factory: pytest.TempPathFactory) -> History:
    """What the batches leave if nothing happens to them."""
    folder = tmp_path_factory.mktemp("quiet")
    history, _ = run(f"sqlite:///{folder}/work.db", folder, kills=0)
    assert violations(history) == []
    return history


def fork(history: History) -> None:
    """Two versions after the same one."""
    [second, *_] = [one for one in history.versions if one["version"] == 2]
    [first] = [one for one in history.versions if (one["pi"], one["version"]) == (second["pi"], 1)]
    second["previous"] = first["previous"]


def lose_callback(history: History) -> None:
    """A chunk that is never reported."""
    lost = history.callbacks[0][0]
    history.callbacks[:] = [one for one in history.callbacks if one[0] != lost]


def double_callback(history: History) -> None:
    """A chunk that is reported by two messages."""
    history.callbacks.append(("msg_other", history.callbacks[0][1]))


def change_callback(history: History) -> None:
    """A message that comes again with another content."""
    id_, body = history.callbacks[0]
    history.callbacks.append((id_, json.loads(json.dumps(body)) | {"status": "partial"}))


def double_result(history: History) -> None:
    """A ref that was published with one content and later with another."""
    [second, *_] = [one for one in history.versions if one["version"] == 2]
    [first] = [one for one in history.versions if (one["pi"], one["version"]) == (second["pi"], 1)]
    name = next(iter(history.content[first["tip"]]["components"]))
    history.content[second["tip"]]["components"][name] = "bafkother"
    history.refs[:] = [ref | {"result_cid": "bafkother"} if ref["filename"] == name else ref for ref in history.refs]


def lose_result(history: History) -> None:
    """A version that forgets what the one before it had."""
    [second, *_] = [one for one in history.versions if one["version"] == 2]
    components = history.content[second["tip"]]["components"]
    components.pop(next(iter(components)))


def lose_text(history: History) -> None:
    """A published file without a text."""
    history.content[history.refs[0]["result_cid"]].pop("ocr")


def append_twice(history: History) -> None:
    """A chunk that appended two versions to one entity."""
    history.versions[1]["chunk"], history.versions[1]["pi"] = history.versions[0]["chunk"], history.versions[0]["pi"]


def leave_ref(history: History) -> None:
    """A ref that nobody reads any more."""
    history.refs[0]["status"] = "processing"


def leave_chunk(history: History) -> None:
    """A chunk that is never published."""
    history.chunks[0]["phase"] = "PUBLISHING"


def pay_twice(history: History) -> None:
    """Calls that no crash explains."""
    history.calls = len(history.refs) + history.crashes + 1


FAULTS: list[Callable[[History], None]] = [
    fork, lose_callback, double_callback, change_callback, double_result, lose_result, lose_text, append_twice,
    leave_ref, leave_chunk, pay_twice,
]  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_the_checks_find_what_must_not_be(fault: Callable[[History], None], quiet: History) -> None:
    """A history with one planted fault does not pass."""
    broken = copy.deepcopy(quiet)
    fault(broken)
    assert violations(broken)
