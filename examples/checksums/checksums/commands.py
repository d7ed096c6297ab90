"""`tabellion checksum`."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from tabellion.accounts import audit
from tabellion.cli.load import config_of

from .pipeline import PIPELINE
from .texts import add_text


def checksum(context: typer.Context, content: Annotated[str, typer.Argument(help="The text.")]) -> None:
    """Queue a text for its checksum.

    Example: tabellion checksum "some text"
    """

    async def go() -> str:
        async with config_of(context).environments[0].store() as store:
            await PIPELINE.prepare(store)
            return await add_text(store, content, audit.COMMAND)

    typer.echo(asyncio.run(go()))
