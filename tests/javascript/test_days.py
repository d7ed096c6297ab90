"""Days are calendar days of the browser's time zone, also where clocks change."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.javascript.__main__ import ROOT, NotCheckedError, node_commands

DAYS = ROOT / "src/tabellion/pipelines/documents/static/days.js"


def evaluate(module: Path, names: str, expression: str, zone: str) -> Any:
    """Return an expression's value with these exports of a module, in this time zone."""
    try:
        node, _ = node_commands()
    except NotCheckedError as error:
        pytest.skip(str(error))
    script = f"const {{ {names} }} = await import({module.as_uri()!r}); console.log(JSON.stringify({expression}))"
    done = subprocess.run(
        [*node, "--no-warnings", "--input-type=module", "-e", script], capture_output=True, text=True, check=True,
        env=os.environ | {"TZ": zone},
    )  # fmt: skip
    return json.loads(done.stdout)


def test_a_day_on_which_clocks_change_ends_at_midnight() -> None:
    """It has 23 or 25 hours; thirty days ago is the same time of day; elsewhere a day has 24 hours."""
    days = ["2026-03-29", "2026-10-25", "2026-06-01"]
    # Half an hour after midnight, an hour less would be another day; half an hour before, an hour more.
    times = ["2026-04-01T00:30:00", "2026-11-01T23:30:00"]
    expression = f"""[
        {days}.map((day) => (addDays(startOf(day), 1) - startOf(day)) / 3600000),
        {days}.map((day) => dayOf(addDays(startOf(day), 1))),
        {times}.map((time) => dayOf(addDays(new Date(time), -29))),
    ]"""
    lengths, following, earlier = evaluate(DAYS, "addDays, dayOf, startOf", expression, "Europe/Berlin")
    assert lengths == [23, 25, 24]
    assert following == ["2026-03-30", "2026-10-26", "2026-06-02"]
    assert earlier == ["2026-03-03", "2026-10-03"]
