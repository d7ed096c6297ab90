"""The context of a job: gives its calls to other systems their gates and memos, whichever event loop they run in."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from tabellion.engine.environment import Environment
from tabellion.engine.gates.open_gates import OpenGates
from tabellion.engine.gates.passes import Pass
from tabellion.engine.gates.state import GateSettings
from tabellion.engine.job import Job
from tabellion.engine.memo import Asker, Memo, Memos
from tabellion.engine.sql import Dialect
from tabellion.engine.store import Store

T = TypeVar("T")
GOODBYE = 2.0  # seconds for connections to be closed


class Closing(Protocol):
    """An object with connections of its own."""

    async def close(self) -> None:
        """Closes them."""


class JobContext:
    """The gates and memos that one environment's jobs use. Its database work happens in the engine's own loop."""

    def __init__(self, gates: OpenGates, store: Store) -> None:
        self._gates = gates
        self._store = store
        self._memos = Memos(store)
        self.users: set[Closing] = set()  #: clients that jobs have used, to be closed when their worker ends
        self._loop = asyncio.get_running_loop()

    @property
    def dialect(self) -> Dialect:
        """The kind of the job's database."""
        return self._store.dialect

    async def fetch(self, text: str, *values: Any) -> list[Any]:
        """Runs one statement with `$1` placeholders on the job's own database, in a transaction of its own."""
        return await self._run_in_loop(lambda: self._store.database.fetch(text, *values))

    async def transact(
        self, statements: Sequence[tuple[str, Sequence[Any]]], *, guarded: bool = False
    ) -> list[list[Any]]:
        """Runs several statements in one transaction there; `guarded`: none of them if the first returns no row."""
        return await self._run_in_loop(lambda: self._store.database.transact(statements, guarded=guarded))

    async def admit(self, gate: str, job: Job | None, estimate: float = 0.0) -> Pass:
        """Waits for a call's turn at this gate; raises GateClosed when it will not come soon."""
        token = job.token if job is not None else None
        return await self._run_in_loop(lambda: self._gates.get_gate(gate).admit(estimate, token))

    async def recall(self, key: str, asker: Asker, model: str, lease: float) -> Memo:
        """The stored answer to this request, or the task to obtain it."""
        return await self._run_in_loop(lambda: self._memos.recall(key, asker, model, lease))

    async def remember(self, key: str, asker: Asker, reply: str, cost: float | None) -> None:
        """Stores an answer."""
        await self._run_in_loop(lambda: self._memos.remember(key, asker, reply, cost))

    async def give_up(
        self, key: str, asker: Asker, *, hint: Mapping[str, Any] | None = None, raw: str | None = None
    ) -> None:
        """Records that no answer was obtained."""
        await self._run_in_loop(lambda: self._memos.give_up(key, asker, hint=hint, raw=raw))

    async def _run_in_loop(self, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        if asyncio.get_running_loop() is self._loop:
            return await make()

        async def run() -> T:
            return await make()

        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(run(), self._loop))


async def close_users(contexts: Iterable[JobContext]) -> None:
    """Closes the clients that jobs have used; runs in the handlers' loop, where their connections were opened."""
    for user in {user for context in contexts for user in context.users}:
        with contextlib.suppress(Exception):
            async with asyncio.timeout(GOODBYE):
                await user.close()


class OpenContext:
    """A context for callers outside any worker: `async with OpenContext(environment) as context`."""

    def __init__(self, environment: Environment, settings: Mapping[str, GateSettings] | None = None) -> None:
        self._environment = environment
        self._settings = settings

    async def __aenter__(self) -> JobContext:
        self._gates = OpenGates(self._environment.url, self._settings)
        self._store = self._environment.store()
        return JobContext(self._gates, self._store)

    async def __aexit__(self, *_: object) -> None:
        await self._gates.close()
        await self._store.close()


def asker_of(job: Job | None) -> Asker:
    """The job, or a random token outside any job, as the owner of a memo."""
    if job is None:
        return Asker(token=uuid.uuid4().hex)
    return Asker(job.queue.name, job.text_key, job.token)
