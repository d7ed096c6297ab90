"""A pipeline of your own: texts are sent in, a worker computes their SHA-256, people see the list on a page.

Install it beside tabellion (`pip install ./examples/checksums`), then

    tabellion up --with checksums
    tabellion checksum "some text"
"""

from __future__ import annotations

import asyncio
import hashlib
import uuid
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tabellion import Job, Pipeline, Queue, Store
from tabellion.accounts import audit
from tabellion.accounts.tables import SCHEMA as ACCOUNTS
from tabellion.delivery.endpoints import SCHEMA as DELIVERY
from tabellion.delivery.outbox import outbox
from tabellion.engine.schema import Schema
from tabellion.engine.sql import NOW

if TYPE_CHECKING:
    from tabellion.web.blueprint import Blueprint

TABLE = """CREATE TABLE tabellion_checksums (id text PRIMARY KEY, content text NOT NULL,
  status text NOT NULL DEFAULT 'waiting', sha256 text, error text, created_at TIME NOT NULL)"""
SCHEMA = Schema(
    "checksums",
    versions=((TABLE,),),
    tables=("tabellion_checksums",),
    needs=(ACCOUNTS, DELIVERY),  # the audit log and the webhooks
)


def checksums_queue() -> Queue:
    """The table as a queue, with its handler."""
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


async def add_text(store: Store, content: str, actor: str) -> str:
    """Queues a text and records who did; returns its id."""
    id_ = uuid.uuid4().hex
    insert = f"INSERT INTO tabellion_checksums (id, content, created_at) VALUES ($1, $2, {NOW})"
    entry = audit.AuditEntry("checksum_added", actor, id_)
    await store.database.transact([(insert, [id_, content]), audit.bind_entry(store.dialect, entry)])
    await store.database.wake()
    return id_


async def list_newest(store: Store) -> list[dict[str, Any]]:
    """The last hundred."""
    return await store.database.fetch(
        "SELECT id, status, sha256 FROM tabellion_checksums ORDER BY created_at DESC, id LIMIT 100"
    )


class Checksums(Pipeline):
    """A table, a queue, an event, two routes of the API, a page with its place in the header, and a command."""

    name = "checksums"
    title = "Checksums"
    catalogues = ("checksums",)
    events = ("checksum.computed",)
    commands: Mapping[str, str] = {"checksum": "checksums.pipeline"}

    def schemas(self) -> Sequence[Schema]:
        """One table."""
        return (SCHEMA,)

    def queues(self, config: object, environment: object = None) -> Sequence[Queue]:
        """One queue."""
        return (checksums_queue(),)

    def blueprint(self) -> Blueprint:
        """Imported here: a worker needs no web framework."""
        from .routes import BLUEPRINT

        return BLUEPRINT


PIPELINE = Checksums()


def checksum(context: typer.Context, content: Annotated[str, typer.Argument(help="The text.")]) -> None:
    """Queue a text for its checksum.

    Example: tabellion checksum "some text"
    """
    from tabellion.cli.load import config_of

    async def go() -> str:
        async with config_of(context).environments[0].store() as store:
            await PIPELINE.prepare(store)
            return await add_text(store, content, audit.COMMAND)

    typer.echo(asyncio.run(go()))
