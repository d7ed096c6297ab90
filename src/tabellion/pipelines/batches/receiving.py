"""Receives callbacks as an orchestrator: verified, and stored once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

from tabellion.delivery.signature import BadSignature, verify
from tabellion.engine.values import json_text
from tabellion.errors import TabellionError
from tabellion.messages import Message
from tabellion.pipelines.batches import tables
from tabellion.pipelines.batches.callbacks import ChunkCallback

if TYPE_CHECKING:
    from tabellion.engine.store import Store

STATUSES = ("success", "partial", "error")


class CallbackInvalid(TabellionError):  # noqa: N818 - what it is
    """The body is not a callback of this batch."""


def receive_callback(headers: Mapping[str, str], body: bytes, *secrets: str) -> tuple[str, ChunkCallback]:
    """The id and content of a callback, for orchestrators: raises BadSignature unless one of the secrets signed it.

    Store the id, and ignore a callback whose id you have: a delivery may be repeated. A ref is complete only if it is
    in `completed_refs`.

    >>> id, callback = receive_callback(request.headers, await request.body(), "whsec_…")
    """
    failure = BadSignature("no secret is known")
    for secret in secrets:
        try:
            content = verify(headers, body, secret)
        except BadSignature as error:
            failure = error
            continue
        _check(content)
        received = {name.lower(): value for name, value in headers.items()}
        return received["webhook-id"], cast("ChunkCallback", content)
    raise failure


async def store_callback(store: Store, batch_id: str, id_: str, callback: ChunkCallback) -> bool:
    """Stores a callback; returns whether it is new. One about a chunk that is not known (yet) is stored too."""
    if callback["batch_id"] != batch_id:
        raise CallbackInvalid(Message("batch.callback_other_batch", batch=callback["batch_id"]))
    rows = await store.database.fetch(
        f"""INSERT INTO {tables.RECEIVED} (id, batch_id, chunk_id, status, body) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (id) DO NOTHING RETURNING id""",
        id_, batch_id, callback["chunk_id"], callback["status"], json_text(callback),
    )  # fmt: skip
    return bool(rows)


def _check(content: Mapping[str, object]) -> None:
    try:
        json_text(content).encode()
    except UnicodeEncodeError:
        raise CallbackInvalid(Message("batch.callback_text")) from None
    for name, kind in (("batch_id", str), ("chunk_id", str), ("results", list), ("summary", dict)):
        if not isinstance(content.get(name), kind):
            raise CallbackInvalid(Message("batch.callback_field", name=name))
    if content.get("status") not in STATUSES:
        raise CallbackInvalid(Message("batch.callback_field", name="status"))
