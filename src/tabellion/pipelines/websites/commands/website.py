"""`tabellion website`: analyses websites here and now, or through the workers that serve the database."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tabellion import extras
from tabellion.cli import output
from tabellion.cli.options import Json
from tabellion.cli.up import load_config
from tabellion.engine import log
from tabellion.messages import LANGUAGES
from tabellion.pipelines.websites.commands.following import Outcome, WebsiteFollower
from tabellion.pipelines.websites.states import JobStatus

if TYPE_CHECKING:
    from tabellion.config import Config

REFUSED, PARTIAL, INTERRUPTED = 5, 6, 130  #: exit codes
LEVELS = {"bad": "✗", "warning": "!", "info": "·", "good": "✓"}


def website(
    context: typer.Context,
    urls: Annotated[
        list[str],
        typer.Argument(help="URLs of websites; https:// is added if the scheme is missing.", metavar="URL"),
    ],
    type: Annotated[  # noqa: A002 - the option's name
        str | None, typer.Option("--type", "-t", help="The analysis type. [default: profile]")
    ] = None,
    model: Annotated[
        list[str] | None, typer.Option("--model", "-m", help="A model to ask; may be repeated. [default: local]")
    ] = None,
    report: Annotated[
        Path | None, typer.Option("--report", "-r", help="Write the report here; a folder if there are several URLs.")
    ] = None,
    language: Annotated[str, typer.Option("--language", "-l", help=f"One of {', '.join(LANGUAGES)}.")] = "en",
    data: Annotated[Path | None, typer.Option("--data", help="The data folder. [default: ./tabellion-data]")] = None,
    json: Json = False,
) -> None:
    """Analyse websites: visit them, build a prompt, ask a model, and write a report.

    Without an API key, built-in rules replace the model. Workers of this database do the work; if there are none,
    this process does, and addresses of this machine are allowed too. A website that is already being analysed is
    followed, not started again. Exit code 0 if all were analysed, 6 if some were not, 5 if none were.

    Examples:

        tabellion website example.com

        tabellion website example.com --type seo --report report.html

        tabellion website a.example b.example --type trust --report reports/ --json
    """
    if language not in LANGUAGES:
        raise typer.BadParameter(f"--language is one of {', '.join(LANGUAGES)}")
    if report is not None and len(urls) > 1 and report.suffix:
        raise typer.BadParameter("several URLs have several reports: name a folder with --report")
    extras.require(f"{extras.SERVICE},websites")
    config = load_config(context, data)
    try:
        outcomes = asyncio.run(_analyse(config, urls, type, model or [], language, report, quiet=json))
    except KeyboardInterrupt:
        logging.getLogger("asyncio").disabled = True  # the terminal has interrupted the browser's driver as well
        typer.echo("stopped; the same command continues where it stopped", err=True)
        raise typer.Exit(INTERRUPTED) from None
    if json:
        output.as_json([outcome.as_dict() for outcome in outcomes])
    bad = sum(outcome.website is None or outcome.website["status"] != JobStatus.COMPLETED for outcome in outcomes)
    if bad:
        raise typer.Exit(REFUSED if bad == len(outcomes) else PARTIAL)


async def _analyse(
    config: Config, urls: list[str], type_name: str | None, models: list[str], language: str, report: Path | None, *,
    quiet: bool,
) -> list[Outcome]:  # fmt: skip
    async with WebsiteFollower(config, urls, type_name, models, language) as following:
        with _Progress(quiet) as progress:
            outcomes = await following.run(progress)
        for outcome in outcomes:
            if report is not None and outcome.website is not None and outcome.website["info"] is not None:
                outcome.report = str(await following.write_report(outcome, report, several=len(urls) > 1))
            if not quiet:
                _print_outcome(outcome, following, language)
    return outcomes


def _print_outcome(outcome: Outcome, following: WebsiteFollower, language: str) -> None:
    if outcome.website is None or outcome.website["status"] != JobStatus.COMPLETED:
        typer.echo(f"{printable(outcome.url)}: {printable(outcome.error)}", err=True)
        return
    report = following.build_report(outcome, language)
    typer.echo(f"{printable(report.name)}  ({printable(report.url)})")
    for analysis in report.analyses:
        if len(report.analyses) > 1:
            typer.echo(f"{analysis.answered_by}:")
        if analysis.error:
            typer.echo(f"  {printable(analysis.error)}")
        if analysis.summary is not None:
            typer.echo(f"  {printable(analysis.summary.value)}")
        for field in analysis.facts:
            values = "; ".join(item.value for item in field.items)
            typer.echo(f"  {field.title}: {printable(values)}")
        for field in analysis.findings:
            for item in field.items:
                typer.echo(f"  {LEVELS[item.level or 'info']} {printable(item.value)}")
    for issue in report.issues:
        typer.echo(f"  note: {printable(issue)}")
    if outcome.report:
        typer.echo(f"report: {outcome.report}")


def printable(text: str) -> str:
    """The text for a terminal; the no-break spaces of French are plain ones there."""
    return log.printable(text.replace("\N{NO-BREAK SPACE}", " "))


class _Progress:
    """The phases of each website on standard error: live lines on a terminal, one line for each change otherwise."""

    def __init__(self, quiet: bool) -> None:
        self._quiet = quiet
        self._status: Any = None
        self._said: dict[str, str] = {}
        self._exit = contextlib.ExitStack()

    def __enter__(self) -> _Progress:
        if not self._quiet and sys.stderr.isatty():
            from rich.console import Console

            self._status = self._exit.enter_context(Console(file=sys.stderr).status(""))
        return self

    def __exit__(self, *exc: object) -> None:
        self._exit.close()

    def __call__(self, url: str, state: str, note: str) -> None:
        """Shows where a website is."""
        self._said[url] = text = f"{printable(url)}: {state}" + (f", {printable(note)}" if note else "")
        if self._status is not None:
            self._status.update("\n".join(self._said.values()))
        elif not self._quiet:
            typer.echo(text, err=True)
