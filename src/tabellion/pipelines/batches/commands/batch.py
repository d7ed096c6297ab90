"""`tabellion batch`: submits a batch from a JSONL file and follows it until it has ended."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tabellion import extras
from tabellion.cli import output
from tabellion.cli.up import load_config
from tabellion.engine.log import printable
from tabellion.pipelines.batches.states import BatchStatus

if TYPE_CHECKING:
    from tabellion.pipelines.batches.commands.following import BatchFollower
    from tabellion.pipelines.batches.failures import RefError
    from tabellion.pipelines.batches.lookup import Batch

REFUSED, PARTIAL, INTERRUPTED = 5, 6, 130  #: exit codes
PIECE = 1 << 20  #: bytes of the file that are read at once
SHOWN_ERRORS = 10
EVERY = 5.0  #: seconds between two lines of progress where there is no terminal


def batch(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="One entity with its refs on each line; - for standard input.")],
    id: Annotated[  # noqa: A002 - the option's name
        str | None, typer.Option("--id", help="The id of the batch. [default: derived from its content]")
    ] = None,
    chunk_size: Annotated[int | None, typer.Option(min=1, max=1000, help="Entities of a chunk. [default: 10]")] = None,
    callback_url: Annotated[str | None, typer.Option(help="Where the result of each chunk is sent.")] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue a batch that exists; chunks with failures are started again.")
    ] = False,
    wait: Annotated[bool, typer.Option(help="Follow the batch until it has ended.")] = True,
    data: Annotated[Path | None, typer.Option("--data", help="The data folder. [default: ./tabellion-data]")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Submit a batch of entities with image refs, and follow it until it has ended.

    Each line is an entity: {"pi": …, "current_tip": …, "refs": [{"filename": …, "staging_key": …, "cdn_url": …}]}.
    Where workers serve the database, they do the work; otherwise it is done in this process. Ctrl-C loses
    nothing: the same command with --resume continues. Exit code 0 if every ref has a result, 6 if some do not, 5 if
    the file cannot be accepted.

    Examples:

        tabellion batch pis.jsonl

        tabellion batch pis.jsonl --id scans-2026-11 --callback-url https://orchestrator.example/callback/scans/ocr

        tabellion batch pis.jsonl --resume --json
    """
    extras.require(extras.SERVICE)
    from tabellion.pipelines.batches.commands.following import BatchFollower, BatchRefused

    config = load_config(context, data)
    try:
        with _opened(file) as stream:
            following = BatchFollower(config, stream, id, chunk_size, callback_url)
            found, errors, undelivered = asyncio.run(_run(following, resume=resume, wait=wait, quiet=json))
    except BatchRefused as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(REFUSED) from None
    except KeyboardInterrupt:
        typer.echo("stopped; the same command with --resume continues", err=True)
        raise typer.Exit(INTERRUPTED) from None
    if json:
        output.as_json({**found, "errors": errors, "undelivered_callbacks": undelivered})
    else:
        _print_batch(found, errors, waited=wait)
    if wait and undelivered:
        told = f"{_count(undelivered, 'callback')} not delivered yet: workers of this database deliver them"
        typer.echo(f"{told} (tabellion worker --with batches)", err=True)
    if wait and found["status"] == BatchStatus.INCOMPLETE:
        raise typer.Exit(PARTIAL)


async def _run(following: BatchFollower, *, resume: bool, wait: bool, quiet: bool) -> tuple[Batch, list[RefError], int]:
    async with following:
        await following.submit(resume=resume)
        if wait:
            with _Progress(quiet) as progress:
                await following.follow(progress)
        return await following.result()


@contextlib.contextmanager
def _opened(file: Path) -> Any:
    if str(file) == "-":
        yield read_pieces(sys.stdin.buffer)
        return
    try:
        with file.open("rb") as opened:
            yield read_pieces(opened)
    except OSError as error:
        typer.echo(f"{file}: {error.strerror}", err=True)
        raise typer.Exit(REFUSED) from None


async def read_pieces(file: Any) -> AsyncIterator[bytes]:
    """The content of a file in pieces, read in a thread."""
    while piece := await asyncio.to_thread(file.read, PIECE):
        yield piece


def _print_batch(found: Batch, errors: list[RefError], *, waited: bool) -> None:
    progress = found["progress"]
    if not waited:
        chunks, refs = _count(found["total_chunks"], "chunk"), _count(progress["total_refs"], "ref")
        typer.echo(f"{found['id']}: {chunks}, {refs} submitted")
        return
    skipped = f" ({found['skipped']} skipped)" if found["skipped"] else ""
    typer.echo(
        f"{found['id']}: {found['status']}; {progress['completed']} of {progress['total_refs']} refs{skipped}, "
        f"{progress['failed']} failed, {_count(found['total_chunks'], 'chunk')}"
    )
    for error in errors[:SHOWN_ERRORS]:
        example = error["examples"][0]["filename"] if error["examples"] else ""
        typer.echo(f"  {error['refs']} × {printable(error['error'])} (e.g. {printable(example)})")
    if errors:
        typer.echo("  read them again: the same command with --resume")


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


class _Progress:
    """A progress bar of refs on standard error; without a terminal, a line every few seconds."""

    def __init__(self, quiet: bool) -> None:
        self._quiet = quiet
        self._bar: Any = None
        self._task: Any = None
        self._told: tuple[float, str] = (0.0, "")
        self._exit = contextlib.ExitStack()

    def __enter__(self) -> _Progress:
        if not self._quiet and sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

            columns = (
                TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(),
                TextColumn("{task.fields[failed]}"), TimeRemainingColumn(),
            )  # fmt: skip
            self._bar = self._exit.enter_context(Progress(*columns, console=Console(file=sys.stderr)))
        return self

    def __exit__(self, *exc: object) -> None:
        self._exit.close()

    def __call__(self, found: Batch) -> None:
        """Shows how far the batch is."""
        progress = found["progress"]
        ended = progress["completed"] + progress["failed"]
        failed = f"{progress['failed']} failed" if progress["failed"] else ""
        if self._bar is not None:
            if self._task is None:
                self._task = self._bar.add_task(found["id"], total=progress["total_refs"], failed=failed)
            self._bar.update(self._task, completed=ended, failed=failed)
            return
        line = f"{found['id']}: {ended} of {progress['total_refs']} refs" + (f", {failed}" if failed else "")
        is_over = ended == progress["total_refs"]
        told_at, before = self._told
        if not self._quiet and (time.monotonic() - told_at >= EVERY or (is_over and line != before)):
            self._told = time.monotonic(), line
            typer.echo(line, err=True)
