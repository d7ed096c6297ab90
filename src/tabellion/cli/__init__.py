"""The command line: each command in its own file, heavy imports only where a command runs."""

from __future__ import annotations

import sys

from tabellion.cli.app import app
from tabellion.engine.errors import ConfigurationError, DeclarationError, StoreError, TabellionError, ValueRefused

#: Exit codes, stable: scripts read them.
OK, USAGE, CONFIGURATION, DATABASE, INPUT, PARTIAL = 0, 2, 3, 4, 5, 6


def main() -> None:
    """Runs the command line; every error of ours is one clear message and its own exit code."""
    try:
        app()
    except TabellionError as error:
        print(f"error: {error}", file=sys.stderr)  # noqa: T201 - the command line talks to people
        sys.exit(exit_code(error))


def exit_code(error: TabellionError) -> int:
    """The exit code of an error."""
    if isinstance(error, ConfigurationError | DeclarationError):
        return CONFIGURATION
    return DATABASE if isinstance(error, StoreError) and not isinstance(error, ValueRefused) else INPUT
