"""The command line: each command in its own file, which is imported only when the command runs."""

from __future__ import annotations

import contextlib
import io
import os
import sys
import traceback

from tabellion import extras
from tabellion.cli.app import app
from tabellion.errors import ConfigurationError, DeclarationError, StoreError, TabellionError, ValueRefused

#: Exit codes, stable: scripts read them.
OK, USAGE, CONFIGURATION, DATABASE, INPUT, PARTIAL = 0, 2, 3, 4, 5, 6


def main() -> None:
    """Runs the command line; each of our errors is one message and an exit code."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # file names need not be UTF-8
    try:
        app()
    except TabellionError as error:
        if os.environ.get("TABELLION_DEBUG"):
            traceback.print_exc()
        print(f"error: {error}", file=sys.stderr)  # noqa: T201 - the command line talks to people
        sys.exit(exit_code(error))
    except ModuleNotFoundError as error:
        missing = extras.explain(error)
        if missing is None or os.environ.get("TABELLION_DEBUG"):
            raise
        print(f"error: {missing}", file=sys.stderr)  # noqa: T201
        sys.exit(CONFIGURATION)
    except OSError as error:
        _close_output()
        where = "" if error.filename is None else f"{os.fsdecode(error.filename)}: "
        print(f"error: {where}{error.strerror or error}", file=sys.stderr)  # noqa: T201
        sys.exit(INPUT)
    except SystemExit as end:
        if not isinstance(end.__context__, BrokenPipeError):
            raise
        _close_output()  # the reader of our output has closed the pipe, which is not an error
        sys.exit(OK)


def _close_output() -> None:
    """Redirects standard output to nowhere, so that Python does not try to flush it at exit."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.close(nowhere)


def exit_code(error: TabellionError) -> int:
    """The exit code of an error."""
    if isinstance(error, ConfigurationError | DeclarationError):
        return CONFIGURATION
    return DATABASE if isinstance(error, StoreError) and not isinstance(error, ValueRefused) else INPUT
