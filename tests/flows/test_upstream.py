"""Workers against a model with a quota, and one that goes down: checked in the model's own log."""

from __future__ import annotations

import time

import pytest

from tabellion import GateSettings, Job, Queue
from tabellion.models.catalog import make
from tabellion.models.fake.serving import Serving, serving
from tabellion.models.gated import GatedModel
from tests.table_owner import Owner, jobs_queue
from tests.waiting import eventually
from tests.workers import EventRecorder, make_worker, working


def reading(fake: Serving) -> Queue:
    queue = jobs_queue("reading", where="size IS NULL", uses="gemini", lease=30.0)  # however busy the machine is
    gemini = GatedModel(make("gemini", {"key": "k", "base_url": fake.url}))

    @queue.handler
    async def read(job: Job) -> dict[str, str]:
        return {"result": (await gemini.call([f"page {job.key}"])).text}

    return queue


def test_a_quota_costs_no_job_an_attempt(url: str, owner: Owner) -> None:
    """Two workers discover an unknown quota: every job is done at its first attempt, few calls are refused."""
    owner.insert(*range(1, 61))
    with serving(rate=20) as fake:
        gates = {"gemini": GateSettings(rate=10)}
        with working(*(make_worker(url, reading(fake), gates=gates) for _ in range(2))):
            eventually(lambda: owner.count("done") == 60, within=60)
        statuses = [line["status"] for line in fake.lines()]
    assert statuses.count(200) == 60
    # How few they are is proved by a clock that no busy machine disturbs, in tests/engine/test_quotas.py.
    assert statuses.count(429) < 60
    attempts = owner("SELECT attempt, outcome FROM tabellion_attempts")
    assert {row["attempt"] for row in attempts} == {1}
    assert {row["outcome"] for row in attempts} <= {"done", "limited", "released"}


@pytest.mark.parametrize("latency", [None, 0.3], ids=["quick", "slow"])
def test_an_outage_is_waited_out(url: str, owner: Owner, latency: float | None) -> None:
    """While a model is down it is hardly called, another queue continues, and afterwards every job is done."""
    owner.insert(*range(1, 61))
    owner("UPDATE jobs SET size = 1 WHERE id > 40")
    plain = jobs_queue("plain", where="size = 1", running="looking")

    @plain.handler
    async def look(job: Job) -> None:
        pass

    recorder = EventRecorder()
    slots, gate = 8, GateSettings(rate=50, recovery=0.5)
    with serving(knobs="503", latency=latency) as fake:
        worker = make_worker(url, reading(fake), plain, gates={"gemini": gate}, listeners=[recorder], concurrency=slots)
        began = time.monotonic()
        with working(worker):
            eventually(lambda: recorder.of("gate_closed"))
            eventually(lambda: owner.count("done") == 20)
            refused = fake.report()["statuses"].get("503", 0)
            probes = 1 + (time.monotonic() - began) / gate.recovery
            fake.change(knobs="", latency=None)
            eventually(lambda: owner.count("done") == 60, within=60)
    # However slow the model is: the first failure, then what is under way at the second, from which on no more calls go
    # than the threshold allows.
    assert refused <= 1 + slots + (gate.threshold - 2) + probes
    assert recorder.of("gate_opened")
    [spent] = owner("SELECT count(*) AS n FROM tabellion_attempts WHERE outcome = 'retried'")
    assert spent["n"] < gate.threshold + probes  # once the gate is closed, a failure costs no attempt
