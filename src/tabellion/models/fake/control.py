"""The state of the whole server: settings that may change while it runs, quotas, random numbers, and counts."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from random import Random
from typing import Any

from tabellion.errors import ConfigurationError
from tabellion.models.fake.knobs import Knobs, knobs
from tabellion.models.fake.quota import Quota, Window, quota_of

MOST_QUOTAS = 1000


class Control:
    """The server's settings and counts; only its event loop uses them."""

    def __init__(
        self, *, rate: float | None = None, latency: float | str | None = None, knobs: str = "", seed: int = 0
    ) -> None:
        self.rate, self.latency, self.text = rate, latency, knobs
        self.requests = 0
        self.statuses: Counter[str] = Counter()
        self.open = self.most_open = 0
        self._faults, self._delays = Random(seed), Random(seed + 1)  # noqa: S311 - the same numbers in every run
        self._quotas: dict[tuple[float, Window], Quota] = {}
        self._base = ""
        self.change({})

    def change(self, settings: Mapping[str, Any]) -> None:
        """Applies new settings, all or none of them."""
        unknown = set(settings) - {"rate", "latency", "knobs"}
        if unknown:
            raise ConfigurationError(f"unknown setting {sorted(unknown)[0]!r}; known: rate, latency, knobs")
        rate, latency = settings.get("rate", self.rate), settings.get("latency", self.latency)
        text = str(settings.get("knobs", self.text) or "")
        words = [text]
        if latency is not None and latency != "":
            words.append(f"latency={latency}")
        if rate is not None:
            words.append(f"rate={rate}")
        base = ",".join(words)
        self._change_quota(knobs(self._base), knobs(base))
        self.rate, self.latency, self.text, self._base = rate, latency, text, base

    def report(self) -> dict[str, Any]:
        """Settings and counts."""
        return {
            "rate": self.rate,
            "latency": self.latency,
            "knobs": self.text,
            "requests": self.requests,
            "statuses": dict(sorted(self.statuses.items())),
            "open": self.open,
            "most_open": self.most_open,
        }

    def knobs(self, suffix: str, header: str) -> Knobs:
        """The knobs of a request: the server's, then the model's, then the header's."""
        return knobs(self._base, suffix, header)

    def take_quota(self, rate: float, window: Window) -> float:
        """Counts a request against the quota of this rate; returns zero, or the seconds until it may pass."""
        now = time.monotonic()
        quota = self._quotas.get((rate, window))
        if quota is None:
            if len(self._quotas) >= MOST_QUOTAS:
                self._quotas.clear()
            quota = self._quotas[rate, window] = quota_of(rate, window, now)
        return quota.take(now)

    def _change_quota(self, before: Knobs, after: Knobs) -> None:
        """Changes the rate of the server's quota; earlier requests in the current window still count."""
        if before.rate and after.rate and before.window == after.window and before.rate != after.rate:
            quota = self._quotas.pop((before.rate, before.window), None)
            if quota is not None:
                quota.rate = after.rate
                self._quotas[after.rate, after.window] = quota

    def draw_knobs(self, chosen: Knobs) -> frozenset[str]:
        """The knobs that apply to this request."""
        return chosen.draw(self._faults)

    def delay(self, chosen: Knobs) -> float:
        """The seconds before this request's answer."""
        return chosen.latency.draw(self._delays) if chosen.latency else 0.0

    def begin(self) -> None:
        """Counts a request that has started."""
        self.requests += 1
        self.open += 1
        self.most_open = max(self.most_open, self.open)

    def end(self) -> None:
        """Counts a request that has ended."""
        self.open -= 1

    def count(self, status: int) -> None:
        """Counts the status of an answer."""
        self.statuses[str(status)] += 1
