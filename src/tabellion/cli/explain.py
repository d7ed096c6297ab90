"""`tabellion explain`: why a row is not running."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import Annotated

import typer

from tabellion.cli import output
from tabellion.cli.load import config_of, find_environment, find_queue, queues_of
from tabellion.cli.options import Json, Place
from tabellion.engine.explanation import Explanation
from tabellion.engine.log import printable


def explain(
    context: typer.Context,
    queue: Annotated[str, typer.Argument(help="The queue's name.")],
    key: Annotated[str, typer.Argument(help="The row's key.")],
    environment: Place = None,
    json: Json = False,
) -> None:
    """Explain why a row is not running, with its history.

    Example:

        tabellion explain ocr 4711
    """
    config = config_of(context)
    chosen = find_queue(queues_of(context, config), queue)

    async def run() -> Explanation:
        async with find_environment(config, environment).connect() as store:
            return await store.explain(chosen, key)

    explanation = asyncio.run(run())
    if json:
        output.as_json(asdict(explanation))
    else:
        typer.echo(f"{explanation.queue} {explanation.key}: {explanation.state}")
        for sentence in explanation.sentences:
            typer.echo(f"  {printable(sentence)}")
        if explanation.history:
            rows = [
                (attempt["n"], attempt["attempt"], attempt["outcome"] or "live",
                 output.duration(attempt["claimed_ago"]) + " ago", attempt["worker"],
                 (attempt["error"] or attempt["note"] or "")[:200])
                for attempt in explanation.history
            ]  # fmt: skip
            output.show(output.table("", ("n", "attempt", "outcome", "claimed", "worker", "error or note"), rows))
    if explanation.state == "missing":
        raise typer.Exit(5)
