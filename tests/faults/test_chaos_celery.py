"""A small chaos run on Celery with each broker; `make chaos-celery` runs the large one."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.brokers import NO_RABBIT, has_rabbitmq
from tests.faults import chaos_celery
from tests.servers import Postgres


@pytest.mark.parametrize(
    ("kind", "faults"), [("valkey", chaos_celery.FAULTS), ("rabbitmq", ("flush", "half", "broker"))]
)
@pytest.mark.timeout(300)
def test_a_flushed_and_killed_broker_loses_nothing(kind: str, faults: Sequence[str], postgres18: Postgres) -> None:
    """FLUSHALL, kill -9 of the broker, of half of the fleet and of a process, and zombies: every promise is kept."""
    if kind == "rabbitmq" and not has_rabbitmq():
        pytest.skip(NO_RABBIT)
    for seed in (1, 2, 3):
        report, tally = chaos_celery.run(
            kind, jobs=300 * len(faults), nodes=2, rounds=1, seed=seed, server=postgres18, slack=15.0, faults=faults
        )
        # On a busy machine no zombie may wake up in time to hand in a late result: such a run has tried nothing.
        if {name for name, count in report.violations.items() if count} != {"untested"}:
            break
    assert report.clean, "\n".join(report.lines())
    assert all(tally.faults[fault] for fault in faults)
    assert report.outcomes["crashed"] > 0
