"""`tabellion compact`: one Parquet file a day instead of one a document."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import date

    from tabellion.config import Config
    from tabellion.pipelines.documents.daily import Template


def compact(
    context: typer.Context,
    days: Annotated[
        list[str] | None, typer.Argument(metavar="[DAY…]", help="Days such as 2024-02-29. [default: all before today]")
    ] = None,
    remove: Annotated[
        bool, typer.Option("--remove", help="Remove small files that the files of their days have had for a while.")
    ] = False,
    grace: Annotated[
        float, typer.Option("--grace", min=0, help="How long, in seconds; longer than any query lists files.")
    ] = 600.0,
    lake: Annotated[
        str | None, typer.Option("--lake", help="The folder, or s3://bucket/prefix. [default: as configured]")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Put the Parquet files of each day together, one file for each type; safe to stop, and to run again.

    Small files stay unless --remove is said, and readers that take the newest row of each id (docs/outputs.md has the
    query) never see one twice or miss one. Exit code 6 when some files are none of ours, or a day could not be done.

    Examples:

        tabellion compact

        tabellion compact 2024-02-29 --remove
    """
    import asyncio
    from dataclasses import asdict

    from tabellion.cli import output
    from tabellion.cli.load import config_of
    from tabellion.engine.errors import TabellionError
    from tabellion.pipelines.documents import compact as compacting
    from tabellion.pipelines.documents.lake import Lake

    config = config_of(context)
    wanted = [_day(text) for text in days or []]
    place = Lake(lake or config.lake)
    templates = _templates(config)

    async def run() -> list[compacting.Compacted]:
        chosen = wanted or [day for day in await compacting.days(place, templates) if day < _today()]
        done = []
        for day in chosen:
            try:
                done.append(await compacting.compact(place, day, templates, remove=remove, grace=grace))
            except TabellionError as error:
                if len(chosen) == 1:
                    raise
                done.append(compacting.Compacted(day, strange=[str(error)]))
        return done

    done = asyncio.run(run())
    for one in done:
        for strange in one.strange:
            typer.echo(f"error: {strange}", err=True)
    if json:
        output.as_json([asdict(one) for one in done])
    elif not done:
        typer.echo("there is nothing to put together: no day before today has Parquet files")
    else:
        _show(done, remove)
    if any(one.strange for one in done):
        raise typer.Exit(6)


def _show(done: Sequence[Any], remove: bool) -> None:
    from tabellion.cli import output

    headings = ["day", "documents", "small files", "files written", *(["removed", "kept for now"] if remove else [])]
    rows = [
        [str(one.day), one.rows, one.small, len(one.files), *([one.removed, one.kept] if remove else [])]
        for one in done
    ]
    output.show(output.table("", headings, rows))


def _today() -> date:
    from datetime import UTC, datetime

    return datetime.now(UTC).date()


def _day(text: str) -> date:
    from datetime import date

    try:
        return date.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a day such as 2024-02-29", param_hint="DAY") from None


def _templates(config: Config) -> list[Template]:
    """Where the types there are write their files; a type that is broken has written none that way."""
    from tabellion.engine.errors import ConfigurationError
    from tabellion.pipelines.documents.compact import templates_of
    from tabellion.reading.types import typefile

    texts = []
    for name in typefile.available(config.types):
        try:
            texts.append(typefile.load(name, config.types).output.parquet)
        except ConfigurationError as error:
            typer.echo(f"warning: {str(error).splitlines()[0]}", err=True)
    return templates_of(texts)
