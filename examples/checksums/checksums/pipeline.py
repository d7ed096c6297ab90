"""A custom pipeline: texts are submitted, a worker computes their SHA-256, and a page lists them.

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
from tabellion.engine.schema import Schema
from tabellion.engine.sql import NOW

if TYPE_CHECKING:
    from tabellion.web.blueprint import Blueprint

SCHEMA = Schema(
    "checksums",
    versions=(
        (
            """CREATE TABLE tabellion_checksums (id text PRIMARY KEY, content text NOT NULL,
  status text NOT NULL DEFAULT 'waiting', sha256 text, error text, created_at TIME NOT NULL)""",
        ),
    ),
    tables=("tabellion_checksums",),
)


def queue() -> Queue:
    """Return the table as a queue, with its handler."""
    checksums = Queue(
        "tabellion_checksums", name="checksums", ready="waiting", running="running", done="done", failed="failed",
        error="error",
    )  # fmt: skip

    @checksums.handler
    async def compute(job: Job) -> dict[str, Any]:
        return {"sha256": hashlib.sha256(job["content"].encode()).hexdigest()}

    return checksums


async def add(store: Store, content: str) -> str:
    """Add a text to the queue; return its id."""
    id_ = uuid.uuid4().hex
    insert = f"INSERT INTO tabellion_checksums (id, content, created_at) VALUES ($1, $2, {NOW}) RETURNING id"
    await store.database.fetch(insert, id_, content)
    await store.database.wake()
    return id_


async def newest(store: Store) -> list[dict[str, Any]]:
    """Return the last hundred."""
    return await store.database.fetch(
        "SELECT id, status, sha256 FROM tabellion_checksums ORDER BY created_at DESC, id LIMIT 100"
    )


class Checksums(Pipeline):
    """What it adds: a table, a queue, two API routes, a page with a navigation entry, and a command."""

    name = "checksums"
    title = "Checksums"
    commands: Mapping[str, str] = {"checksum": "checksums.pipeline"}

    def schemas(self) -> Sequence[Schema]:
        """One table."""
        return (SCHEMA,)

    def queues(self, config: object, environment: object = None) -> Sequence[Queue]:
        """One queue."""
        return (queue(),)

    def blueprint(self) -> Blueprint:
        """Imported here: a worker needs no web framework."""
        from .routes import BLUEPRINT

        return BLUEPRINT


PIPELINE = Checksums()


def checksum(context: typer.Context, content: Annotated[str, typer.Argument(help="The text.")]) -> None:
    """Put a text in line for its checksum.

    Example: tabellion checksum "some text"
    """
    from tabellion.cli.load import config_of

    async def go() -> str:
        async with config_of(context).environments[0].store() as store:
            await PIPELINE.prepare(store)
            return await add(store, content)

    typer.echo(asyncio.run(go()))
