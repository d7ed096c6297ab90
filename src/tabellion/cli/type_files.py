"""Checks files of types, document types or others: every mistake with its line, column and fix."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

import typer

from tabellion.cli import output
from tabellion.engine.log import printable
from tabellion.errors import ConfigurationError
from tabellion.reading.types.yamlnode import TypeFileError

MISTAKES, UNREADABLE = 3, 5  #: exit codes
Kind = TypeVar("Kind")


def check_file(path: Path, read: Callable[[Path], Kind], summarize: Callable[[Kind], dict[str, Any]]) -> dict[str, Any]:
    """What is wrong with a file, or a summary of its type."""
    result: dict[str, Any] = {"file": str(path), "ok": False, "mistakes": [], "error": None}
    try:
        kind = read(path)
    except TypeFileError as error:
        return result | {"mistakes": [asdict(mistake) for mistake in error.mistakes]}
    except ConfigurationError as error:
        return result | {"error": str(error)}
    return result | {"ok": True, "type": summarize(kind)}


def report(results: Sequence[dict[str, Any]], counted: Sequence[str], none: str, *, json: bool) -> None:
    """Prints results of `check_file`, with what was `counted` in valid ones; exits with 3 or 5 if a file is wrong."""
    if json or not results:
        output.print_result(json, results, none)
    else:
        for result in results:
            _print_result(result, counted)
    if any(result["error"] for result in results):
        raise typer.Exit(UNREADABLE)
    if any(result["mistakes"] for result in results):
        raise typer.Exit(MISTAKES)


def _print_result(result: dict[str, Any], counted: Sequence[str]) -> None:
    if result["error"]:
        typer.echo(f"error: {printable(result['error'])}", err=True)
    elif result["ok"]:
        summary = result["type"]
        counts = "".join(f", {summary[name]} {name}" for name in counted)
        typer.echo(f"{result['file']}: ok, {summary['name']} {summary['version']}{counts}")
    for mistake in result["mistakes"]:
        typer.echo(f"{result['file']}:{mistake['line']}:{mistake['column']}: {printable(mistake['what'])}")
        if mistake["fix"]:
            first, *more = mistake["fix"].split("\n")
            for line in (f"   fix: {first}", *more):
                typer.echo(printable(line))
