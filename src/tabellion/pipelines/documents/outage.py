"""An outage of the storage: the first document to notice it stops the others of its worker; one at a time retries."""

from __future__ import annotations

import time

from tabellion.engine.job import Job
from tabellion.pipelines.documents.failure import LONGEST_WAIT

PROBE = 300.0  #: seconds that the others wait for the document that tries


class Outage:
    """Whether files can be read and outputs written, as far as one worker knows. While not, reading would be wasted."""

    def __init__(self, base: float) -> None:
        self.base = base  #: seconds before the first retry; each wait is twice the one before
        self.error: Exception | None = None  #: the last error of the storage; None while it works
        self._failures = 0
        self._until = 0.0
        self._probe: str | None = None
        self._probed_at = 0.0

    def admits(self, job: Job) -> bool:
        """Whether this document may be read now: every document normally, in an outage one after each wait."""
        if self.error is None:
            return True
        now = time.monotonic()
        if now < self._until or (self._probe is not None and now < self._probed_at + PROBE):
            return False
        self._probe, self._probed_at = job.token, now
        return True

    @property
    def left(self) -> float:
        """Seconds until the next retry."""
        return max(0.0, self._until - time.monotonic())

    def record_failure(self, error: Exception, job: Job) -> None:
        """Records that the storage refused this document. Only the first one and retries prolong the outage."""
        if self.error is None or job.token == self._probe:
            self._until = time.monotonic() + min(self.base * 2.0 ** min(self._failures, 20), LONGEST_WAIT)
            self._failures += 1
            self._probe = None
        self.error = error

    def clear(self) -> None:
        """Ends the outage: the storage works again."""
        self.error, self._failures, self._probe = None, 0, None

    def end(self, job: Job) -> None:
        """Records that this document has ended. If it was the one to try and never got there, the next one does."""
        if job.token == self._probe:
            self._probe = None
