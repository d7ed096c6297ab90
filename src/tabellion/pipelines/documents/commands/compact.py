"""`tabellion compact`: one Parquet file a day instead of one a document."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tabellion.cli import output
from tabellion.cli.load import config_of, find_environment
from tabellion.cli.options import Json, OnlyPlaces
from tabellion.errors import ConfigurationError, TabellionError
from tabellion.pipelines.documents import compact as compacting
from tabellion.pipelines.documents import tables
from tabellion.pipelines.documents.compact import templates_of
from tabellion.pipelines.documents.output_pointers import point_with
from tabellion.pipelines.documents.settings import settings_of
from tabellion.reading.types import typefile
from tabellion.storage.lake import Lake

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tabellion.cli.output import Bar
    from tabellion.config import Config
    from tabellion.engine.environment import Environment
    from tabellion.engine.store import Store
    from tabellion.pipelines.documents.daily import Template
    from tabellion.pipelines.documents.output_pointers import Point


def compact(
    context: typer.Context,
    days: Annotated[
        list[str] | None,
        typer.Argument(metavar="DAY", help="Days, e.g. 2024-02-29. [default: every day before today]"),
    ] = None,
    remove: Annotated[
        bool,
        typer.Option("--remove", help="Remove the small files once their day's file has contained them for a while."),
    ] = False,
    grace: Annotated[
        float, typer.Option("--grace", min=0, help="Seconds to keep them; longer than any query takes to list files.")
    ] = 600.0,
    lake: Annotated[
        str | None, typer.Option("--lake", help="The folder, or s3://bucket/prefix. [default: as configured]")
    ] = None,
    environment: OnlyPlaces = None,
    json: Json = False,
) -> None:
    """Merge each day's Parquet files into one file per type; safe to interrupt and repeat.

    Small files stay unless you use --remove. Readers that take the newest row of each id (docs/how-to/outputs.md has
    the query) never see a row twice or miss one. Documents point to the daily file before their own file is removed.
    Exit code 6 if some files were not written by tabellion, or a day failed.

    Examples:

        tabellion compact

        tabellion compact 2024-02-29 --remove
    """
    config = config_of(context)
    only = [_day(text) for text in days or []]
    places = [find_environment(config, name, new=True) for name in environment or []] or list(config.environments)
    if lake is not None:
        places = places[:1]
    with output.Bar("compacting") as bar:
        done = asyncio.run(_compact_days(config, places, only, lake, bar, remove=remove, grace=grace))
    for result in done:
        for message in result["strange"]:
            typer.echo(f"error: {message}", err=True)
    if json:
        output.as_json(done)
    elif not done:
        typer.echo("nothing to compact: no day before today has Parquet files")
    else:
        _show(done, remove, named=len(places) > 1)
    if any(result["strange"] for result in done):
        raise typer.Exit(6)


async def _compact_days(
    config: Config, places: Sequence[Environment], only: Sequence[date], url: str | None, bar: Bar, *, remove: bool,
    grace: float,
) -> list[dict[str, Any]]:  # fmt: skip
    """The result of each day of each environment; if one fails, its error is reported and the others continue."""
    templates = _templates(config)
    done: list[dict[str, Any]] = []
    for place in places:
        lake = Lake(url) if url is not None else settings_of(config, place).lake
        today = datetime.now(UTC).date()
        selected = list(only) or [day for day in await compacting.days(lake, templates) if day < today]
        async with place.connect(read_only=False) as store:
            for day in selected:
                bar.restart(f"{place.name} {day}" if len(places) > 1 else str(day))
                try:
                    result = await compacting.compact(
                        lake, day, templates, remove=remove, grace=grace, progress=bar, point=await _point(place, store)
                    )
                except TabellionError as error:
                    if len(selected) == len(places) == 1:
                        raise
                    result = compacting.Compacted(day, strange=[str(error)])
                done.append({"environment": place.name} | asdict(result))
    return done


async def _point(place: Environment, store: Store) -> Point | None:
    """The function that updates the paths of documents of an environment; None if it has no documents."""
    if place.missing_file() is not None:
        return None
    await store.database.open()
    if await tables.SCHEMA.version(store.database) == 0:
        return None
    return point_with(store.database.fetch, store.dialect)


def _show(done: Sequence[dict[str, Any]], remove: bool, *, named: bool) -> None:
    headings = ["day", "documents", "small files", "files written", *(["removed", "kept for now"] if remove else [])]
    rows = [
        [
            *([result["environment"]] if named else []), str(result["day"]), result["rows"], result["small"],
            len(result["files"]), *([result["removed"], result["kept"]] if remove else []),
        ]
        for result in done
    ]  # fmt: skip
    output.show(output.table("", [*(["environment"] if named else []), *headings], rows))


def _day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a day such as 2024-02-29", param_hint="DAY") from None


def _templates(config: Config) -> list[Template]:
    """The path templates of all types; a broken type has written no files."""
    texts = []
    for name in typefile.available(config.types):
        try:
            texts.append(typefile.load(name, config.types).output.parquet)
        except ConfigurationError as error:
            typer.echo(f"warning: {str(error).splitlines()[0]}", err=True)
    return templates_of(texts)
