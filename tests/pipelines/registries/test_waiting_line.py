"""The waiting line: first come, first served, also after a process died in it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tabellion.pipelines.registries.waiting_line import join_line

WAIT = """
import sys
from pathlib import Path
from tabellion.pipelines.registries.waiting_line import join_line

with join_line(Path(sys.argv[1])):
    print("in line", flush=True)
    sys.stdin.read()
"""


def test_who_came_first_is_next(tmp_path: Path) -> None:
    """When the first leaves, it is the turn of the second, not of the third."""
    with join_line(tmp_path) as second_to_leave:
        with join_line(tmp_path) as last:
            assert second_to_leave.is_first()
            assert not last.is_first()
        with join_line(tmp_path) as newest:
            assert not newest.is_first()
    with join_line(tmp_path) as alone:
        assert alone.is_first()
    assert list(tmp_path.iterdir()) == []


def test_a_process_that_dies_leaves_the_line(tmp_path: Path) -> None:
    """Killed, it can no longer hold the others up; its place is removed."""
    with subprocess.Popen(
        [sys.executable, "-c", WAIT, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as waiting:
        assert waiting.stdout is not None
        assert waiting.stdout.readline() == "in line\n"
        with join_line(tmp_path) as ours:
            assert not ours.is_first()
            waiting.kill()
            waiting.wait()
            assert ours.is_first()
            assert [path.name for path in tmp_path.iterdir()] == [ours.name]
