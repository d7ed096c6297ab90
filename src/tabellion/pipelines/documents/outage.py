"""An outage of the lake: who meets it tells the others of its worker, and one document at a time tries again."""

from __future__ import annotations

import time

from tabellion.engine.job import Job
from tabellion.pipelines.documents.failure import LONGEST_WAIT

PROBE = 300.0  #: seconds that the others wait for the one that tries


class Outage:
    """Whether outputs can be written, as far as one worker knows. While they cannot, reading is work for nothing."""

    def __init__(self, base: float) -> None:
        self.base = base  #: seconds before the first try; each wait is twice as long as the one before
        self.error: Exception | None = None  #: what the lake said last; None while all is well
        self._failures = 0
        self._until = 0.0
        self._probe: str | None = None
        self._probed_at = 0.0

    def admits(self, job: Job) -> bool:
        """Whether this document may be read now: all of them while all is well, then one after each wait."""
        if self.error is None:
            return True
        now = time.monotonic()
        if now < self._until or (self._probe is not None and now < self._probed_at + PROBE):
            return False
        self._probe, self._probed_at = job.token, now
        return True

    @property
    def left(self) -> float:
        """Seconds until the next try."""
        return max(0.0, self._until - time.monotonic())

    def record_failure(self, error: Exception, job: Job) -> None:
        """The lake took nothing of this document. Those that were being read when it began do not make it longer."""
        if self.error is None or job.token == self._probe:
            self._until = time.monotonic() + min(self.base * 2.0 ** min(self._failures, 20), LONGEST_WAIT)
            self._failures += 1
            self._probe = None
        self.error = error

    def over(self) -> None:
        """The lake took something."""
        self.error, self._failures, self._probe = None, 0, None

    def end(self, job: Job) -> None:
        """This document has ended. If it was the one that tried, and never came to it, the next one does."""
        if job.token == self._probe:
            self._probe = None
