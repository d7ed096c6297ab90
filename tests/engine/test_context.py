"""A job's context: what its handler may request from the database the job comes from."""

from __future__ import annotations

from tabellion import Job
from tests.table_owner import Owner, jobs_queue
from tests.workers import drain, make_worker


def test_a_handler_queries_its_own_database(url: str, owner: Owner) -> None:
    """A handler runs a statement with values and knows the kind of database, from its own event loop."""
    owner.insert(1, 2)
    queue = jobs_queue()

    @queue.handler
    async def look(job: Job) -> dict[str, str]:
        assert job.context is not None
        [row] = await job.context.fetch("SELECT status FROM jobs WHERE id = $1", job.key)
        return {"result": f"{row['status']} on {job.context.dialect}"}

    drain(make_worker(url, queue))
    assert {row["result"] for row in owner("SELECT result FROM jobs")} == {f"running on {owner.dialect}"}


def test_a_queue_retries_after_its_own_waits(url: str, owner: Owner) -> None:
    """`waits` decides when a job is due again, and the attempt is spent."""
    owner.insert(1)
    queue = jobs_queue(waits=(0.01, 5000.0), max_attempts=3)
    tried = []

    @queue.handler
    async def break_down(job: Job) -> None:
        tried.append(job.attempt)
        if len(tried) == 2:
            worker.stop()
        raise ValueError("odd")

    worker = make_worker(url, queue)
    drain(worker)
    due = "retry_at - claimed_at" if owner.dialect == "sqlite" else "extract(epoch FROM retry_at - claimed_at)"
    waited = [float(row["s"]) for row in owner(f"SELECT {due} AS s FROM tabellion_attempts ORDER BY n")]
    assert tried == [1, 2]
    assert waited[0] < 1000 < 4900 < waited[1] < 7600
