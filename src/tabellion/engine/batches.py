"""Which claims one statement can renew, and which settlements one transaction can write."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from tabellion.engine.job import Job
from tabellion.engine.queue import Queue
from tabellion.engine.settlement import Settlement

RENEWALS = 500  # claims renewed in one statement


def renewable(jobs: Iterable[Job]) -> Iterable[list[Job]]:
    """Claims that one statement can renew: of one queue, no row twice, not too many."""
    groups: dict[Any, list[Job]] = {}
    seen: Counter[tuple[Queue, str]] = Counter()
    for number, job in enumerate(sorted(jobs, key=lambda job: job.text_key)):
        row = (job.queue, job.text_key)
        groups.setdefault((job.queue, seen[row], number // RENEWALS), []).append(job)
        seen[row] += 1
    return groups.values()


def alike(settlements: Sequence[Settlement]) -> Iterable[list[Settlement]]:
    """Settlements that one statement can write; one with extra statements, or of the same row again, stands alone."""
    groups: dict[Any, list[Settlement]] = {}
    seen: set[tuple[Queue, str]] = set()
    for number, one in enumerate(settlements):
        row = (one.job.queue, one.job.text_key)
        alone = number if row in seen or one.stands_alone else None
        seen.add(row)
        groups.setdefault((one.job.queue, one.outcome, tuple(one.values), one.expired_only, alone), []).append(one)
    for group in groups.values():
        group.sort(key=lambda one: one.job.text_key)  # everyone locks in the same order, so that nobody deadlocks
    return groups.values()
