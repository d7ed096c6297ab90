"""What commands print: tables for people, JSON for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

import typer

from tabellion.monitor.log import printable


def as_json(value: Any) -> None:
    """One JSON document on standard output."""
    typer.echo(json.dumps(value, ensure_ascii=False, indent=2, default=str))


def table(title: str, headings: Sequence[str], rows: Sequence[Sequence[Any]], whole: Sequence[str] = ()) -> Any:
    """A table for the terminal; numbers stand right, texts are made safe to show.

    Columns in `whole` are never broken over lines: people copy what stands in them.
    """
    from rich import box
    from rich.table import Table
    from rich.text import Text

    shown = Table(
        title=title or None, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False,
        collapse_padding=True,
    )  # fmt: skip
    for place, heading in enumerate(headings):
        numeric = bool(rows) and all(isinstance(row[place], int | float) or row[place] in ("", None) for row in rows)
        justify: Any = "right" if numeric else "left"
        shown.add_column(heading, justify=justify, overflow="fold", no_wrap=heading in whole)
    for row in rows:
        shown.add_row(*(Text(_cell(value)) for value in row))
    return shown


def show(*parts: Any) -> None:
    """Prints tables and texts."""
    from rich.console import Console

    console = Console(file=sys.stdout, highlight=False)
    for part in parts:
        console.print(part)


def duration(seconds: float | None) -> str:
    """Seconds as people read them in a table."""
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
