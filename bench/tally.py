"""Counts executed jobs across processes: each handler appends its job's number and the time to one file."""

from __future__ import annotations

import os
import struct
import time
from dataclasses import dataclass
from pathlib import Path

MARK = struct.Struct("<qd")


class WrongCountError(Exception):
    """The peer ran some job twice or not at all, so its speed is meaningless."""


@dataclass(frozen=True)
class Drain:
    """How long the jobs took, from the first one's run until the last one was finished in the store."""

    jobs: int
    seconds: float
    unsettled: float

    @property
    def rate(self) -> float:
        """Jobs per second; the first job started the clock, so it is not counted."""
        return (self.jobs - 1) / self.seconds

    @property
    def detail(self) -> str:
        """How much of that time passed after the last handler had run: writing finishes only."""
        return f"{self.unsettled / self.seconds:.0%} of it after the last handler"


class Tally:
    """A file of marks; appends of 16 bytes are atomic, so any process may write (1.3 µs each)."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._fd = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def mark(self, job: int) -> None:
        """Note that the job's handler has started; CLOCK_MONOTONIC is shared by the whole host."""
        os.write(self._fd, MARK.pack(job, time.monotonic()))

    def count(self) -> int:
        """Return how many marks there are."""
        return self.path.stat().st_size // MARK.size

    def read(self) -> list[tuple[int, float]]:
        """Return every mark, in the order written."""
        return list(MARK.iter_unpack(self.path.read_bytes()))

    def await_count(self, jobs: int, limit: float) -> None:
        """Return when there are that many marks; raise TimeoutError when they do not come in time."""
        deadline = time.monotonic() + limit
        while self.count() < jobs:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self.count()} of {jobs} jobs ran in {limit:.0f} s")
            time.sleep(0.001)

    def drain(self, jobs: int, settled_at: float) -> Drain:
        """From the first mark to the settled store, once each job is known to have run exactly once."""
        self.verify(jobs)
        times = [at for _, at in self.read()]
        end = max(settled_at, max(times))
        return Drain(jobs, end - min(times), end - max(times))

    def verify(self, jobs: int) -> None:
        """Raise WrongCountError unless the jobs 0 to N-1 have run, each once."""
        numbers = sorted(job for job, _ in self.read())
        if numbers != list(range(jobs)):
            found = f"{len(numbers)} runs of {len(set(numbers))} jobs"
            raise WrongCountError(f"{found}, where {jobs} jobs were to run once each")
