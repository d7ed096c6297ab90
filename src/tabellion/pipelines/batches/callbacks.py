"""Callbacks: what an orchestrator is told about a chunk, from its rows, signed and delivered like any webhook."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NotRequired

from tabellion.accounts import shared_secrets
from tabellion.answers import Answer
from tabellion.delivery import deliveries, endpoints, outbox
from tabellion.engine import sql
from tabellion.engine.database import FetchRows
from tabellion.engine.sql import NOW, Dialect
from tabellion.engine.values import json_text
from tabellion.messages import Message
from tabellion.pipelines.batches import tables
from tabellion.pipelines.batches.entity_rows import ChunkEntity, read_entities
from tabellion.pipelines.batches.error_forms import read_forms, restore_error
from tabellion.pipelines.batches.ref_rows import Ref, read_refs
from tabellion.pipelines.batches.settings import origin_of
from tabellion.pipelines.batches.states import ENDED, GOOD_REFS, REFS_QUEUE, ChunkPhase, RefStatus, quote_list

if TYPE_CHECKING:
    from tabellion.engine.store import Store
    from tabellion.pipelines.batches.settings import BatchSettings

EVENT = "batch.chunk"
PREFIX = "cb_"  #: of the ids of endpoints
SECRET = "batch-callbacks"  # noqa: S105 - the name of the secret in the database
Outcome = Literal["success", "partial", "error"]


class FailedRef(Answer):
    """A ref without a result."""

    filename: str
    error: str


class CompletedRef(Answer):
    """A ref with a result: what is not listed is not complete."""

    filename: str
    status: Literal["done", "skipped"]
    result_cid: NotRequired[str]
    reason: NotRequired[str]


class PiResult(Answer):
    """What became of one entity."""

    pi: str
    status: Outcome
    new_tip: NotRequired[str]
    new_version: NotRequired[int]
    refs_completed: int
    refs_failed: int
    failed_refs: NotRequired[list[FailedRef]]
    completed_refs: list[CompletedRef]
    error: NotRequired[str]


class Summary(Answer):
    """The numbers of a chunk."""

    total_refs: int
    completed: int
    failed: int
    processing_time_ms: int


class ChunkCallback(Answer):
    """The body of a callback."""

    batch_id: str
    chunk_id: str
    status: Outcome
    results: list[PiResult]
    summary: Summary
    error: NotRequired[str]


def endpoint_id(callback_url: str) -> str:
    """The id of the webhook endpoint of a callback URL."""
    return f"{PREFIX}{hashlib.sha256(callback_url.encode()).hexdigest()[:24]}"


def message_id(chunk: Mapping[str, Any]) -> str:
    """The `webhook-id` of the callback of a chunk's run: always the same, so that receivers recognise a repetition.

    Rows of earlier releases have no identity.
    """
    name = f"{chunk['identity'] or chunk['id']}#{chunk['run']}"
    return f"msg_{hashlib.sha256(name.encode()).hexdigest()[:32]}"


async def build_callback(
    fetch: FetchRows, chunk: Mapping[str, Any], dialect: Dialect, error: str | None
) -> ChunkCallback:
    """The callback of a chunk whose refs have all ended, or which ended with this error. Errors that are stored with a
    code are messages, which are sent as their sentences."""
    pis, refs = await read_entities(fetch, chunk["id"]), await read_refs(fetch, chunk["id"])
    end = sql.epoch(f"coalesce(completed_at, {NOW})", dialect)
    [timing] = await fetch(
        f"""SELECT {end} - {sql.epoch("started_at", dialect)} AS seconds
FROM {tables.CHUNKS} WHERE id = $1""",
        chunk["id"],
    )
    by_pi: dict[int, list[Ref]] = {}
    for ref in refs:
        by_pi.setdefault(ref["pi_position"], []).append(ref)
    results = [_describe_pi(pi, by_pi.get(pi["position"], [])) for pi in pis]
    completed = sum(result["refs_completed"] for result in results)
    failed = sum(result["refs_failed"] for result in results)
    callback = ChunkCallback(
        batch_id=chunk["batch_id"], chunk_id=chunk["chunk_id"],
        status="error" if error is not None else _overall(results), results=results,
        summary=Summary(
            total_refs=len(refs), completed=completed, failed=failed,
            processing_time_ms=max(0, round(timing["seconds"] * 1000)),
        ),
    )  # fmt: skip
    if error is None and callback["status"] == "error":
        error = await _first_error(fetch, pis[0], by_pi.get(pis[0]["position"], []))
    if error is not None:
        callback["error"] = error
    return callback


def deliver(chunk: Mapping[str, Any], callback: ChunkCallback) -> tuple[str, dict[str, Any]]:
    """The statement that hands a callback to the delivery queue."""
    return outbox.direct(message_id(chunk), endpoint_id(chunk["callback_url"]), EVENT, chunk["id"], json_text(callback))


async def find_callback(store: Store, name: str) -> tuple[Any, str] | None:
    """The row of a chunk that has ended and the body of its callback, as it was sent or would be; None if it has not
    ended, or there is none of this name."""
    chunks = await store.database.fetch(
        f"""SELECT id, batch_id, chunk_id, run, identity, phase, callback_url, publishing_error, fetching_error
FROM {tables.CHUNKS} WHERE id = $1 AND phase IN ({quote_list(ENDED)})""",
        name,
    )
    if not chunks:
        return None
    [chunk] = chunks
    sent = await deliveries.fetch_body(store, message_id(chunk))
    if sent is not None:
        return chunk, sent
    error = chunk["publishing_error"] or chunk["fetching_error"] if chunk["phase"] == ChunkPhase.ERROR else None
    return chunk, json_text(await build_callback(store.database.fetch, chunk, store.dialect, error))


async def fetch_callback_secret(fetch: FetchRows, settings: BatchSettings, callback_url: str) -> str:
    """The secret that signs the callbacks to this URL.

    Without a configured one it is derived from a secret in the database, which all machines share: one for each
    origin, so that whoever knows it cannot sign for another.
    """
    configured = settings.configured_secret(callback_url)
    if configured is not None:
        return configured
    return _derive_secret(await shared_secrets.fetch_secret(fetch, SECRET), callback_url)


async def find_callback_secret(fetch: FetchRows, settings: BatchSettings, callback_url: str) -> str | None:
    """The same, or None while no callback was signed here: nothing can be verified yet, and nothing is created."""
    configured = settings.configured_secret(callback_url)
    if configured is not None:
        return configured
    key = await shared_secrets.find_secret(fetch, SECRET)
    return None if key is None else _derive_secret(key, callback_url)


def _derive_secret(key: bytes, callback_url: str) -> str:
    return "whsec_" + base64.b64encode(hmac.digest(key, origin_of(callback_url).encode(), "sha256")).decode()


async def ensure_endpoint(
    fetch: FetchRows, settings: BatchSettings, callback_url: str, dialect: Dialect
) -> tuple[str, dict[str, Any]]:
    """The statement that adds the endpoint of a callback URL, or gives it the secret that is configured now."""
    secret = await fetch_callback_secret(fetch, settings, callback_url)
    return endpoints.ensure(endpoint_id(callback_url), callback_url, secret, dialect)


async def sync_endpoints(store: Store, settings: BatchSettings) -> None:
    """Gives the endpoints of callback URLs their configured secrets, for callbacks that were not delivered yet."""
    fetch = store.database.fetch
    for id_, url, secret in await endpoints.fetch_targets(store, PREFIX):
        if id_ == endpoint_id(url) and secret != await fetch_callback_secret(fetch, settings, url):
            text, values = sql.bind(*await ensure_endpoint(fetch, settings, url, store.dialect))
            await fetch(text, *values)


def _describe_pi(pi: ChunkEntity, refs: Sequence[Ref]) -> PiResult:
    """A ref that was read is complete when it is published, or if there was nothing to publish for it."""
    completed: list[CompletedRef] = []
    failed: list[FailedRef] = []
    for ref in refs:
        if ref["status"] == RefStatus.SKIPPED:
            skipped: CompletedRef = {"filename": ref["filename"], "status": "skipped", "reason": ref["reason"] or ""}
            if ref["result_cid"] is not None:
                skipped["result_cid"] = ref["result_cid"]
            completed.append(skipped)
        elif ref["status"] == RefStatus.DONE and ref["result_cid"] is not None:
            completed.append({"filename": ref["filename"], "status": "done", "result_cid": ref["result_cid"]})
        else:
            failed.append({"filename": ref["filename"], "error": _why(ref, pi)})
    status: Outcome = "success" if not failed else "partial" if completed else "error"
    if pi["entity_error"] is not None:
        status = "error"
    result = PiResult(
        pi=pi["pi"], status=status, refs_completed=len(completed), refs_failed=len(failed), completed_refs=completed
    )
    if pi["new_tip"] is not None and pi["new_version"] is not None:
        result["new_tip"], result["new_version"] = pi["new_tip"], pi["new_version"]
    if failed:
        result["failed_refs"] = failed
    if pi["entity_error"] is not None:
        result["error"] = _entity_error(pi)
    return result


def _why(ref: Ref, pi: ChunkEntity) -> str:
    if ref["status"] in GOOD_REFS:
        return _entity_error(pi) or Message("batch.not_published")
    return (
        restore_error(ref["error"], ref["error_code"], ref["error_params"])
        if ref["error"]
        else Message("batch.not_read")
    )


def _entity_error(pi: ChunkEntity) -> str:
    return restore_error(pi["entity_error"], pi["error_code"], pi["error_params"]) if pi["entity_error"] else ""


async def _first_error(fetch: FetchRows, pi: ChunkEntity, refs: Sequence[Ref]) -> str:
    """Why no entity has a result: the error of the first one, or of its first failed ref. The others are in `results`.

    The code of a ref's error is still with its attempt while its chunk is ended.
    """
    if pi["entity_error"]:
        return _entity_error(pi)
    ref = next(ref for ref in refs if not _is_complete(ref))
    error = _why(ref, pi)
    if not isinstance(error, Message):
        place = (REFS_QUEUE, ref["id"])
        error = Message.from_stored(error, (await read_forms(fetch, [place])).get(place))
    return error


def _is_complete(ref: Ref) -> bool:
    """Whether a ref was published, or had nothing to publish."""
    return ref["status"] == RefStatus.SKIPPED or (ref["status"] == RefStatus.DONE and ref["result_cid"] is not None)


def _overall(results: Sequence[PiResult]) -> Outcome:
    statuses = {result["status"] for result in results}
    if statuses <= {"success"}:
        return "success"
    return "error" if statuses == {"error"} else "partial"
