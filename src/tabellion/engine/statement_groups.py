"""Groups claims that one statement can renew, and settlements that one transaction can write."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from tabellion.engine.job import Job
from tabellion.engine.queue import Queue
from tabellion.engine.settlement import Settlement

RENEWALS = 500  # claims renewed in one statement


def renewable(jobs: Iterable[Job]) -> Iterable[list[Job]]:
    """Groups of claims that one statement can renew: of one queue, no row twice, at most RENEWALS."""
    groups: dict[Any, list[Job]] = {}
    counts: Counter[tuple[Queue, str]] = Counter()
    for number, job in enumerate(sorted(jobs, key=lambda job: job.text_key)):
        row = (job.queue, job.text_key)
        groups.setdefault((job.queue, counts[row], number // RENEWALS), []).append(job)
        counts[row] += 1
    return groups.values()


def group_alike(settlements: Sequence[Settlement]) -> Iterable[list[Settlement]]:
    """Groups of settlements that one statement can write; one with extra statements, or of a repeated row, is alone."""
    groups: dict[Any, list[Settlement]] = {}
    rows: set[tuple[Queue, str]] = set()
    for number, settlement in enumerate(settlements):
        row = (settlement.job.queue, settlement.job.text_key)
        alone = number if row in rows or settlement.needs_own_transaction else None
        rows.add(row)
        groups.setdefault(
            (settlement.job.queue, settlement.outcome, tuple(settlement.values), settlement.expired_only, alone), []
        ).append(settlement)
    for group in groups.values():
        group.sort(
            key=lambda settlement: settlement.job.text_key
        )  # all workers lock rows in the same order, so that they cannot deadlock
    return groups.values()
