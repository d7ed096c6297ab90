"""`tabellion export`: the documents of a range as CSV, JSON Lines or Parquet."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tabellion.cli import output
from tabellion.cli.load import config_of, find_environment
from tabellion.cli.options import Place
from tabellion.errors import ConfigurationError
from tabellion.pipelines.documents import export as exporting
from tabellion.pipelines.documents.export import Range, moment_of
from tabellion.pipelines.documents.export_formats import FORMATS as KNOWN
from tabellion.pipelines.documents.export_formats import ToFile, ToStream
from tabellion.pipelines.documents.pipeline import PIPELINE
from tabellion.reading.types import typefile
from tabellion.reading.types.doctype import DocumentType

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tabellion.pipelines.documents.export import Types

FORMATS = {".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet"}


def export(
    context: typer.Context,
    since: Annotated[str | None, typer.Option(help="From this day or time (UTC), e.g. 2024-02-01.")] = None,
    until: Annotated[str | None, typer.Option(help="Until this day (inclusive) or time (exclusive), in UTC.")] = None,
    type: Annotated[  # noqa: A002 - the option's name
        list[str] | None, typer.Option("--type", "-t", help="Only documents of this type; may be repeated.")
    ] = None,
    status: Annotated[
        list[str] | None, typer.Option("--status", help="Only this status; may be repeated. [default: completed]")
    ] = None,
    review: Annotated[
        list[str] | None,
        typer.Option(help="Only this review state: none, pending, approved, corrected, rejected; may be repeated."),
    ] = None,
    format: Annotated[  # noqa: A002 - the option's name
        str | None,
        typer.Option(
            "--format", "-f", help="csv, jsonl or parquet. [default: from the extension of --out, otherwise csv]"
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Write to this file, whole or not at all.")] = None,
    environment: Place = None,
    json: Annotated[bool, typer.Option("--json", help="With --out: print what was written as JSON.")] = False,
) -> None:
    """Export documents as CSV, JSON Lines or Parquet, corrections included.

    CSV has one row per document and is safe to open in a spreadsheet: no cell is a formula. Exit code 6 if some rows
    could not be exported.

    Examples:

        tabellion export --since 2024-02-01 --until 2024-02-29 -o february.csv

        tabellion export --type invoice --format parquet -o invoices.parquet

        tabellion export --review none --review approved --review corrected -o good.csv

        tabellion export --format jsonl | jq .fields.total.value
    """
    config = config_of(context)
    chosen = _format(format, out)
    if json and out is None:
        raise typer.BadParameter("standard output is used for the documents: use --out FILE", param_hint="--json")
    if chosen == "parquet" and out is None and sys.stdout.isatty():
        raise typer.BadParameter(
            "Parquet cannot be written to a terminal: use --out FILE, or redirect the output", param_hint="--format"
        )
    selection = _range(since, until, type or [], status or [], review or [])
    place = find_environment(config, environment)
    asyncio.run(PIPELINE.require(place))

    async def run(target: Any) -> exporting.Exported:
        async with place.connect(read_only=False) as store:
            with output.Bar("exporting") as progress:
                return await exporting.export(
                    store, chosen, target, types=_types(config.types), range=selection, progress=progress  # type: ignore[arg-type]
                )  # fmt: skip

    target = ToFile(out) if out is not None else ToStream(sys.stdout.buffer)
    try:
        done = asyncio.run(run(target))
    except BrokenPipeError:  # the reader has closed the pipe
        _mute()
        return
    for mishap in done.mishaps:
        typer.echo(f"error: {mishap}", err=True)
    if out is not None:
        summary = {
            "file": str(out), "format": chosen, "documents": done.documents, "failed": done.failed,
            "bytes": target.bytes, "sha256": getattr(target, "sha256", None),
        }  # fmt: skip
        if json:
            output.as_json(summary)
        else:
            noun = "document" if done.documents == 1 else "documents"
            typer.echo(f"{out}: {done.documents:,} {noun}, {target.bytes:,} bytes")
    if done.failed:
        raise typer.Exit(6)


def _format(requested: str | None, out: Path | None) -> str:
    if requested is None:
        return FORMATS.get(out.suffix.lower(), "csv") if out is not None else "csv"
    if requested not in KNOWN:
        raise typer.BadParameter(f"{requested!r} is not one of {', '.join(KNOWN)}", param_hint="--format")
    return requested


def _range(
    since: str | None, until: str | None, types: Sequence[str], statuses: Sequence[str], reviews: Sequence[str]
) -> Range:
    try:
        selection = Range(
            None if since is None else moment_of(since), None if until is None else moment_of(until, end=True),
            tuple(types), tuple(statuses) or ("completed",), tuple(reviews),
        )  # fmt: skip
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    if selection.since is not None and selection.until is not None and selection.since >= selection.until:
        raise typer.BadParameter(f"--since {since} is not before --until {until}: the range is empty")
    return selection


def _types(folders: Sequence[Path]) -> Types:
    """A function that loads types by name; columns of a missing or broken type are written as text."""

    def find(name: str) -> DocumentType | None:
        try:
            return typefile.load(name, folders) if "/" not in name else None
        except ConfigurationError as error:
            typer.echo(f"warning: {str(error).splitlines()[0]}; its fields are written as text", err=True)
            return None

    return find


def _mute() -> None:
    """Keeps Python from complaining about the closed pipe when it exits."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
