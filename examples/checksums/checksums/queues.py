"""The table as a queue, with the handler that computes."""

from __future__ import annotations

import hashlib
from typing import Any

from tabellion import Job, Queue
from tabellion.delivery.outbox import outbox


def checksums_queue() -> Queue:
    """The queue with its handler."""
    queue = Queue(
        "tabellion_checksums", name="checksums", ready="waiting", running="running", done="done", failed="failed",
        error="error",
    )  # fmt: skip

    @queue.handler
    async def compute(job: Job) -> dict[str, Any]:
        sha256 = hashlib.sha256(job["content"].encode()).hexdigest()
        statement, values = outbox("checksum.computed", job.text_key, {"id": job.text_key, "sha256": sha256})
        job.also(statement, **values)  # committed with the result, or not at all
        return {"sha256": sha256}

    return queue
