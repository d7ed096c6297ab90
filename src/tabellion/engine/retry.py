"""The delay before a failed job is retried."""

from __future__ import annotations

import random
from collections.abc import Sequence

LONGEST_DELAY = 3600.0  # seconds; a larger base is its own limit


def delay(base: float, attempt: int, jitter: float | None = None, waits: Sequence[float] = ()) -> float:
    """Seconds until the next try after `attempt` tries: base·2ⁿ plus up to half of that at random.

    base·2ⁿ grows up to an hour, or up to `base` if that is more.
    With `waits` it is the nth of them instead of base·2ⁿ, and the last one for every later try.
    """
    step: float = min(base * 2.0 ** min(attempt - 1, 32), max(base, LONGEST_DELAY))
    if waits:
        step = waits[min(attempt, len(waits)) - 1]
    share = random.random() if jitter is None else jitter  # noqa: S311 - spreading load, not a secret
    return step + step * 0.5 * share
