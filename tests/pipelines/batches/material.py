"""Batches to work on: images on loopback, ref files, chunks, and a model that answers at once."""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw

from tabellion.delivery.outbox import webhooks_queue
from tabellion.engine.gates.state import GateSettings
from tabellion.engine.store import Store
from tabellion.models.base import Ask, Blob, Part, Reply, Schema, Usage
from tabellion.net.guard import Rules
from tabellion.pipelines.batches.content import open_content
from tabellion.pipelines.batches.pipeline import PIPELINE
from tabellion.pipelines.batches.queues import batch_queues
from tabellion.pipelines.batches.request import NewChunk
from tabellion.pipelines.batches.settings import BatchSettings
from tabellion.pipelines.batches.staging import Staging
from tabellion.storage.lake import Lake
from tests.http_server import QuietHandler, serving_http
from tests.workers import ask, drain, make_worker

LOOPBACK = Rules.of(["127.0.0.0/8"])
SECRET = "whsec_" + "c2VjcmV0IG9mIHRlc3RzIG9ubHkh"
FAST = {"reader": GateSettings(rate=1000, max_rate=10_000)}


def picture(text: str = "Baptisms 1787") -> bytes:
    """Return a small PNG with a text drawn on it."""
    image = Image.new("RGB", (320, 80), "white")
    ImageDraw.Draw(image).text((10, 20), text, fill="black", font_size=28)
    file = io.BytesIO()
    image.save(file, "PNG")
    return file.getvalue()


class Images:
    """Images on loopback: `/asset/NAME` and its variants; `answers` overrides an answer, `held` delays it."""

    def __init__(self) -> None:
        self.requests: Counter[str] = Counter()
        self.answers: dict[str, list[tuple[int, bytes]]] = {}
        self.held: dict[str, threading.Event] = {}  #: not answered before its event
        self.variants = True
        self.url = ""

    def answer(self, path: str) -> tuple[int, bytes]:
        """Return the next answer of a path: the last one is repeated."""
        given = self.answers.get(path)
        if given:
            return given.pop(0) if len(given) > 1 else given[0]
        if path.endswith("/medium") and not self.variants:
            return 404, b""
        return 200, picture(path.removeprefix("/asset/").removesuffix("/medium"))


@contextmanager
def serving_images() -> Iterator[Images]:
    """Serve images within a block."""
    images = Images()

    class Handler(QuietHandler):
        def do_GET(self) -> None:  # noqa: N802 - the name of the library
            images.requests[self.path] += 1
            if self.path in images.held:
                images.held[self.path].wait(30)
            self.answer(*images.answer(self.path))

    with serving_http(Handler) as images.url:
        yield images


class Reader:
    """A model that answers with the hash of the image; `errors` are raised first."""

    def __init__(self, *errors: Exception, always: Exception | None = None) -> None:
        self.name = self.model = "reader"
        self.calls: Counter[str] = Counter()
        self._errors, self._always = list(errors), always

    async def call(self, parts: Sequence[Part], schema: Schema | None = None, ask: Ask | None = None) -> Reply:
        """Return the answer, after the errors."""
        [image] = [part for part in parts if isinstance(part, Blob)]
        digest = hashlib.sha256(image.data).hexdigest()[:12]
        self.calls[digest] += 1
        if self._always is not None:
            raise self._always
        if self._errors:
            raise self._errors.pop(0)
        await asyncio.sleep(0)
        return Reply(f"text of {digest}", usage=Usage(10, 5), cost=0.001, model=self.model)

    async def close(self) -> None:
        """Nothing is open."""


def settings_in(folder: Path, model: Reader | None = None, **changes: Any) -> BatchSettings:
    """Return settings for loopback, with stores in a folder and short waits; entities start with what is appended."""
    from tabellion.models.gated import GatedModel

    reader = model or Reader()
    options: dict[str, Any] = {
        "rules": LOOPBACK, "model": "reader", "gate": "reader", "make_model": lambda _: GatedModel(reader),
        "retry_base": 0.02, "chunk_waits": (0.02,), "orchestrators": {"*": SECRET},
        "unknown_tip": "start",
    }  # fmt: skip
    return BatchSettings(
        Staging(Lake(str(folder / "staging"))), open_content(str(folder / "content")), **(options | changes)
    )


def chunk_of(
    images: str, callback_url: str, *, batch: str = "b1", chunk: str = "0", pis: int = 2, refs: int = 3, first: int = 0
) -> dict[str, Any]:
    """Return the request of a chunk, as an orchestrator sends it."""
    return {
        "batch_id": batch, "chunk_id": chunk, "callback_url": callback_url,
        "pis": [pi_of(images, number, refs) for number in range(first, first + pis)],
    }  # fmt: skip


def pi_of(images: str, number: int, refs: int = 3) -> dict[str, Any]:
    """Return one entity with its refs."""
    names = [f"{number}-{place}" for place in range(refs)]
    return {
        "pi": f"pi{number}", "current_tip": f"tip{number}",
        "refs": [
            {"filename": f"{name}.png.ref.json", "staging_key": f"refs/{name}.png.ref.json",
             "cdn_url": f"{images}/asset/{name}"}
            for name in names
        ],
    }  # fmt: skip


def stage(settings: BatchSettings, pis: Sequence[dict[str, Any]], **content: Any) -> None:
    """Write the ref files of entities into the staging store."""

    async def write() -> None:
        for pi in pis:
            for ref in pi["refs"]:
                file = {"url": ref["cdn_url"], "type": "image/png", **content}
                await settings.staging.lake.put(ref["staging_key"], json.dumps(file).encode())

    asyncio.run(write())


def staged(settings: BatchSettings, key: str) -> dict[str, Any]:
    """Return a ref file."""
    return dict(json.loads(asyncio.run(settings.staging.lake.get(key))))


def submit(url: str, settings: BatchSettings, request: dict[str, Any]) -> bool:
    """Add a chunk to the database."""
    from tabellion.pipelines.batches.submit import submit_chunk

    async def add(store: Store) -> bool:
        await PIPELINE.prepare(store)
        return await submit_chunk(store, settings, NewChunk.model_validate(request))

    return ask(url, add)


def submit_new(url: str, settings: BatchSettings, images: str, callback_url: str, **how: Any) -> dict[str, Any]:
    """Stage a chunk, submit it and return its request."""
    request = chunk_of(images, callback_url, **how)
    stage(settings, request["pis"])
    submit(url, settings, request)
    return request


def work(url: str, settings: BatchSettings, *, deliver: bool = True, **options: Any) -> None:
    """Run a worker until nothing is left to do."""
    webhooks = webhooks_queue(LOOPBACK)
    webhooks.waits, webhooks.max_attempts = (0.02,), 3
    queues = [*batch_queues(settings), *([webhooks] if deliver else [])]
    drain(make_worker(url, *queues, **({"gates": FAST} | options)), within=60)


def rows(url: str, query: str, *values: Any) -> list[dict[str, Any]]:
    """Return the rows of a query."""
    return ask(url, lambda store: store.database.fetch(query, *values))
