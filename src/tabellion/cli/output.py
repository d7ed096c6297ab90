"""The output of commands: tables for people, JSON for programs."""

from __future__ import annotations

import json as json_module
import sys
from collections.abc import Sequence
from typing import Any, Self

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tabellion.engine.log import printable


def as_json(value: Any) -> None:
    """One JSON document on standard output."""
    typer.echo(json_module.dumps(value, ensure_ascii=False, indent=2, default=str))


def print_result(json: bool, value: Any, sentence: str) -> None:
    """What a command has done: as JSON, or as a sentence if there is one."""
    if json:
        as_json(value)
    elif sentence:
        typer.echo(sentence)


def table(title: str, headings: Sequence[str], rows: Sequence[Sequence[Any]], whole: Sequence[str] = ()) -> Any:
    """A table for the terminal; numbers are aligned right, texts are made safe to print.

    Columns in `whole` are never wrapped: people copy their values.
    """
    result = Table(
        title=title or None, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False,
        collapse_padding=True, show_header=any(headings),
    )  # fmt: skip
    for index, heading in enumerate(headings):
        numeric = bool(rows) and all(isinstance(row[index], int | float) or row[index] in ("", None) for row in rows)
        justify: Any = "right" if numeric else "left"
        result.add_column(heading, justify=justify, overflow="fold", no_wrap=heading in whole)
    for row in rows:
        result.add_row(*(Text(_cell(value)) for value in row))
    return result


def show(*parts: Any) -> None:
    """Prints tables and texts."""
    console = Console(file=sys.stdout, highlight=False)
    for part in parts:
        console.print(part)


def duration(seconds: float | None) -> str:
    """Seconds as a short text."""
    if seconds is None:
        return ""
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "m")):
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{max(seconds, 0):.1f} s"


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else printable(str(value))


class Bar:
    """A progress bar on standard error if that is a terminal; else nothing."""

    def __init__(self, description: str) -> None:
        self._bar: Any = None
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

            columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
            self._bar = Progress(*columns, console=Console(file=sys.stderr), transient=True)
            self._task = self._bar.add_task(description, total=None)

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, *exc: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, done: int, count: int) -> None:
        """Shows that `done` of `count` are done."""
        if self._bar is not None:
            self._bar.update(self._task, completed=done, total=count)

    def restart(self, description: str) -> None:
        """Starts again with another description."""
        if self._bar is not None:
            self._bar.update(self._task, description=description, completed=0, total=None)
