"""Reads batches: the status of a chunk, the progress of a batch, and its chunks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Annotated, Any, Literal, NotRequired

from tabellion.answers import Answer, Doc
from tabellion.delivery import deliveries
from tabellion.delivery.endpoints import DeliveryState
from tabellion.engine import sql
from tabellion.engine.timestamps import iso
from tabellion.messages import Message, Translatable, translatable
from tabellion.pipelines.batches import tables
from tabellion.pipelines.batches.callbacks import EVENT, message_id
from tabellion.pipelines.batches.error_forms import marks, read_forms, restore_error
from tabellion.pipelines.batches.states import (
    ENDED_REFS,
    FETCHING_QUEUE,
    GOOD_REFS,
    PUBLISHING_QUEUE,
    REF_STATUS,
    REPORTED_CODE,
    REPORTED_PARAMS,
    WEBHOOKS_QUEUE,
    CallbackReport,
    ChunkPhase,
    RefStatus,
    is_id,
    quote_list,
    work_name,
)

if TYPE_CHECKING:
    from tabellion.engine.store import Store

PHASES = tuple(phase.value for phase in ChunkPhase)


class BatchProgress(Answer):
    """Refs by what became of them; skipped ones are completed."""

    total_refs: int
    completed: int
    failed: int
    pending: int


class ChunkProgress(Answer):
    """How far a chunk is. A chunk that waits for its turn is in FETCHING: callers know no PENDING."""

    status: Literal["processing", "done", "error"]
    phase: Literal["FETCHING", "PROCESSING", "PUBLISHING", "DONE", "ERROR"]
    progress: BatchProgress
    error: NotRequired[str]


class CallbackFacts(Answer):
    """The delivery of a chunk's callback."""

    id: Annotated[str, Doc("The webhook-id: a repetition has the same.")]
    status: DeliveryState
    attempts: int
    error: str | None
    translatable: NotRequired[Translatable]


class Chunk(Answer):
    """A chunk of a batch."""

    id: Annotated[str, Doc("The name of its work: ocr:{batch_id}:{chunk_id}.")]
    chunk_id: str
    phase: str
    run: Annotated[int, Doc("How often it was started.")]
    total_pis: int
    progress: BatchProgress
    skipped: Annotated[int, Doc("Those of the completed refs that needed no reading.")]
    failed_pis: Annotated[int, Doc("Entities that were read, but not published.")]
    pi_error: Annotated[str | None, Doc("The error of one of these entities.")]
    error: str | None
    translatable: NotRequired[Translatable]
    started_at: str
    completed_at: str | None
    received_at: Annotated[str | None, Doc("When its callback was received here, if this is its orchestrator.")]
    callback: CallbackFacts | None


class UndeliveredCallbacks(Answer):
    """Callbacks of a batch that their receiver has not acknowledged."""

    pending: Annotated[int, Doc("Those that are being sent, now or later.")]
    failed: Annotated[int, Doc("Those that were given up: `retry webhooks`, or the chunk once more, sends them again.")]


class Batch(Answer):
    """A batch and its progress, counted from the rows."""

    id: str
    status: Annotated[str, Doc("open, processing, completing, complete or incomplete.")]
    total_pis: int
    total_chunks: int
    progress: BatchProgress
    skipped: int
    phases: Annotated[dict[str, int], Doc("Chunks by phase.")]
    chunk_size: int | None
    callback_url: str | None
    duplicates: Annotated[int, Doc("Refs that were sent twice and count once.")]
    submitted_by: str | None
    created_at: str
    completed_at: str | None
    closed_at: str | None
    status_url: str


async def chunk_status(store: Store, batch_id: str, chunk_id: str) -> ChunkProgress | None:
    """The status of a chunk, or None."""
    if not (is_id(batch_id) and is_id(chunk_id)):
        return None
    rows = await store.database.fetch(
        f"""SELECT c.phase, c.fetching_error, c.publishing_error, {REF_STATUS} AS status, count(r.id) AS n
FROM {tables.CHUNKS} AS c LEFT JOIN {tables.REFS} AS r ON r.chunk = c.id WHERE c.id = $1 GROUP BY 1, 2, 3, 4""",
        work_name(batch_id, chunk_id),
    )
    if not rows:
        return None
    row, phase = rows[0], ChunkPhase(rows[0]["phase"])
    found = ChunkProgress(
        status="done" if phase is ChunkPhase.DONE else "error" if phase is ChunkPhase.ERROR else "processing",
        phase=ChunkPhase.FETCHING.value if phase is ChunkPhase.PENDING else phase.value,  # type: ignore[typeddict-item]
        progress=_progress({one["status"]: one["n"] for one in rows}),
    )
    if phase is ChunkPhase.ERROR:
        found["error"] = row["publishing_error"] or row["fetching_error"] or ""
    return found


async def get_batch(store: Store, id_: str) -> Batch | None:
    """A batch with its progress, or None."""
    if not is_id(id_):
        return None
    found = await _find_batches(store, "b.id = $1", [id_], 1)
    return _describe_batch(found[0]) if found else None


async def has_batch(store: Store, id_: str) -> bool:
    """Whether there is a batch of this id."""
    return is_id(id_) and bool(await store.database.fetch(f"SELECT 1 FROM {tables.BATCHES} WHERE id = $1", id_))


async def list_batches(
    store: Store, after: tuple[float, str] | None, limit: int
) -> tuple[list[Batch], tuple[float, str] | None]:
    """Batches, newest first, and the place after which the next page starts (None on the last one)."""
    where = f"(b.created_at, b.id) < ({sql.moment('$1', store.dialect)}, $2)" if after is not None else "1 = 1"
    found = await _find_batches(store, where, after or (), limit + 1)
    last = found[limit - 1][0] if len(found) > limit else None
    return [_describe_batch(one) for one in found[:limit]], (last["created_at"], last["id"]) if last else None


async def list_chunks(
    store: Store, batch_id: str, *, phase: str | None = None, after: tuple[int, str] | None = None, limit: int = 100
) -> tuple[list[Chunk], tuple[int, str] | None]:
    """The chunks of a batch in order, and the place after which the next page starts (None on the last one)."""
    conditions, values = ["c.batch_id = $1"], [batch_id, *([phase] if phase is not None else []), *(after or ())]
    if phase is not None:
        conditions.append("c.phase = $2")
    if after is not None:
        conditions.append(f"(c.position, c.id) > (${len(values) - 1}, ${len(values)})")
    rows = await _chunk_rows(store, " AND ".join(conditions), values, limit + 1)
    last = rows[limit - 1] if len(rows) > limit else None
    return await _describe_chunks(store, rows[:limit]), (last["position"], last["id"]) if last is not None else None


async def get_chunk(store: Store, batch_id: str, chunk_id: str) -> Chunk | None:
    """A chunk, or None."""
    rows = await _chunk_rows(store, "c.id = $1", [work_name(batch_id, chunk_id)], 1)
    return (await _describe_chunks(store, rows))[0] if rows else None


async def _chunk_rows(store: Store, where: str, values: Sequence[Any], limit: int) -> list[Any]:
    d = store.dialect
    return await store.database.fetch(
        f"""SELECT c.id, c.chunk_id, c.position, c.phase, c.run, c.identity, c.total_pis, c.callback_url,
  c.fetching_error, c.publishing_error, {REPORTED_CODE} AS error_code, {REPORTED_PARAMS} AS error_params,
  {sql.epoch("c.started_at", d)} AS started_at,
  {sql.epoch("c.completed_at", d)} AS completed_at
FROM {tables.CHUNKS} AS c WHERE {where} ORDER BY c.position, c.id LIMIT {int(limit)}""",
        *values,
    )


async def count_undelivered(store: Store, batch_id: str) -> UndeliveredCallbacks:
    """How many callbacks of a batch have not been delivered."""
    chunks = f"""SELECT c.id AS subject FROM {tables.CHUNKS} AS c
WHERE c.batch_id = $2 AND c.report = '{CallbackReport.WRITTEN}'"""
    counted = await deliveries.count_undelivered(store, EVENT, chunks, batch_id)
    failed = counted.pop("failed", 0)
    return UndeliveredCallbacks(pending=sum(counted.values()), failed=failed)


async def _find_batches(store: Store, where: str, values: Sequence[Any], limit: int) -> list[list[Any]]:
    """Batches, newest first, each as one row for each phase of its chunks.

    The counts of refs are those that chunks have kept at their end, or else of the refs: one statement sees one moment,
    and a chunk that ends between two would be counted twice. A chunk that waits for its first turn has no ended refs:
    a large batch has thousands of those. A subquery for each open chunk, since a planner with old statistics would
    begin a join with all refs that have ended, those of every batch.
    """
    d = store.dialect
    rows = await store.database.fetch(
        f"""SELECT b.id, b.status, b.total_pis, b.duplicates, b.chunk_size, b.callback_url, b.submitted_by,
  {sql.epoch("b.created_at", d)} AS created_at, {sql.epoch("b.completed_at", d)} AS completed_at,
  {sql.epoch("b.closed_at", d)} AS closed_at, c.phase, count(c.id) AS chunks, sum(c.total_refs) AS total_refs,
  {_sum_refs("done_refs", RefStatus.DONE)},
  {_sum_refs("skipped_refs", RefStatus.SKIPPED)},
  {_sum_refs("failed_refs", RefStatus.ERROR)}
FROM {tables.BATCHES} AS b LEFT JOIN {tables.CHUNKS} AS c ON c.batch_id = b.id
WHERE b.id IN (SELECT b.id FROM {tables.BATCHES} AS b WHERE {where} ORDER BY b.created_at DESC, b.id DESC
  LIMIT {int(limit)})
GROUP BY b.id, c.phase ORDER BY b.created_at DESC, b.id DESC""",
        *values,
    )
    return [list(group) for _, group in groupby(rows, key=itemgetter("id"))]


def _sum_refs(column: str, status: RefStatus) -> str:
    """The refs of chunks `c` with a status, named by it: from the column where a chunk has ended, and else counted."""
    return f"""sum(CASE WHEN c.done_refs IS NOT NULL THEN c.{column}
    WHEN c.phase = '{ChunkPhase.PENDING}' AND c.run = 1 THEN 0
    ELSE (SELECT CAST(count(*) AS integer) FROM {tables.REFS} AS r
      WHERE r.chunk = c.id AND r.status IN ({quote_list(ENDED_REFS)}) AND r.status = '{status}') END) AS {status}"""


def _describe_batch(rows: Sequence[Any]) -> Batch:
    row = rows[0]
    counts: dict[str, int] = {status: sum(one[status] or 0 for one in rows) for status in ENDED_REFS}
    phases = {one["phase"]: one["chunks"] for one in rows}
    return Batch(
        id=row["id"], status=row["status"], total_pis=row["total_pis"], total_chunks=sum(phases.values()),
        progress=_progress(counts, sum(one["total_refs"] or 0 for one in rows)), skipped=counts[RefStatus.SKIPPED],
        phases={phase: phases.get(phase, 0) for phase in PHASES}, chunk_size=row["chunk_size"],
        callback_url=row["callback_url"], duplicates=row["duplicates"], submitted_by=row["submitted_by"],
        created_at=iso(row["created_at"]), completed_at=iso(row["completed_at"]), closed_at=iso(row["closed_at"]),
        status_url=f"/api/batches/{row['id']}",
    )  # fmt: skip


async def _describe_chunks(store: Store, rows: Sequence[Any]) -> list[Chunk]:
    names = [row["id"] for row in rows]
    counts = await _count_refs(store, names)
    unpublished = await _failed_pis(store, names)
    ids = {row["id"]: message_id(row) for row in rows if row["callback_url"] is not None}
    sent, received = await _deliveries(store, list(ids.values())), await _received(store, list(ids.values()))
    errors = await _chunk_errors(store, rows)
    return [
        Chunk(
            id=row["id"], chunk_id=row["chunk_id"], phase=row["phase"], run=row["run"], total_pis=row["total_pis"],
            progress=_progress(counts[row["id"]]), skipped=counts[row["id"]].get(RefStatus.SKIPPED, 0),
            failed_pis=unpublished.get(row["id"], (0, None))[0], pi_error=unpublished.get(row["id"], (0, None))[1],
            error=errors.get(row["id"]), started_at=iso(row["started_at"]),
            completed_at=iso(row["completed_at"]), received_at=iso(received.get(ids.get(row["id"], ""))),
            callback=sent.get(ids.get(row["id"], "")),
            **translatable(error=errors.get(row["id"]), pi_error=unpublished.get(row["id"], (0, None))[1]),
        )
        for row in rows
    ]  # fmt: skip


async def _count_refs(store: Store, chunks: Sequence[str]) -> dict[str, dict[str, int]]:
    """The refs of chunks by their status."""
    counts: dict[str, dict[str, int]] = {name: {} for name in chunks}
    if chunks:
        for one in await store.database.fetch(
            f"""SELECT r.chunk, {REF_STATUS} AS status, count(*) AS n FROM {tables.CHUNKS} AS c
JOIN {tables.REFS} AS r ON r.chunk = c.id WHERE c.id IN ({marks(1, len(chunks))}) GROUP BY 1, 2""",
            *chunks,
        ):
            counts[one["chunk"]][one["status"]] = one["n"]
    return counts


async def _failed_pis(store: Store, names: Sequence[str]) -> dict[str, tuple[int, str | None]]:
    """How many entities of each chunk have an error of their own, and one of these; others are left out."""
    if not names:
        return {}
    rows = await store.database.fetch(
        f"""SELECT f.n, p.chunk, p.entity_error, p.error_code, p.error_params FROM {tables.PIS} AS p
JOIN (SELECT chunk, count(*) AS n, min(position) AS first FROM {tables.PIS}
  WHERE chunk IN ({marks(1, len(names))}) AND entity_error IS NOT NULL GROUP BY chunk) AS f
  ON f.chunk = p.chunk AND f.first = p.position""",
        *names,
    )
    return {
        row["chunk"]: (row["n"], restore_error(row["entity_error"], row["error_code"], row["error_params"]))
        for row in rows
    }


async def _chunk_errors(store: Store, rows: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The errors of these chunks that have one, by their keys; with a code, they are messages."""
    errors = {
        row["id"]: restore_error(error, row["error_code"], row["error_params"])
        for row in rows
        if (error := row["publishing_error"] or row["fetching_error"])
    }
    places = {
        row["id"]: (PUBLISHING_QUEUE if row["publishing_error"] else FETCHING_QUEUE, row["id"])
        for row in rows
        if row["id"] in errors and row["error_code"] is None
    }
    forms = await read_forms(store.database.fetch, places.values())
    return errors | {
        id_: Message.from_stored(errors[id_], forms[place]) for id_, place in places.items() if place in forms
    }


async def _received(store: Store, ids: Sequence[str]) -> dict[str, float]:
    """When callbacks were received here, by their ids."""
    if not ids:
        return {}
    rows = await store.database.fetch(
        f"""SELECT id, {sql.epoch("received_at", store.dialect)} AS at FROM {tables.RECEIVED}
WHERE id IN ({marks(1, len(ids))})""",
        *ids,
    )
    return {row["id"]: row["at"] for row in rows}


async def _deliveries(store: Store, ids: Sequence[str]) -> dict[str, CallbackFacts]:
    if not ids:
        return {}
    rows = await deliveries.fetch_states(store, ids)
    forms = await read_forms(store.database.fetch, [(WEBHOOKS_QUEUE, row["id"]) for row in rows if row["error"]])
    return {
        row["id"]: CallbackFacts(
            id=row["id"], status=row["status"], attempts=row["attempts"], error=row["error"],
            **translatable(error=Message.from_stored(row["error"] or "", forms.get((WEBHOOKS_QUEUE, row["id"])))),
        )
        for row in rows
    }  # fmt: skip


def _progress(counts: Mapping[str, int], total: int | None = None) -> BatchProgress:
    total = sum(counts.values()) if total is None else total
    completed = sum(counts.get(status, 0) for status in GOOD_REFS)
    failed = counts.get(RefStatus.ERROR, 0)
    return BatchProgress(total_refs=total, completed=completed, failed=failed, pending=total - completed - failed)
