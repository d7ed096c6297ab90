"""Pauses of hosts that limit requests: one 429 is enough for all images of its host in this process."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field

from tabellion.net.guard import Blocked, parse

SHORTEST, LONGEST = 5.0, 300.0  #: seconds, where the host does not say how long
MOST_ASKED = 3600.0  #: seconds, where it does: some send a time instead of a number of seconds


@dataclass(slots=True)
class HostPauses:
    """When hosts may be asked again. Refusals of requests that were under way at the same time count once."""

    _until: dict[str, float] = field(default_factory=dict)  #: by time.monotonic()
    _refusals: dict[str, int] = field(default_factory=dict)  #: in a row

    def remaining(self, url: str) -> float:
        """Seconds until the host of a URL may be asked again, and up to half more; 0 if it may be asked now."""
        return max(0.0, self._until.get(_host_of(url), 0.0) - time.monotonic()) * _jitter()

    def add_refusal(self, url: str, asked: float | None) -> float:
        """Records a 429 and returns the seconds to wait: as many as the host asks for, otherwise more each time."""
        host, now = _host_of(url), time.monotonic()
        if now >= self._until.get(host, 0.0):
            self._refusals[host] = self._refusals.get(host, 0) + 1
        doubled = SHORTEST * 2.0 ** min(max(self._refusals.get(host, 1) - 1, 0), 10)
        pause = min(doubled, LONGEST) if asked is None else min(max(asked, 1.0), MOST_ASKED)
        self._until[host] = max(now + pause, self._until.get(host, 0.0))
        return pause * _jitter()

    def add_success(self, url: str) -> None:
        """Records an answer: the next refusal is the first one again."""
        self._refusals.pop(_host_of(url), None)


def _jitter() -> float:
    return 1 + 0.5 * random.random()  # noqa: S311 - spreading load, not a secret


def _host_of(url: str) -> str:
    """Host and port of a URL; empty if it is not a valid one, which its download reports."""
    try:
        return parse(url).authority
    except Blocked:
        return ""
