"""`tabellion sla`: whether the targets of the configuration are kept, measured now."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import typer

from tabellion.cli import DATABASE, PARTIAL, output
from tabellion.cli.load import config_of, find_environment, pipelines_of, present, queues_of
from tabellion.cli.options import Json, OnlyPlace
from tabellion.errors import StoreError
from tabellion.monitor.sla.alerts import format_value
from tabellion.monitor.sla.compliance import measure_all
from tabellion.sla import find_unchecked, targets_of, views_of

if TYPE_CHECKING:
    from tabellion.engine.environment import Environment
    from tabellion.monitor.sla.compliance import TargetPicture
    from tabellion.monitor.sla.target import Target


def sla(context: typer.Context, environment: OnlyPlace = None, json: Json = False) -> None:
    """Check the targets of `[sla]` now.

    Exits with 6 if a target is missed or breached, or cannot be measured; with 4 if no database answers.

    Examples:

        tabellion sla

        tabellion sla --environment prod --json | jq '.[] | select(.kept == false)'
    """
    config = config_of(context)
    queues, pipelines = queues_of(context, config), pipelines_of(context, config)
    places = [find_environment(config, environment)] if environment else [present(one) for one in config.environments]
    rows: list[dict[str, Any]] = []
    unchecked: list[str] = []
    down = 0
    for place in places:
        views = views_of(config, pipelines, queues, place)
        targets = targets_of(config, pipelines, views, place)
        unchecked = find_unchecked(config, pipelines, views)
        try:
            rows += [{"environment": place.name, **picture} for picture in asyncio.run(_measure(place, targets))]
        except StoreError as error:
            if len(places) == 1:
                raise
            down += 1
            typer.echo(f"{place.name}: {error}", err=True)
    if json:
        output.as_json(rows)
    else:
        _show(rows, unchecked, several=len(places) > 1)
    if unchecked:
        typer.echo(f"not checked: {', '.join(unchecked)}; name their pipeline, e.g. --with documents", err=True)
    if down == len(places):
        raise typer.Exit(DATABASE)
    if down or any(row["kept"] is not True or row["state"] == "breached" for row in rows):
        raise typer.Exit(PARTIAL)


async def _measure(place: Environment, targets: Sequence[Target]) -> list[TargetPicture]:
    store = place.store(read_only=True)
    try:
        await store.open()
        return await measure_all(store, targets)
    finally:
        await store.close()


def _show(rows: Sequence[dict[str, Any]], unchecked: Sequence[str], *, several: bool) -> None:
    if not rows and unchecked:
        return
    if not rows:
        typer.echo('there are no targets: set some in the configuration, e.g. [sla.queues.documents] oldest = "15m"')
        return
    headings = ["environment"] * several + ["target", "value", "limit", "now", "state", ""]
    cells = [
        [row["environment"]] * several
        + [
            row["target"], _with_unit(row["value"], row["unit"]),
            f"{'≥' if row['least'] else '≤'} {_with_unit(row['limit'], row['unit'])}",
            {True: "kept", False: "missed", None: "unknown"}[row["kept"]], row["state"], row["problem"],
        ]
        for row in rows
    ]  # fmt: skip
    output.show(output.table("", headings, cells))


def _with_unit(value: float | None, unit: str) -> str:
    return format_value(value, unit) + (" %" if unit == "share" and value is not None else "")
