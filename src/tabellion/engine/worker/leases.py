"""Renews claims from outside the handlers' loop, and finds handlers that have to be stopped."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Container, Iterable

from tabellion.engine.job import Job
from tabellion.engine.queue import Queue
from tabellion.engine.store import Store
from tabellion.engine.worker.runner import Run

RENEWAL = 1 / 3  # of the lease: two renewals may fail before it matters
MARGIN = 1 / 10  # of the lease: a worker that could not renew stops its jobs this long before it expires
LEAST_MARGIN = 0.25  # seconds: leases are checked every tenth of a second
NOTE_PAUSE = 0.2  # seconds between two writes of the same job's note


class Lease:
    """One claim as its worker sees it, on this process's monotonic clock."""

    __slots__ = ("given_up", "noted_at", "renewed_at", "run", "written_note")

    def __init__(self, run: Run, asked_at: float) -> None:
        self.run = run
        self.renewed_at = asked_at  #: when the last successful claim or renewal was requested
        self.written_note: str | None = None
        self.noted_at = 0.0
        self.given_up = False

    @property
    def queue(self) -> Queue:
        """The job's queue."""
        return self.run.job.queue

    @property
    def is_past_timeout(self) -> bool:
        """Whether the handler was stopped at its timeout and has not ended: its lease is not renewed any more."""
        return self.is_running and self.run.why == "timeout"

    @property
    def is_running(self) -> bool:
        """Whether the handler has not ended yet."""
        return self.run.ended_at is None


class Leases:
    """The live claims of one environment."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._live: dict[str, Lease] = {}
        self.some = asyncio.Event()  #: set while there are any: without claims there is nothing to check

    def __len__(self) -> int:
        return len(self._live)

    def add(self, runs: Iterable[Run], asked_at: float) -> None:
        """Adds new claims."""
        for run in runs:
            self._live[run.job.token] = Lease(run, asked_at)
        self.some.set()

    def drop(self, job: Job) -> None:
        """Forgets a claim that has been settled or lost."""
        self._live.pop(job.token, None)
        if not self._live:
            self.some.clear()

    def tokens(self) -> set[str]:
        """The tokens of every live claim."""
        return set(self._live)

    def runs(self) -> list[Run]:
        """Every job whose handler has not ended."""
        return [lease.run for lease in self._live.values() if lease.is_running]

    def find_unstarted(self, seconds: float) -> list[Run]:
        """Jobs that were handed to the handlers' loop more than `seconds` ago and have not started."""
        now = time.monotonic()
        runs = [lease.run for lease in self._live.values() if lease.run.started_at is None]
        return [run for run in runs if run.thread is None and run.handed_over_at and now - run.handed_over_at > seconds]

    def find_overdue(self) -> list[Run]:
        """Handlers that have just exceeded their timeout."""
        now = time.monotonic()
        return [
            lease.run
            for lease in self._live.values()
            if lease.is_running
            and lease.run.why is None
            and lease.run.started_at is not None
            and lease.queue.timeout is not None
            and now - lease.run.started_at > lease.queue.timeout
        ]

    def take_expiring(self) -> list[Run]:
        """Handlers still running although their lease is about to expire: not renewed, or past their timeout."""
        now = time.monotonic()
        ending = [
            lease
            for lease in self._live.values()
            if lease.is_running
            and not lease.given_up
            and now - lease.renewed_at > lease.queue.lease - max(lease.queue.lease * MARGIN, LEAST_MARGIN)
        ]
        for lease in ending:
            lease.given_up = True
        return [lease.run for lease in ending]

    def _due(self) -> list[Lease]:
        """Leases to renew now, and those whose note has changed; a job past its timeout is left to expire."""
        now = time.monotonic()
        due = []
        for lease in self._live.values():
            if lease.is_past_timeout:
                continue
            is_aged = now - lease.renewed_at > lease.queue.lease * RENEWAL
            has_new_note = lease.run.job._note != lease.written_note and now - lease.noted_at > NOTE_PAUSE
            if is_aged or has_new_note:
                due.append(lease)
        return due

    async def read_outcome(self, job: Job) -> tuple[str | None, str | None]:
        """The outcome and error of a lost claim in the register."""
        rows = await self._store.database.fetch(
            "SELECT outcome, error FROM tabellion_attempts WHERE queue = $1 AND key = $2 AND n = $3",
            job.queue.name, job.text_key, job.n,
        )  # fmt: skip
        return (rows[0]["outcome"], rows[0]["error"]) if rows else (None, None)

    async def renew(self, *, everything: bool = False, without: Container[Queue] = ()) -> list[Run]:
        """Renews what is due (or everything) and returns the jobs whose claim was lost.

        Queues in `without` have a table that cannot be used: their leases are left to expire.
        """
        due = [lease for lease in self._live.values() if not lease.is_past_timeout] if everything else self._due()
        due = [lease for lease in due if lease.queue not in without]
        if not due:
            return []
        asked_at = time.monotonic()
        notes = [lease.run.job._note for lease in due]
        lost = {job.token for job in await self._store.renew([lease.run.job for lease in due])}
        gone = []
        for lease, note in zip(due, notes, strict=True):
            if lease.run.job.token in lost:
                # If its handler has ended, the claim may just have been settled: the settler's verdict decides.
                if lease.is_running:
                    gone.append(lease.run)
            else:
                lease.renewed_at = lease.noted_at = asked_at
                lease.written_note = note
                lease.given_up = False
        return gone
