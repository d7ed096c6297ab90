"""The history of a row, judged: claims that follow each other without gap or overlap, counted correctly."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from tabellion.engine.settlement import CONTINUING

TICK = 0.002  #: seconds that two readings of the same clock may seem out of order by rounding


@dataclass(frozen=True, slots=True)
class RecordedAttempt:
    """One row of `tabellion_attempts`, times in seconds since 1970."""

    key: Any
    n: int
    attempt: int
    worker: str
    claimed_at: float
    lease_until: float
    settled_at: float | None
    outcome: str | None
    retry_at: float | None
    error: str | None


HistoryFault = tuple[str, str]  #: its kind, and what it is about


def judge_history(
    history: Sequence[RecordedAttempt],
    *,
    charging: Sequence[str] | None = None,
    early: bool = False,
    whole: bool = False,
) -> Iterator[HistoryFault]:
    """Every fault in the attempts of one row, which are ordered by `n`.

    `charging` are the outcomes that use up an attempt; None: a crash may or may not have. `early`: claims may come
    before a retry is due. `whole`: no attempt has been removed, so that the first one is number 1.
    """
    if history and whole and history[0].n != 1:
        yield "gaps", f"its first claim has number {history[0].n}"
    if history and history[0].n == 1 and history[0].attempt not in (1, _CANCELLED):
        yield "miscounted", f"its first claim is attempt {history[0].attempt}"
    for before, one in pairwise(history):
        if one.n != before.n + 1:
            yield "gaps", f"claim {one.n} follows claim {before.n}"
        if before.settled_at is None and one.settled_at is None:
            yield "two_claims", f"claims {before.n} ({before.worker}) and {one.n} ({one.worker}) are both live"
        if before.settled_at is None or one.claimed_at < before.settled_at - TICK:
            yield "overlaps", f"claim {one.n} ({one.worker}) began before claim {before.n} ({before.worker}) had ended"
        if not early and before.retry_at is not None and one.claimed_at < before.retry_at - TICK:
            yield "claimed_early", f"claim {one.n} began {before.retry_at - one.claimed_at:.3f} s before it was due"
        if before.outcome is None:
            continue  # what the next number should be depends on an outcome
        expected = _next_attempts(before, charging)
        if one.attempt not in expected and not (one.attempt == _CANCELLED and one.outcome == "cancelled"):
            numbers = " or ".join(map(str, expected))
            yield "miscounted", f"claim {one.n} is attempt {one.attempt}, not {numbers}, after {before.outcome}"
    for one in history:
        ended_by_sweep = one.outcome in ("crashed", "quarantined")
        if ended_by_sweep and one.settled_at is not None and one.settled_at < one.lease_until - TICK:
            yield "swept_early", f"claim {one.n} was ended {one.lease_until - one.settled_at:.3f} s before its lease"
        if one.outcome is None and one.settled_at is not None:
            yield "half_settled", f"claim {one.n} has settled_at, but no outcome"
        elif one.settled_at is None and one.outcome is not None:
            yield "half_settled", f"claim {one.n} has the outcome {one.outcome}, but no settled_at"


_CANCELLED = 0  #: the number of an attempt that records the cancellation of a waiting row


def _next_attempts(before: RecordedAttempt, charging: Sequence[str] | None) -> tuple[int, ...]:
    """The numbers that the next attempt may have."""
    if before.outcome not in CONTINUING:
        return (1,)
    if charging is None and before.outcome == "crashed":
        return (before.attempt, before.attempt + 1)
    return (before.attempt + (before.outcome in (charging or ("retried",))),)
