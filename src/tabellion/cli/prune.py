"""`tabellion prune`: removes at once what is older than the configuration allows."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tabellion.cli import DATABASE, PARTIAL, output
from tabellion.cli.load import config_of, find_environment, pipelines_of, present, queues_of
from tabellion.engine.retention import TURN, PruneStep, RetentionRule, prune_all
from tabellion.errors import Forbidden, StoreError
from tabellion.retention import rules_of

if TYPE_CHECKING:
    from tabellion.engine.environment import Environment

INTERRUPTED = 130  #: the exit code after Ctrl-C


def prune(
    context: typer.Context,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be removed.")] = False,
    environment: Annotated[str | None, typer.Option("--environment", "-e", help="Only this environment.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Remove what is older than `[retention]` allows: attempts, memos, deliveries, documents, …

    Workers do the same continuously, a little at a time. Live data and the audit log are never removed. Ctrl-C stops
    it between two steps; what it has removed by then stays removed.

    The numbers of a dry run are minimums: rows that are kept only because of rows that would be removed do not count.

    Exits with 4 if no database could be pruned, 6 if some could not.

    Examples:

        tabellion prune --dry-run

        tabellion prune --environment prod --json
    """
    config = config_of(context)
    queues, pipelines = queues_of(context, config), pipelines_of(context, config)
    places = [find_environment(config, environment)] if environment else [present(one) for one in config.environments]
    rows: list[dict[str, Any]] = []
    errors: list[str] = []
    interrupted = False
    for place in places:
        rules = rules_of(config, pipelines, queues, place)
        results: dict[str, PruneStep] = {}
        try:
            asyncio.run(_prune(place, rules, results, dry_run))
        except KeyboardInterrupt:
            interrupted = True
        except StoreError as error:
            if len(places) == 1:
                raise
            errors.append(place.name)
            typer.echo(f"{place.name}: {error}", err=True)
        rows += [_describe(place, rule, results.get(rule.name, PruneStep()), dry_run) for rule in rules]
        if interrupted:
            break
    if json:
        output.as_json(rows)
    else:
        _show(rows, dry_run, len(places) > 1)
    if interrupted:
        typer.echo(
            "stopped before the end: what was removed stays removed, and the rest is removed next time", err=True
        )
        raise typer.Exit(INTERRUPTED)
    if errors:
        raise typer.Exit(DATABASE if len(errors) == len(places) else PARTIAL)


async def _prune(
    place: Environment, rules: Sequence[RetentionRule], results: dict[str, PruneStep], dry_run: bool
) -> None:
    """Applies the rules; `results` has what was removed also if it is interrupted."""
    store = place.store(read_only=dry_run)
    try:
        await store.open()
        with output.Bar("") as bar:

            def report(rule: RetentionRule, total: PruneStep) -> None:
                results[rule.name] = total
                bar.restart(f"{rule.name}: {total.removed:,}")

            def report_waiting(rule: RetentionRule) -> None:
                typer.echo(
                    f"{rule.name}: waiting for another process that removes them; if it was killed, for {TURN:g} s",
                    err=True,
                )

            worker = f"prune-{socket.gethostname()}-{os.getpid()}"
            await prune_all(store, rules, worker, dry_run=dry_run, report=report, waiting=report_waiting)
    except Forbidden as error:
        raise Forbidden(f"{error}; GRANT DELETE on this table to the role, or run this as another one") from error
    finally:
        await store.close()


def _describe(place: Environment, rule: RetentionRule, total: PruneStep, dry_run: bool) -> dict[str, Any]:
    return {
        "environment": place.name, "rule": rule.name, "keep_seconds": rule.keep, "removed": total.removed,
        "oldest_seconds": total.oldest, "dry_run": dry_run,
    }  # fmt: skip


def _show(rows: Sequence[dict[str, Any]], dry_run: bool, several: bool) -> None:
    headings = ["environment"] * several + ["rule", "kept for", "would be removed" if dry_run else "removed", "oldest"]
    cells = [
        [row["environment"]] * several
        + [
            row["rule"],
            "always" if row["keep_seconds"] is None else output.duration(row["keep_seconds"]),
            row["removed"],
            output.duration(row["oldest_seconds"]),
        ]
        for row in rows
    ]
    output.show(output.table("", headings, cells))
    if dry_run and any(row["removed"] for row in rows):
        typer.echo("these numbers are minimums: rows that are kept only because of these are removed with them")
    if all(row["keep_seconds"] is None for row in rows):
        typer.echo('nothing is removed: set times in the configuration, e.g. [retention] attempts = "90d"')
