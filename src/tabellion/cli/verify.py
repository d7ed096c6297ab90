"""`tabellion verify`: re-checks the promises of the engine and of pipelines on a live database."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tabellion.cli import PARTIAL, exit_code, output
from tabellion.cli.load import config_of, find_environment, pipelines_of, present, queues_of
from tabellion.engine.log import printable
from tabellion.errors import TabellionError
from tabellion.monitor import verify as checks
from tabellion.monitor.verify import Violation
from tabellion.monitor.view import QueueView

if TYPE_CHECKING:
    from tabellion.config import Config
    from tabellion.engine.environment import Environment
    from tabellion.engine.queue import Queue
    from tabellion.pipeline import Pipeline

SAMPLE = 1000  #: files that are compared with their hashes


def verify(
    context: typer.Context,
    files: Annotated[
        bool, typer.Option("--files", help=f"Also compare files with their hashes: {SAMPLE:,}, chosen at random.")
    ] = False,
    all_files: Annotated[bool, typer.Option("--all-files", help="Compare every file with its hash.")] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Also exit with 6 for notes (findings that manual edits can cause).")
    ] = False,
    environment: Annotated[str | None, typer.Option("--environment", "-e", help="Only this environment.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Verify the invariants of a live database: claims, attempts, rows, files, audit log.

    Nothing is changed, and workers may run meanwhile: what looks wrong is checked three times. Each finding names the
    row and what to do.

    Exits with 6 if there is a violation, or if some environments could not be checked; with 4 if no database answers.

    Examples:

        tabellion verify

        tabellion verify --files --json | jq '.[] | select(.level == "violation")'
    """
    config = config_of(context)
    queues, pipelines = queues_of(context, config), pipelines_of(context, config)
    places = [find_environment(config, environment)] if environment else [present(one) for one in config.environments]
    count = None if all_files else SAMPLE if files else 0
    found: dict[str, list[Violation]] = {place.name: [] for place in places}
    errors: dict[str, TabellionError] = {}
    for place in places:
        try:
            asyncio.run(_verify(config, place, queues, pipelines, count, found[place.name]))
        except TabellionError as error:
            errors[place.name] = error
    everything = [one for violations in found.values() for one in violations]
    nothing = not everything and len(errors) == len(places)
    if json:
        output.as_json(_list_findings(found, errors))
    if nothing and len(places) == 1:
        raise errors[places[0].name]
    for name, why in errors.items():
        typer.echo(f"{name}: {why}", err=True)
    if not json:
        _show(found, bool(errors))
    if nothing:
        raise typer.Exit(exit_code(errors[places[-1].name]))
    if errors or any(strict or one.level == "violation" for one in everything):
        raise typer.Exit(PARTIAL)


async def _verify(
    config: Config,
    place: Environment,
    queues: Sequence[Queue],
    pipelines: Sequence[Pipeline],
    files: int | None,
    found: list[Violation],
) -> None:
    """Adds what it finds to `found`, which has it also if a later check fails."""
    store = place.store(read_only=True)
    try:
        await store.open()
        views = {queue.name: QueueView(queue) for queue in queues}
        views |= {view.name: view for pipeline in pipelines for view in pipeline.views(config, place)}
        found += await checks.verify(store, list(views.values()))
        for pipeline in pipelines:
            if await pipeline.is_present(store):
                found += await pipeline.verify(config, place, store, files=files)
    finally:
        await store.close()


def _list_findings(found: dict[str, list[Violation]], errors: dict[str, TabellionError]) -> list[dict[str, Any]]:
    findings = [
        {"environment": name, "level": one.level} | asdict(one)
        for name, violations in found.items()
        for one in violations
    ]
    unchecked = {"level": "error", "kind": "unchecked", "where": "", "fix": ""}
    return findings + [{"environment": name} | unchecked | {"what": str(error)} for name, error in errors.items()]


def _show(found: dict[str, list[Violation]], partial: bool) -> None:
    for name, violations in found.items():
        for one in violations:
            typer.echo(f"{one.level:<10} {name}: {printable(one.where)}: {printable(one.what)}")
            typer.echo(f"           fix: {printable(one.fix)}")
    everything = [one for violations in found.values() for one in violations]
    broken = sum(one.level == "violation" for one in everything)
    notes = len(everything) - broken
    counts = f"{broken:,} violation{'s' * (broken != 1)}, {notes:,} note{'s' * (notes != 1)}"
    alike = Counter((name, one.kind, one.where.partition("/")[0]) for name, ones in found.items() for one in ones)
    if max(alike.values(), default=0) >= checks.MOST:
        counts += f"; there may be more: at most {checks.MOST:,} of a kind are shown for each queue"
    typer.echo((counts if everything else "no violations found") + "; not everything could be checked" * partial)
