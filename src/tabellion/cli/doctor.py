"""`tabellion doctor`: checks declarations, tables and databases, and prints problems with their fix."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import typer
from rich.console import Console
from rich.text import Text

from tabellion.cli import output, pipeline_tables
from tabellion.cli.load import config_of, find_environment, pipelines_of, queues_of
from tabellion.cli.options import Json, OnlyPlace
from tabellion.engine.environment import Environment
from tabellion.engine.log import printable
from tabellion.engine.queue import Queue, check_together
from tabellion.errors import DeclarationError, StoreError
from tabellion.monitor import doctor as examination
from tabellion.monitor.broker import examine_broker
from tabellion.monitor.doctor import CheckLevel, Finding
from tabellion.monitor.machine import examine_machine
from tabellion.monitor.storages import examine_storages
from tabellion.pipeline import Pipeline

MARKS = {"ok": ("ok", "green"), "note": ("note", "cyan"), "warning": ("warning", "yellow"), "error": ("error", "red")}


def doctor(
    context: typer.Context,
    environment: OnlyPlace = None,
    json: Json = False,
) -> None:
    """Check declarations, tables, states, indexes, databases and this machine; print problems and how to fix them.

    Each state transition is tested on one row in a transaction that is rolled back. It also checks the free disk
    space, whether other users of the machine can read files with secrets, and whether buckets of files answer.

    Exits with 3 if a declaration cannot work in any environment or there is no folder for temporary files, and with 4
    if a database, the broker or a bucket does not answer.

    Examples:

        tabellion doctor

        tabellion doctor --json | jq '.[] | select(.level == "error")'
    """
    config = config_of(context)
    pipelines = pipelines_of(context, config)
    findings: list[Finding] = []
    queues: list[Queue] = []
    try:
        queues = queues_of(context, config, together=False)
        check_together(queues)
    except DeclarationError as error:
        findings += [Finding("error", error.subject, problem.what, problem.fix) for problem in error.problems]
    broken = bool(findings)
    for place in [find_environment(config, environment, new=True)] if environment else config.environments:
        findings += asyncio.run(_examine(place, queues, pipelines))
    if config.broker is not None:
        findings.append(examine_broker(config.broker))
    findings += examine_storages({"blobs": config.blobs, "lake": config.lake})
    findings = examination.tolerate_skipped(findings)
    databases = _sqlite_files(config.environments)
    findings += examine_machine(config.file, config.data, config.lake, databases, config.blobs)
    if json:
        output.as_json([asdict(finding) for finding in findings])
    else:
        _show(findings)
    errors = [finding for finding in findings if finding.level == "error"]
    if broken or any(": " in finding.where or finding.where == "machine" for finding in errors):
        raise typer.Exit(3)
    if errors:
        raise typer.Exit(4)


def _sqlite_files(environments: Sequence[Environment]) -> list[Path]:
    """The existing SQLite files of these environments."""
    urls = [place.url for place in environments if place.url.startswith("sqlite") and not place.missing_file()]
    paths = [url.partition("://")[2].removeprefix("/") for url in urls]
    return [Path(path) for path in paths if path and path != ":memory:"]


async def _examine(place: Environment, queues: Sequence[Queue], pipelines: Sequence[Pipeline]) -> list[Finding]:
    found: list[Pipeline] = []
    if not place.missing_file():
        for pipeline in pipelines:
            with contextlib.suppress(StoreError):
                await pipeline.require(place)
                found.append(pipeline)
    command = f"tabellion migrate {' '.join(f'--with {pipeline.name}' for pipeline in pipelines)}"
    created: dict[str, tuple[CheckLevel, str]] = {}
    for table in pipeline_tables.tables_of(pipelines):
        by_worker = table in pipeline_tables.tables_of(found)
        created[table] = ("note", f"a worker creates it, or `{command}`") if by_worker else ("error", command)
    return await examination.examine(place, queues, created)


def _show(findings: list) -> None:  # type: ignore[type-arg]
    console = Console(highlight=False)
    for finding in findings:
        word, colour = MARKS[finding.level]
        line = Text.assemble((f"{word:<8}", colour), (f"{finding.where}  ", "bold"), printable(finding.what))
        console.print(line, soft_wrap=True)
        if finding.fix:
            console.print(Text(f"        fix: {printable(finding.fix)}", "dim"), soft_wrap=True)
    worst = [finding for finding in findings if finding.level in ("error", "warning")]
    console.print(f"\n{len(worst)} need attention, {len(findings) - len(worst)} ok" if worst else "\nno problems found")
