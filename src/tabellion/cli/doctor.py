"""`tabellion doctor`: checks declarations, tables and databases, and prints problems with their fix."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from tabellion.cli import output
from tabellion.cli.load import config_of, find_environment, queues_of
from tabellion.engine.log import printable
from tabellion.engine.queue import Queue, check_together
from tabellion.errors import DeclarationError
from tabellion.monitor import doctor as examination
from tabellion.monitor.doctor import Finding

MARKS = {"ok": ("ok", "green"), "note": ("note", "cyan"), "warning": ("warning", "yellow"), "error": ("error", "red")}


def doctor(
    context: typer.Context,
    environment: Annotated[str | None, typer.Option("--environment", "-e", help="Only this environment.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Check declarations, tables, states, indexes and databases; print problems and how to fix them.

    Every change of state is tried on one row in a transaction that is rolled back.

    Exits with 3 when a declaration cannot work in any environment, 4 when a database does not answer.

    Examples:

        tabellion doctor

        tabellion doctor --json | jq '.[] | select(.level == "error")'
    """

    config = config_of(context)
    findings: list[Finding] = []
    queues: list[Queue] = []
    try:
        queues = queues_of(context, config, together=False)
        check_together(queues)
    except DeclarationError as error:
        findings += examination.findings_from_error(error)
    broken = bool(findings)
    for place in [find_environment(config, environment, new=True)] if environment else config.environments:
        findings += asyncio.run(examination.examine(place, queues))
    findings = examination.tolerate_skipped(findings)
    if json:
        output.as_json([asdict(finding) for finding in findings])
    else:
        _show(findings)
    errors = [finding for finding in findings if finding.level == "error"]
    if broken or any(": " in finding.where for finding in errors):
        raise typer.Exit(3)
    if errors:
        raise typer.Exit(4)


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
