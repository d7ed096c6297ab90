"""Writes a queue's declaration as Python; every guess is marked with its reason."""

from __future__ import annotations

import keyword
from collections.abc import Sequence

from tabellion.monitor.adoption.guessing import Guess

HEAD = '''"""The queues of this project: `tabellion --queues THIS_FILE worker` works them.

Lines marked `guessed` were guessed by `tabellion adopt`: check each one, then remove its mark.
"""

from tabellion import Job, Queue  # noqa: F401
'''


def declaration_text(table: str, name: str | None, arguments: Sequence[Guess], proposed: str | None = None) -> str:
    """A module with one queue; `proposed` is a line that is written as a comment."""
    variable = _variable(name or table)
    lines = [HEAD, f"{variable} = Queue(", f"    {table!r},", *([f"    name={name!r},"] if name else [])]
    for guess in arguments:
        mark = f"  # guessed: {' '.join(guess.why.split())}" if guess.why else ""
        lines.append(f"    {guess.argument}={guess.value!r},{mark}")
    lines += [f"    # {proposed}"] if proposed else []
    lines += [
        ")",
        "",
        "",
        "# Write the handler and uncomment it: job['column'] is the row's value,",
        "# and the columns you return are written together with `done`.",
        f"# @{variable}.handler",
        "# async def work(job: Job) -> dict:",
        "#     return {}",
        "",
    ]
    return "\n".join(lines)


def _variable(text: str) -> str:
    bare = "".join(char if char.isalnum() else "_" for char in text.rpartition(".")[2]).lower()
    variable = bare if bare.isidentifier() else f"queue_{bare}"
    return f"{variable}_" if keyword.iskeyword(variable) or variable in ("Job", "Queue") else variable
