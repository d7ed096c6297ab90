"""Reads a document: locally, and with a configured model through its gate."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import os
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tabellion import extras
from tabellion.errors import RateLimited, StoreError
from tabellion.messages import Message
from tabellion.reading.default_sandbox import default_sandbox
from tabellion.reading.issue import Issue
from tabellion.reading.pages import plain
from tabellion.reading.reader import Reading, ReadingProgress, read_local

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

    from tabellion.config import Config
    from tabellion.models.base import Model
    from tabellion.reading.limits import Limits
    from tabellion.reading.page import OCR
    from tabellion.reading.pages import DocumentSource
    from tabellion.reading.sandbox import Sandbox
    from tabellion.reading.types.doctype import DocumentType

TRIES = 3  #: of a call outside a worker; inside one the engine retries
LONGEST_WAIT = 10.0  #: seconds that a person at a terminal waits for a busy model
MOST_PAGES = 10  #: that are sent to a model


def read(
    source: DocumentSource,
    type: str | os.PathLike[str] | None = None,  # noqa: A002 - the word for it everywhere
    *,
    model: str | Model | None = None,
    ocr: OCR = "auto",
    password: str | None = None,
    words: bool = False,
    limits: Limits | None = None,
    sandbox: Sandbox | None = None,
    progress: ReadingProgress | None = None,
    config: Config | None = None,
    most_pages: int = MOST_PAGES,
    name: str | None = None,
) -> Reading:
    """Reads a document: pages, fields with confidence and box, and issues.

    >>> reading = tabellion.read("invoice.pdf")
    >>> reading.fields["total"].value
    '1234.50'

    With `model`, the model is called too, through its gate, and its answer is merged with the local reading; if it
    fails, the reading has the issue `model_failed`. `name` is the file name of bytes. In an event loop use `aread`.
    """
    extras.require("reading")
    if not _asks(model):
        return read_local(
            source, type, password=password, ocr=ocr, types=_folders(config), words=words, limits=limits,
            sandbox=sandbox, progress=progress, name=name,
        )  # fmt: skip
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        pass
    else:
        raise RuntimeError(
            "tabellion.read() with a model cannot run inside an event loop: use `await tabellion.aread()`"
        )
    return asyncio.run(
        aread(
            source, type, model=model, ocr=ocr, password=password, words=words, limits=limits, sandbox=sandbox,
            progress=progress, config=config, most_pages=most_pages, name=name,
        )
    )  # fmt: skip


async def aread(
    source: DocumentSource,
    type: str | os.PathLike[str] | None = None,  # noqa: A002 - the word for it everywhere
    *,
    model: str | Model | None = None,
    ocr: OCR = "auto",
    password: str | None = None,
    words: bool = False,
    limits: Limits | None = None,
    sandbox: Sandbox | None = None,
    progress: ReadingProgress | None = None,
    config: Config | None = None,
    most_pages: int = MOST_PAGES,
    name: str | None = None,
) -> Reading:
    """Like `read`, for event loops and handlers; in a handler the model's errors are raised: the engine retries.

    A handler passes the model itself, created once: `gemini = tabellion.model("gemini")`.
    """
    extras.require("reading")
    from tabellion.engine.job import current_job

    started_at, source = time.monotonic(), plain(source)
    async with _open_model(model, config) as open_model:
        reading = await _in_thread(
            read_local, source, type, password=password, ocr=ocr, types=_folders(config), limits=limits,
            words=words or open_model is not None, sandbox=sandbox or default_sandbox(), progress=progress, name=name,
        )  # fmt: skip
        if open_model is None or reading.error is not None:
            return reading
        from tabellion.models.extract import extract

        extract_fields = functools.partial(
            extract, open_model, reading, source, _doctype(type, reading, config), sandbox=sandbox, limits=limits,
            password=password, most_pages=most_pages,
        )  # fmt: skip
        found = await (
            extract_fields() if current_job.get() is not None else _try_repeatedly(extract_fields, open_model, reading)
        )
        return replace(found, seconds=round(time.monotonic() - started_at, 3))


async def _in_thread(work: Callable[..., Reading], *arguments: Any, sandbox: Sandbox, **options: Any) -> Reading:
    """Runs it in one of the sandbox's threads. Cancellation kills the child at once: its result is not needed."""
    stop = threading.Event()
    run = functools.partial(contextvars.copy_context().run, work, *arguments, sandbox=sandbox, stop=stop, **options)
    try:
        return await asyncio.get_running_loop().run_in_executor(sandbox.threads, run)
    finally:
        stop.set()


def _asks(model: str | Model | None) -> bool:
    """Whether a model is to be called: `local` stands for the local reading."""
    return model is not None and (model if isinstance(model, str) else model.name) != "local"


def _folders(config: Config | None) -> Sequence[str | Path]:
    return config.types if config is not None else ("types",)


def _doctype(
    type: str | os.PathLike[str] | None, reading: Reading, config: Config | None  # noqa: A002
) -> DocumentType:  # fmt: skip
    from tabellion.reading.types.typefile import load

    kind = type if type is not None else str(reading.type)
    return load(kind if isinstance(kind, str) else Path(kind), _folders(config))


@contextlib.asynccontextmanager
async def _open_model(model: str | Model | None, config: Config | None) -> AsyncIterator[Model | None]:
    """The model to call, behind its gate; outside a worker with a context on the database of the gates.

    So calls from a terminal count towards the workers' budget, and answers are shared with the workers.
    """
    if model is None or not _asks(model):
        yield None
        return
    if not isinstance(model, str):
        yield model
        return
    from tabellion.config import load
    from tabellion.config import model as configured
    from tabellion.engine.context import OpenContext
    from tabellion.engine.job import current_job

    if (job := current_job.get()) is not None:
        shared = _of_worker(model) if config is None else configured(model, config)
        try:
            yield shared
        finally:
            if not job.queue.is_async:
                await shared.close()  # the event loop of a plain function ends with this reading
        return
    config = config or load()
    async with OpenContext(config.gates_at or config.environments[0], config.gates) as context:
        gated = configured(model, config, context)
        try:
            yield gated
        finally:
            await gated.close()


@functools.cache
def _of_worker(name: str) -> Model:
    """One model for all jobs of a process: it keeps connections open."""
    from tabellion.config import model

    return model(name)


async def _try_repeatedly(extract_fields: Callable[..., Awaitable[Reading]], model: Model, reading: Reading) -> Reading:
    """Tries a few times, with the hint of the last error; if all fail, the local reading with an issue."""
    from tabellion.models.base import Ask
    from tabellion.models.errors import BadOutput, ModelError, Throttled, Unavailable

    ask, spent = Ask(), 0.0
    failure: Exception | None = None
    for attempt in range(1, TRIES + 1):
        try:
            result = await extract_fields(ask=ask)
            return replace(result, cost=None if result.cost is None else result.cost + spent)
        except BadOutput as error:
            failure, ask, spent = error, ask.again(error.hint), spent + (error.cost or 0.0)
        except (Throttled, Unavailable) as error:
            failure = error
            wait = error.hint if error.hint is not None else float(attempt)
            if wait > LONGEST_WAIT or attempt == TRIES:
                break
            await asyncio.sleep(wait)
        except (ModelError, RateLimited, StoreError) as error:
            failure, spent = error, spent + (getattr(error, "cost", None) or 0.0)
            break
    message = Message("note.model_failed", model=model.name, error=type(failure).__name__, detail=failure)
    issue = Issue("model_failed", "warning", message, (), model.name)
    return replace(reading, issues=(*reading.issues, issue), model=model.model, cost=spent)
