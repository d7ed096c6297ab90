"""Ends a batch whose chunks have all ended: the point at which its next phase may begin."""

from __future__ import annotations

from tabellion.delivery.outbox import outbox
from tabellion.engine.job import Job
from tabellion.engine.tables.table import Row
from tabellion.pipelines.batches import tables
from tabellion.pipelines.batches.states import REF_STATUS, BatchStatus, ChunkPhase, RefStatus

EVENT = "batch.ended"  #: of webhooks


async def complete(job: Job) -> Row:
    """Complete if every ref has a result, otherwise incomplete; failed chunks and refs can be retried."""
    assert job.context is not None  # noqa: S101 - every job of a worker has one
    [failed] = await job.context.fetch(
        f"""SELECT (SELECT count(*) FROM {tables.CHUNKS} WHERE batch_id = $1
    AND phase = '{ChunkPhase.ERROR}') AS chunks,
  (SELECT count(*) FROM {tables.REFS} AS r JOIN {tables.CHUNKS} AS c ON c.id = r.chunk
    WHERE c.batch_id = $1 AND {REF_STATUS} = '{RefStatus.ERROR}') AS refs,
  (SELECT count(*) FROM {tables.PIS} AS p JOIN {tables.CHUNKS} AS c ON c.id = p.chunk
    WHERE c.batch_id = $1 AND p.entity_error IS NOT NULL) AS entities""",
        job.text_key,
    )
    status = BatchStatus.INCOMPLETE if any(failed.values()) else BatchStatus.COMPLETE
    statement, values = outbox(
        EVENT, job.text_key,
        {"id": job.text_key, "status": status, "total_pis": job["total_pis"], "total_refs": job["total_refs"],
         "failed_chunks": failed["chunks"], "failed_refs": failed["refs"], "failed_entities": failed["entities"]},
    )  # fmt: skip
    job.also(statement, **values)
    return {"status": status.value}
